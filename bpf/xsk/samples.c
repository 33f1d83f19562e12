// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "samples.h"
#include "util.h"

int samples_open(struct samples *s, const char *path, __u64 room)
{
	FILE *file;

	*s = (struct samples){};
	if (!path[0])
		return 0;
	/* now, not after an hour of traffic */
	file = fopen(path, "we");
	if (!file)
		return fail(-errno, "cannot write samples: %s: %s", path,
			    strerror(errno));
	fclose(file);
	s->records = malloc(room * sizeof(*s->records));
	if (!s->records)
		return fail(-ENOMEM,
			    "cannot allocate: samples_max %llu: lower it",
			    room);
	/* no page faults later */
	memset(s->records, 0, room * sizeof(*s->records));
	s->room = room;
	return 0;
}

int samples_write(const struct samples *s, const char *path)
{
	FILE *file;
	bool ok;

	if (!s->records)
		return 0;
	file = fopen(path, "we");
	ok = file && fwrite(s->records, sizeof(*s->records), s->count, file) ==
			     s->count;
	if (file && fclose(file))
		ok = false;
	return ok ? 0 :
		    fail(-EIO, "cannot write samples: %s: %s", path,
			 strerror(errno));
}

void samples_close(struct samples *s)
{
	free(s->records);
	*s = (struct samples){};
}
