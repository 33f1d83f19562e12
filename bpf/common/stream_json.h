/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What became of a stream in the trial, as both testers print it. */
#ifndef XDPLAB_STREAM_JSON_H
#define XDPLAB_STREAM_JSON_H

#include <stdbool.h>
#include "stream.h"

struct stream_figures {
	__u64 trial_ns; /* when it began */
	__u64 end_ns;
	__u64 sent;
	__u64 numbered; /* sent, or dropped after they had a sequence */
	__u64 refused;	/* intended, and not sent */
	__u64 received;
	__u64 duplicated;
	__u64 out_of_order;
	__u64 beyond_window;
	/* where frames were missing */
	__u64 longest_gap_ns;
	bool any_lost;
	__u64 last_lost;
	__u64 next; /* sequence after the highest that arrived */
	/* distributions, which are used up */
	json_t *latency;  /* NULL: not measured */
	json_t *lateness; /* NULL: no schedule */
};

json_t *stream_json(const struct stream *s, const struct gen_stream *g,
		    const struct stream_figures *f);

#endif
