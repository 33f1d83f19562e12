// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <string.h>
#include "arrival.h"
#include "departure.h"
#include "stages.h"

void stages_add(struct stages *s, const struct frame *f, __u64 now)
{
	struct arrival_times at;
	__s64 driver, stack;
	__u64 sent;

	memcpy(&at, f->data - sizeof(at), sizeof(at));
	/* what is left here must not pass for that of the next frame */
	memset(f->data - sizeof(at), 0, sizeof(at));
	if (at.magic != ARRIVAL_MAGIC) {
		s->unstamped++;
		return;
	}
	stack = now - at.software_ns;
	if (at.hardware_ns) {
		driver = at.tai_ns - at.hardware_ns;
		s->hardware++;
	} else {
		sent = frame_departure(f);
		if (!sent) {
			s->unstamped++;
			return;
		}
		driver = at.software_ns - sent;
		s->software++;
	}
	s->reversed += driver < 0 || stack < 0;
	distribution_add(&s->driver, driver);
	distribution_add(&s->stack, stack);
	distribution_add(&s->complete, driver + stack);
}

json_t *stages_json(const struct stages *s)
{
	json_t *json = json_object();

	json_object_set_new(json, "hardware", json_integer(s->hardware));
	json_object_set_new(json, "software", json_integer(s->software));
	json_object_set_new(json, "unstamped", json_integer(s->unstamped));
	json_object_set_new(json, "reversed", json_integer(s->reversed));
	json_object_set_new(json, "driver", distribution_json(&s->driver));
	json_object_set_new(json, "stack", distribution_json(&s->stack));
	json_object_set_new(json, "complete", distribution_json(&s->complete));
	return json;
}
