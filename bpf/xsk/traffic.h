/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Frames of our own: what roles gen, ping and probe have in common. */
#ifndef XSK_TRAFFIC_H
#define XSK_TRAFFIC_H

#include "account.h"
#include "batch.h"
#include "gen.h"
#include "samples.h"
#include "user_sender.h"
#include "worker.h"

struct traffic {
	struct gen_thread gen;
	struct gen_stream streams[GEN_STREAMS];
	struct choice_column *choices;
	int index[GEN_STREAMS];
	struct user_sender sending; /* probe */
	__u64 *lateness;	    /* HDR_COUNTS per stream; probe */
	struct account account;
	struct samples samples;
	struct batch in_flight; /* ping */
	__u64 done_ns;		/* the last has left; probe */
	__u64 finish_ns;	/* it was ended before its time; probe */
};

/* Returns NULL after one line on stderr. */
struct traffic *traffic_open(const struct options *o);
void traffic_close(struct traffic *t);

/* Take what has arrived at @io.  Returns how many frames, or -errno. */
int traffic_receive(struct traffic *t, struct io *io);

/* Each frame that was sent: duplicates do not make up for it. */
bool traffic_all_arrived(const struct traffic *t, const struct options *o);

/* Into @root: frames of no stream, and those of them of earlier runs. */
void traffic_add_others(const struct traffic *t, json_t *root);

/* The JSON of all streams in a trial that ended @end_ns. */
json_t *traffic_json(const struct traffic *t, const struct options *o,
		     __u64 end_ns);

#endif
