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

#ifndef CONNTRACK_OFFLOAD_H
#define CONNTRACK_OFFLOAD_H 1

#include <stdbool.h>
#include <stdint.h>

#include "conntrack.h"
#include "openvswitch/types.h"

/* Offload of established connections.
 *
 * The connection tracker tells an offload the connections whose state stays as
 * it is with every packet that is neither wrong nor the end of the connection.
 * The offload tracks such packets, and leaves all others to the connection
 * tracker. */

/* What is known of the TCP packets that an end has sent, as in struct
 * tcp_peer. */
struct ct_offload_peer {
    uint32_t seqlo;
    uint32_t seqhi;
    uint16_t max_win;
    uint8_t shift;              /* Of windows, both ends considered. */
};

/* A connection: index 0 is for packets in its original direction, 1 for those
 * in the other one. */
struct ct_offload_conn {
    ovs_be16 dl_type;
    uint8_t nw_proto;
    uint16_t zone;
    union ct_addr src[2], dst[2];
    ovs_be16 tp_src[2], tp_dst[2];
    uint8_t ct_state[2];
    uint32_t mark;              /* Its label is 0. */
    uint32_t pps;               /* Packets per second, 0 with the first one. */
    struct conn *conn;
    /* Ends the offload of another connection, by the identifier that 'add'
     * returned for it.  Returns true if successful.  NULL if that is not
     * possible. */
    bool (*yield)(struct conn *, uint32_t id);
    struct ct_offload_peer peers[2];    /* If it is TCP. */
};

/* Thread-safe, but for calls for the same connection, which are made one after
 * the other, except for 'used'. */
struct ct_offload {
    /* Returns an identifier, or 0 if the offload does not want it.  It is
     * asked again for a connection that has packets. */
    uint32_t (*add)(const struct ct_offload_conn *);

    /* No packet is tracked by the offload after this, but for those that it
     * has begun to. */
    void (*del)(uint32_t id);

    /* Of a TCP connection. */
    void (*get_peers)(uint32_t id, struct ct_offload_peer peers[2]);
    void (*set_peers)(uint32_t id, const struct ct_offload_peer peers[2]);

    /* Returns when the last packet was tracked, as time_msec() does, or 0. */
    long long int (*used)(uint32_t id);
};

/* Sets the offload of all connection trackers, for the life of the process. */
void conntrack_set_offload(const struct ct_offload *);

#endif /* conntrack-offload.h */
