/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Raw samples, kept in memory while traffic runs and written at the end:
 * records of 24 bytes in host byte order, the first samples_max of them.
 */
#ifndef XSK_SAMPLES_H
#define XSK_SAMPLES_H

#include <linux/types.h>

struct sample {
	__u64 sent_ns; /* CLOCK_MONOTONIC */
	__u64 latency_ns;
	__u32 seq; /* the lowest bits */
	__u32 stream;
};

struct samples {
	struct sample *records; /* NULL: not wanted */
	__u64 room;
	__u64 count;  /* of those kept */
	__u64 missed; /* there was no room */
};

/* Returns 0 or -errno after one line on stderr. */
int samples_open(struct samples *s, const char *path, __u64 room);
int samples_write(const struct samples *s, const char *path);
void samples_close(struct samples *s);

static inline void samples_add(struct samples *s, __u32 stream, __u64 seq,
			       __u64 sent_ns, __u64 latency_ns)
{
	if (!s->records)
		return;
	if (s->count == s->room) {
		s->missed++;
		return;
	}
	s->records[s->count++] = (struct sample){ .sent_ns = sent_ns,
						  .latency_ns = latency_ns,
						  .seq = seq,
						  .stream = stream };
}

#endif
