/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What became of a stream in the trial, as both testers print it. */
#ifndef XDPLAB_STREAM_JSON_H
#define XDPLAB_STREAM_JSON_H

#include <stdbool.h>
#include <jansson.h>
#include "arrivals.h"
#include "stream_types.h"

struct stream_figures {
	__u64 trial_ns; /* when it began */
	__u64 end_ns;
	__u64 sent;
	__u64 numbered; /* sent, or dropped after they had a sequence */
	__u64 refused;	/* intended, and not sent */
	struct arrivals arrived;
	bool in_turns; /* no two CPUs received at a time: gaps are known */
	const __u64 *window; /* of its sequences, or NULL */
	/* distributions, which are used up */
	json_t *latency;  /* NULL: not measured */
	json_t *lateness; /* NULL: no schedule */
};

/* count, min_ns, max_ns, mean_ns, hdr; @min_inv is ~min, @counts HDR_COUNTS. */
json_t *distribution_pack(__u64 count, double sum_ns, __u64 min_inv,
			  __u64 max_ns, const __u64 *counts);

/* How late a stream's frames left; @counts: HDR_COUNTS. */
json_t *lateness_json(const struct gen_stream *g, const __u64 *counts);

json_t *stream_json(const struct stream *s, const struct gen_stream *g,
		    const struct stream_figures *f);

#endif
