/*
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at:
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */

#ifndef XDP_FLOW_TABLE_H
#define XDP_FLOW_TABLE_H 1

#include <stdbool.h>
#include <stdint.h>

#include "util.h"

/* The flow table of an AF_XDP port: an XDP program that sends packets of known
 * flows on, or drops them, before they get to the socket.
 *
 * A table lives as long as its netdev.  Its program and maps come with
 * xdp_flow_table_load(), and stay while the program is detached and attached
 * again, so that flows survive a reconfiguration of the sockets.
 *
 * Thread-safe. */

#define XDP_FLOW_DEFAULT_ENTRIES    16384
#define XDP_FLOW_MIN_ENTRIES        64
#define XDP_FLOW_DEFAULT_MASKS      32

struct json;
struct smap;

#ifdef HAVE_XDP_OFFLOAD

#include "xdp-flow-table-abi.h"

BUILD_ASSERT_DECL(XDP_FLOW_DEFAULT_MASKS <= XFT_MAX_MASKS);

struct xdp_flow;
struct xdp_flow_table;

/* What a flow matches: 'mask_id' of both is 0, bits that are not in 'mask' are
 * 0 in 'key'. */
struct xdp_flow_match {
    enum xft_family family;
    union xft_key key;
    union xft_key mask;
};

struct xdp_flow_action {
    struct xdp_flow_table *output;  /* Of another port, NULL to drop, or to
                                     * look the packet up again. */
    uint16_t edit_flags;            /* XFT_F_* of 'edit', 0 for none. */
    struct xft_edit edit;
};

struct xdp_flow_stats {
    uint64_t n_packets;
    uint64_t n_bytes;
    long long int used;             /* In milliseconds, 0 if never. */
    uint16_t tcp_flags;
};

/* Of a port. */
struct xdp_flow_counters {
    uint64_t packets;
    uint64_t bytes;
    uint64_t misses;
    uint64_t undecided;
    uint64_t unsendable;
    uint64_t recirculated;          /* Of 'packets' those of several flows. */
    uint64_t lost;                  /* Not sent by outputs after all. */
    uint64_t refused;               /* By the port, as an output. */
    uint64_t max_len;               /* Of frames that programs send to it. */
    uint64_t n_flows;               /* In the program. */
    uint64_t n_waiting;             /* For room in it. */
    uint64_t n_masks;
    uint64_t overtaken;             /* That were in the queues when flows did
                                     * not wait any longer: at the most. */
    uint64_t n_conns;               /* In the programs of all ports. */
};

struct xdp_flow_table *xdp_flow_table_create(const char *name);
void xdp_flow_table_destroy(struct xdp_flow_table *);

int xdp_flow_table_load(struct xdp_flow_table *, int n_queues,
                        uint32_t n_entries, uint32_t n_masks, int ifindex);
int xdp_flow_table_program_fd(const struct xdp_flow_table *);
int xdp_flow_table_set_socket(struct xdp_flow_table *, int queue_id, int fd);
int xdp_flow_table_attach(struct xdp_flow_table *, int ifindex,
                          uint32_t flags);
bool xdp_flow_table_detach(struct xdp_flow_table *);
void xdp_flow_table_set_reason(struct xdp_flow_table *, const char *reason);
bool xdp_flow_table_output_changed(struct xdp_flow_table *);
bool xdp_flow_table_update_output(struct xdp_flow_table *, int ifindex,
                                  int mtu, bool up, bool retry,
                                  const char *refusal);
bool xdp_flow_table_is_pending(const struct xdp_flow_table *);
void xdp_flow_table_drained(struct xdp_flow_table *, int queue_id,
                            uint32_t n_left);
char *xdp_flow_table_status(struct xdp_flow_table *);
const char *xdp_flow_table_output_status(struct xdp_flow_table *);
void xdp_flow_table_get_counters(struct xdp_flow_table *,
                                 struct xdp_flow_counters *);

int xdp_flow_add(struct xdp_flow_table *, const struct xdp_flow_match *,
                 const struct xdp_flow_action *, struct xdp_flow **);
int xdp_flow_modify(struct xdp_flow *, const struct xdp_flow_action *);
void xdp_flow_delete(struct xdp_flow *, struct xdp_flow_stats *);
bool xdp_flow_is_waiting(const struct xdp_flow *);
bool xdp_flow_get_stats(struct xdp_flow *, uint64_t n_processed,
                        struct xdp_flow_stats *);

#endif /* HAVE_XDP_OFFLOAD */
#endif /* xdp-flow-table.h */
