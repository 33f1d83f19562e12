/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The receiving side of one port. */
#ifndef XDPGEN_RECEIVER_H
#define XDPGEN_RECEIVER_H

#include "attach.h"
#include "config.h"
#include "receiver_shared.h"

/* How much of each there is. */
struct rx_room {
	int slots;
	int flows;
	int histograms;
	int choices;
};

/* What programs write, as it is mapped here. */
enum rx_array {
	RX_WINDOW,
	RX_NEXT_EXPECTED,
	RX_BY_FLOW,
	RX_LATENCY,
	RX_CHOICES,
	RX_ARRAYS
};

struct rx_values {
	void *at;
	size_t bytes;
};

struct receiver {
	const struct port *port;
	struct receiver_bpf *skel;
	const struct bpf_program *prog; /* of these, for its port */
	struct attachment at;
	struct rx_stream table[GEN_STREAMS]; /* by stream id */
	struct rx_values values[RX_ARRAYS];
	struct rx_room wanted; /* by the trial */
	struct rx_room room;   /* in the maps */
	bool by_flow;
	bool draws;
	int trailer_at; /* of requests, 0: at the end */
	int cpus;
};

/*
 * Load and attach the programs of cfg->ports[index] (nothing for rx "none").
 * Those of an earlier trial on that port are still loaded: they stay if their
 * maps have room.  Returns 0 or -errno after one line on stderr.
 */
int receiver_open(struct receiver *r, const struct config *cfg, int index,
		  __u8 epoch);
/* Receive no more; what was counted can still be read. */
void receiver_detach(struct receiver *r);
void receiver_close(struct receiver *r);

/*
 * Sum of a stream's counters over all CPUs.  @in_turns, if it is not NULL: was
 * there no time in which two CPUs received?  Only then its gaps are known.
 */
int receiver_read(const struct receiver *r, int id, struct rx_counters *sum,
		  bool *in_turns);

/* The window of a stream's sequences, or NULL if it is not received here. */
const __u64 *receiver_window(const struct receiver *r, int id);

/* Counters of the port, and frames of the trial by CPU (r->cpus entries). */
int receiver_read_port(const struct receiver *r, struct rx_port_counters *sum,
		       __u64 *by_cpu);

/* The latency counts of a stream, or NULL for a load stream. */
const __u64 *receiver_latency(const struct receiver *r, int id);

/* What arrived of each flow of a stream, or NULL if that was not asked for. */
const struct rx_flow *receiver_flows(const struct receiver *r, int id);

#endif
