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

#include <config.h>

#include "xdp-flow-table.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bitmap.h"
#include "conntrack-offload.h"
#include "coverage.h"
#include "entropy.h"
#include "hash.h"
#include "heap.h"
#include "netlink.h"
#include "netlink-socket.h"
#include "openvswitch/hmap.h"
#include "openvswitch/list.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/thread.h"
#include "openvswitch/vlog.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "packets.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(xdp_flow_table);

COVERAGE_DEFINE(xdp_conn_deferred);
COVERAGE_DEFINE(xdp_conn_no_room);
COVERAGE_DEFINE(xdp_conn_replaced);

/* A flow whose queues do not get empty is used after this time all the same,
 * and overtakes what is in the queues. */
#define MAX_DRAIN_MS        10

/* A flow takes the place of another one, or of all flows of a mask, if it has
 * more than twice as many packets per second, and that many more.  Rates are
 * of at least RATE_MS. */
#define RATE_MS             200
#define NEW_MASK_MS         1000    /* Its flows may have no rates before. */
#define MIN_PPS             10

/* How often masks are sorted, in milliseconds. */
#define SORT_MS             1000

/* Places of connections at which one that finds none looks for a slower one,
 * and connections that get one in a second with their first packet. */
#define CONN_LOOKS          32
#define CONNS_AT_ONCE       1000

/* For how long programs do not send to a device that refused packets. */
#define MIN_BACKOFF_MS      1000
#define MAX_BACKOFF_MS      64000
#define NEVER               (LLONG_MAX / 2)

/* Entries beyond those that flows may use: for flows that take the place of
 * others, whose entries programs may still look at. */
#define SPARE_ENTRIES(N)    MAX((N) / 8, 64)

/* Of linux/netdev.h, which is younger than other headers may be. */
#define OVS_NETDEV_CMD_DEV_GET          1
#define OVS_NETDEV_A_DEV_IFINDEX        1
#define OVS_NETDEV_A_DEV_XDP_FEATURES   3
#define OVS_NETDEV_XDP_ACT_NDO_XMIT     (1 << 2)

/* Of linux/bpf.h. */
#define OVS_BPF_F_XDP_DEV_BOUND_ONLY    (1 << 6)

/* The object file of the program. */
static const OVS_ALIGNED_VAR(8) unsigned char object_file[] = {
#include "lib/xdp-flow-table.bpf.inc"
};

/* Grace periods of the kernel's RCU.  Once one has begun and ended after an
 * element of a map was taken out of use, no program looks at it any more, and
 * none counts for it.  They have numbers, from 1; a thread waits for them. */
static struct ovs_mutex grace_mutex = OVS_MUTEX_INITIALIZER;
static pthread_cond_t grace_cond = PTHREAD_COND_INITIALIZER;
static uint64_t grace_next OVS_GUARDED_BY(grace_mutex) = 1;
static uint64_t grace_wanted OVS_GUARDED_BY(grace_mutex);
static atomic_uint64_t grace_done = 0;  /* The last one that is over. */
static int grace_map_fd = -1;

/* Outputs of all ports.  Their maps are created with the first table that is
 * loaded. */
static struct ovs_mutex outputs_mutex = OVS_MUTEX_INITIALIZER;
static struct bpf_object *watch_object OVS_GUARDED_BY(outputs_mutex);
/* Of programs that tell what devices refuse, as long as the process lives. */
static struct bpf_link *watch_links[2];
static int output_devs_fd = -1;
static int output_of_ifindex_fd = -1;
static int lost_fd = -1;
static struct xft_output *outputs;
static unsigned long outputs_used[BITMAP_N_LONGS(XFT_MAX_OUTPUTS)]
    OVS_GUARDED_BY(outputs_mutex);
static uint64_t output_freed[XFT_MAX_OUTPUTS] /* Grace periods. */
    OVS_GUARDED_BY(outputs_mutex);

/* Numbers of elements of a map that are not in use, the longest first. */
struct pool {
    uint32_t *elems;
    uint64_t *freed;                /* The grace period to be over. */
    uint32_t head, n, size;
};

/* Connections of all ports.  Their maps are created with the outputs. */
struct conn_place {
    struct conn *conn;              /* NULL if it is free, or if its
                                     * connection cannot be told to go. */
    bool has_pps;
    uint32_t pps;                   /* As that of a flow. */
    uint32_t n_packets;             /* At 'rated'. */
    long long int rated;
};

static struct ovs_mutex conns_mutex = OVS_MUTEX_INITIALIZER;
static struct pool conns_pool OVS_GUARDED_BY(conns_mutex);
static struct conn_place *conn_places OVS_GUARDED_BY(conns_mutex);
static uint32_t conn_next_place OVS_GUARDED_BY(conns_mutex);
static long long int conn_next_look OVS_GUARDED_BY(conns_mutex);
static long long int conn_second OVS_GUARDED_BY(conns_mutex);
static unsigned int conn_n_at_once OVS_GUARDED_BY(conns_mutex);
static struct xft_conn *conns;
static int conn_index_fd = -1;

/* Flows that track packets, of all ports.  Without them the connection tracker
 * need not tell of connections. */
static atomic_count n_ct_flows = ATOMIC_COUNT_INIT(0);

struct xdp_mask {
    enum xft_family family;
    union xft_key key;              /* With its id. */
    unsigned int slot;              /* In the list that programs look at. */
    uint32_t n_flows;
    uint32_t n_of_class[XFT_N_CLASSES]; /* Flows of it. */
    struct ovs_list flows;
    uint64_t pps;                   /* Of all of them. */
    long long int created;
    struct ovs_list list_node;      /* In 'masks' of the table. */
};

/* Changes of packets, which flows share. */
struct xdp_edit {
    struct hmap_node node;          /* In 'edits' of the table. */
    struct xft_edit edit;
    uint32_t index;                 /* In the map. */
    uint32_t n_flows;
};

/* A map of the program in our memory. */
struct xdp_map {
    int fd;
    void *data;
    size_t size;
};

/* The program with its maps. */
struct xdp_program {
    struct bpf_object *object;      /* NULL if there is none. */
    int fd;
    int xsks_fd;
    struct xdp_map masks_map, buckets_map, entries_map, counters_map;
    struct xdp_map edits_map, lost_map;
    struct xft_config config;
    int ifindex;                    /* Of the only device that may have it,
                                     * or 0. */
    uint32_t n_entries;
    uint32_t entry_size;
    struct pool entries;
    struct pool edits;
};

struct xdp_flow_table {
    char *name;
    struct ovs_mutex mutex;         /* Protects all below. */

    /* The program. */
    struct xdp_program prog;
    uint32_t n_masks;
    struct hmap edits;              /* Of struct xdp_edit. */
    int link_fd;                    /* -1 while it is not attached.  Changed by
                                     * the thread that configures the port. */
    char *reason;                   /* Why there is none, NULL if it is
                                     * there or about to come back. */

    struct xdp_flow_counters old_counters; /* Before it was loaded. */

    /* The port as an output. */
    uint32_t output;
    int output_ifindex;             /* In the map, 0 for none. */
    uint32_t output_max_len;
    const char *output_reason;      /* Why it is none. */
    long long int output_backoff;   /* In milliseconds, since it refused */
    long long int output_retry;     /* packets, and when that ends. */

    /* Flows. */
    struct ovs_list flows;
    struct ovs_list pending;        /* Those not active yet, the oldest
                                     * first. */
    uint64_t pending_seq;           /* Of the last one. */
    uint64_t drained_seq[XFT_MAX_QUEUES]; /* Of the last one that was there
                                     * when the queue was empty. */
    uint32_t n_queued[XFT_MAX_QUEUES]; /* Packets, when its thread looked last
                                        * with flows that are pending. */
    uint64_t n_overtaken;
    atomic_count n_pending;
    struct ovs_list ending;         /* Those that lost their place, in the
                                     * order in which they did. */
    uint32_t n_flows;
    uint32_t n_placed;              /* Those that have a place. */
    struct xdp_flow **flow_of_entry;
    struct heap slowest;            /* Those that have a rate, too. */
    struct ovs_list masks;          /* The busiest first, but for changes since
                                     * they were sorted. */
    bool masks_sorted;              /* Programs do not know yet. */
    long long int next_sort;
    uint32_t last_mask_id;
    uint64_t masks_switched[XFT_N_FAMILIES]; /* The grace period to be over
                                              * before that is done again. */
};

struct xdp_flow {
    struct xdp_flow_table *table;
    struct ovs_list list_node;      /* In 'flows' of the table. */
    struct ovs_list pending_node;   /* In 'pending', if 'pending' is set. */
    struct xdp_flow_match match;
    struct xdp_flow_action action;
    struct xdp_mask *mask;          /* NULL if it has no place. */
    struct ovs_list mask_node;      /* In 'flows' of 'mask'. */
    uint64_t ending;                /* Not 0 if it has no place any more, but
                                     * an entry until this grace period is
                                     * over. */
    struct ovs_list ending_node;
    uint32_t entry;
    struct xdp_edit *edit;          /* NULL if 'action' has none. */
    uint32_t bucket;
    uint16_t tag;
    int slot;                       /* -1 if it is not active. */
    uint64_t pending;               /* Its number, until all queues have been
                                     * empty. */
    long long int deadline;         /* In milliseconds, for that. */
    struct xdp_flow_stats old;      /* Before it got its entry. */
    uint64_t told_packets;          /* What was told of it: packets that are */
    uint64_t told_bytes;            /* lost later must not be subtracted. */

    /* Its rate, whoever processes its packets. */
    uint64_t pps;
    bool has_pps;
    uint64_t n_packets;             /* At 'rated'. */
    long long int rated;
    struct heap_node heap_node;     /* In 'slowest' with place and rate. */
};

/* Waits for grace periods that are asked for.  The kernel returns from a
 * change of a map of maps when no program runs that did before
 * (maybe_wait_bpf_programs()). */
static void *
grace_main(void *inner_fd_)
{
    uint32_t inner_fd = (uintptr_t) inner_fd_;
    const uint32_t zero = 0;

    /* This thread uses nothing that OVS's own RCU protects. */
    ovsrcu_quiesce_start();

    ovs_mutex_lock(&grace_mutex);
    for (;;) {
        uint64_t n;

        while (grace_wanted < grace_next) {
            ovs_mutex_cond_wait(&grace_cond, &grace_mutex);
        }
        n = grace_next++;
        ovs_mutex_unlock(&grace_mutex);

        while (bpf_map_update_elem(grace_map_fd, &zero, &inner_fd, 0)) {
            xnanosleep(1000 * 1000);
        }
        atomic_store_explicit(&grace_done, n, memory_order_release);

        ovs_mutex_lock(&grace_mutex);
    }
    OVS_NOT_REACHED();
}

static int
grace_start(void)
    OVS_REQUIRES(outputs_mutex)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts);
    int inner_fd;

    if (grace_map_fd >= 0) {
        return 0;
    }
    inner_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ovs_grace_inner",
                              sizeof(uint32_t), sizeof(uint32_t), 1, NULL);
    if (inner_fd < 0) {
        return errno;
    }
    opts.inner_map_fd = inner_fd;
    grace_map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "ovs_grace",
                                  sizeof(uint32_t), sizeof(uint32_t), 1,
                                  &opts);
    if (grace_map_fd < 0) {
        int error = errno;

        close(inner_fd);
        return error;
    }
    ovs_thread_create("xdp_grace", grace_main, (void *) (uintptr_t) inner_fd);
    return 0;
}

/* Returns the number of a grace period that begins from now on. */
static uint64_t
grace_request(void)
{
    uint64_t n;

    ovs_mutex_lock(&grace_mutex);
    n = grace_wanted = grace_next;
    xpthread_cond_signal(&grace_cond);
    ovs_mutex_unlock(&grace_mutex);
    return n;
}

static bool
grace_is_over(uint64_t n)
{
    uint64_t done;

    atomic_read_explicit(&grace_done, &done, memory_order_acquire);
    return done >= n;
}

static void
grace_wait(uint64_t n)
{
    while (!grace_is_over(n)) {
        xnanosleep(1000 * 1000);
    }
}

static void
pool_init(struct pool *pool, uint32_t size)
{
    pool->elems = xmalloc(size * sizeof *pool->elems);
    pool->freed = xcalloc(size, sizeof *pool->freed);
    for (uint32_t i = 0; i < size; i++) {
        pool->elems[i] = i;
    }
    pool->head = 0;
    pool->n = pool->size = size;
}

static void
pool_destroy(struct pool *pool)
{
    free(pool->elems);
    free(pool->freed);
    memset(pool, 0, sizeof *pool);
}

/* Returns true if there is an element that programs do not look at any
 * more. */
static bool
pool_has_room(const struct pool *pool)
{
    return pool->n && grace_is_over(pool->freed[pool->head]);
}

/* Takes such an element. */
static int
pool_alloc(struct pool *pool, uint32_t *elem)
{
    if (!pool_has_room(pool)) {
        return ENOSPC;
    }
    *elem = pool->elems[pool->head];
    pool->head = (pool->head + 1) % pool->size;
    pool->n--;
    return 0;
}

/* Gives back an element that programs do not look at once grace period 'freed'
 * is over. */
static void
pool_free(struct pool *pool, uint32_t elem, uint64_t freed)
{
    uint32_t tail = (pool->head + pool->n++) % pool->size;

    pool->elems[tail] = elem;
    pool->freed[tail] = freed;
}

static void
map_close(struct xdp_map *map)
{
    if (map->data) {
        munmap(map->data, map->size);
        map->data = NULL;
    }
}

static int
map_open(struct xdp_map *map, const struct bpf_object *object,
         const char *name, size_t elem_size, size_t n)
{
    map->fd = bpf_object__find_map_fd_by_name(object, name);
    if (map->fd < 0) {
        return -map->fd;
    }
    map->size = ROUND_UP(elem_size * n, get_page_size());
    map->data = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED,
                     map->fd, 0);
    if (map->data == MAP_FAILED) {
        map->data = NULL;
        return errno;
    }
    return 0;
}

/* Returns the output that was not in use for the longest time, or UINT32_MAX
 * if there is none. */
static uint32_t
output_alloc(void)
{
    uint32_t output = UINT32_MAX;
    int best = -1;

    ovs_mutex_lock(&outputs_mutex);
    for (int i = 0; i < XFT_MAX_OUTPUTS; i++) {
        if (!bitmap_is_set(outputs_used, i)
            && (best < 0 || output_freed[i] < output_freed[best])) {
            best = i;
        }
    }
    if (best >= 0 && grace_is_over(output_freed[best])) {
        bitmap_set1(outputs_used, best);
        output = best;
        if (outputs) {
            memset(&outputs[output], 0, sizeof outputs[output]);
        }
    }
    ovs_mutex_unlock(&outputs_mutex);
    return output;
}

struct xdp_flow_table *
xdp_flow_table_create(const char *name)
{
    struct xdp_flow_table *t = xzalloc(sizeof *t);

    t->name = xstrdup(name);
    ovs_mutex_init(&t->mutex);
    t->link_fd = -1;
    t->reason = xstrdup("not configured");
    t->output = output_alloc();
    t->output_reason = "not configured";
    ovs_list_init(&t->flows);
    ovs_list_init(&t->pending);
    ovs_list_init(&t->ending);
    ovs_list_init(&t->masks);
    heap_init(&t->slowest);
    hmap_init(&t->edits);
    atomic_count_init(&t->n_pending, 0);
    return t;
}

static void
counters_add(const struct xdp_flow_table *t, struct xdp_flow_counters *dst)
{
    const volatile struct xft_counters *c = t->prog.counters_map.data;

    for (int i = 0; c && i < XFT_MAX_QUEUES; i++, c++) {
        dst->packets += c->packets;
        dst->bytes += c->bytes;
        dst->misses += c->misses;
        dst->undecided += c->undecided;
        dst->unsendable += c->unsendable;
        dst->recirculated += c->recirculated;
    }
}

/* Puts right what programs counted and outputs did not send. */
static void
counters_subtract_lost(const struct xdp_flow_table *t,
                       struct xdp_flow_counters *dst)
{
    if (outputs && t->output != UINT32_MAX) {
        const volatile struct xft_output *port = &outputs[t->output];

        dst->packets -= port->lost_packets;
        dst->bytes -= port->lost_bytes;
        dst->lost = port->lost_packets;
        dst->refused = port->n_refused;
    }
}

static void
program_unload(struct xdp_program *p)
{
    map_close(&p->masks_map);
    map_close(&p->buckets_map);
    map_close(&p->entries_map);
    map_close(&p->counters_map);
    map_close(&p->edits_map);
    map_close(&p->lost_map);
    bpf_object__close(p->object);
    pool_destroy(&p->entries);
    pool_destroy(&p->edits);
    memset(p, 0, sizeof *p);
}

static void
table_unload(struct xdp_flow_table *t)
    OVS_REQUIRES(t->mutex)
{
    counters_add(t, &t->old_counters);
    program_unload(&t->prog);
}

/* Tells programs the largest frame they may send to the port of 't', 0 to
 * leave all of them to the sockets. */
static void
output_set_max_len(struct xdp_flow_table *t, uint32_t max_len)
    OVS_REQUIRES(t->mutex)
{
    if (max_len != t->output_max_len) {
        t->output_max_len = max_len;
        atomic_store_explicit(
            (ATOMIC(uint32_t) *) &outputs[t->output].max_len, max_len,
            memory_order_release);
    }
}

static void
output_remove_device(struct xdp_flow_table *t)
    OVS_REQUIRES(t->mutex)
{
    if (t->output_ifindex) {
        uint32_t ifindex = t->output_ifindex;

        bpf_map_delete_elem(output_devs_fd, &t->output);
        bpf_map_delete_elem(output_of_ifindex_fd, &ifindex);
        t->output_ifindex = 0;
    }
}

static void
output_free(struct xdp_flow_table *t)
    OVS_REQUIRES(t->mutex)
{
    if (t->output != UINT32_MAX) {
        output_set_max_len(t, 0);
        output_remove_device(t);

        ovs_mutex_lock(&outputs_mutex);
        bitmap_set0(outputs_used, t->output);
        output_freed[t->output] = grace_request();
        ovs_mutex_unlock(&outputs_mutex);
    }
}

void
xdp_flow_table_destroy(struct xdp_flow_table *t)
{
    if (!t) {
        return;
    }

    ovs_mutex_lock(&t->mutex);
    ovs_assert(ovs_list_is_empty(&t->flows));
    if (t->link_fd >= 0) {
        close(t->link_fd);
    }
    output_free(t);
    if (t->prog.object) {
        table_unload(t);
    }
    ovs_mutex_unlock(&t->mutex);

    free(t->flow_of_entry);
    heap_destroy(&t->slowest);
    hmap_destroy(&t->edits);
    ovs_mutex_destroy(&t->mutex);
    free(t->reason);
    free(t->name);
    free(t);
}

void
xdp_flow_table_set_reason(struct xdp_flow_table *t, const char *reason)
{
    ovs_mutex_lock(&t->mutex);
    free(t->reason);
    t->reason = xstrdup(reason);
    ovs_mutex_unlock(&t->mutex);
}

/* Maps that the programs of all ports share. */
static const char *shared_maps[] = {
    "outputs", "output_devs", "output_of_ifindex", "sent_log", "progress",
    "lost", "conn_index", "conns",
};

/* Attaches the programs that watch what becomes of packets. */
static void
watch_attach(void)
    OVS_REQUIRES(outputs_mutex)
{
    static const char *programs[ARRAY_SIZE(watch_links)] = {
        "ovs_flow_xmit", "ovs_flow_redirect_err",
    };
    struct xft_watch_config *config;
    struct bpf_map_info info;
    uint32_t size = sizeof info;
    struct xdp_map map;
    struct stat netns;

    memset(&info, 0, sizeof info);
    if (stat("/proc/self/ns/net", &netns)
        || bpf_obj_get_info_by_fd(output_devs_fd, &info, &size)
        || map_open(&map, watch_object, ".data.watch", sizeof *config, 1)) {
        VLOG_WARN("cannot watch what devices refuse: %s",
                  ovs_strerror(errno));
        return;
    }
    config = map.data;
    config->netns = netns.st_ino;
    config->output_devs_id = info.id;
    map_close(&map);

    for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
        struct bpf_program *prog;

        prog = bpf_object__find_program_by_name(watch_object, programs[i]);
        watch_links[i] = prog ? bpf_program__attach(prog) : NULL;
        if (!watch_links[i]) {
            VLOG_WARN("cannot watch what devices refuse: %s: %s", programs[i],
                      ovs_strerror(errno));
            return;
        }
    }
}

/* Fills in the key of packets in direction 'dir'. */
static void
conn_key_init(struct xft_conn_key *key, const struct ct_offload_conn *oc,
              int dir)
{
    memset(key, 0, sizeof *key);
    if (oc->dl_type == htons(ETH_TYPE_IPV6)) {
        memcpy(key->src, &oc->src[dir].ipv6, sizeof key->src);
        memcpy(key->dst, &oc->dst[dir].ipv6, sizeof key->dst);
        key->ipv6 = 1;
    } else {
        memcpy(key->src, &oc->src[dir].ipv4, sizeof oc->src[dir].ipv4);
        memcpy(key->dst, &oc->dst[dir].ipv4, sizeof oc->dst[dir].ipv4);
    }
    key->tp_src = (OVS_FORCE uint16_t) oc->tp_src[dir];
    key->tp_dst = (OVS_FORCE uint16_t) oc->tp_dst[dir];
    key->zone = oc->zone;
    key->nw_proto = oc->nw_proto;
}

static void
raise_seq(volatile __u32 *seq, uint32_t to)
{
    if ((int32_t) (to - *seq) > 0) {
        *seq = to;
    }
}

/* Programs may have seen later packets meanwhile: nothing goes back. */
static void
conn_set_peers(uint32_t id, const struct ct_offload_peer peers[2])
{
    struct xft_conn *conn = &conns[id - 1];

    for (int dir = 0; dir < 2; dir++) {
        volatile struct xft_peer *peer = &conn->peers[dir];

        raise_seq(&peer->seqlo, peers[dir].seqlo);
        raise_seq(&peer->seqhi, peers[dir].seqhi);
        peer->max_win = MAX(peer->max_win, peers[dir].max_win);
        peer->shift = peers[dir].shift;
    }
}

static void
conn_get_peers(uint32_t id, struct ct_offload_peer peers[2])
{
    const struct xft_conn *conn = &conns[id - 1];

    for (int dir = 0; dir < 2; dir++) {
        const volatile struct xft_peer *peer = &conn->peers[dir];

        peers[dir].seqlo = peer->seqlo;
        peers[dir].seqhi = peer->seqhi;
        peers[dir].max_win = peer->max_win;
        peers[dir].shift = peer->shift;
    }
}

static void
conn_free(uint32_t index)
{
    ovs_mutex_lock(&conns_mutex);
    conn_places[index].conn = NULL;
    pool_free(&conns_pool, index, grace_request());
    ovs_mutex_unlock(&conns_mutex);
}

/* Programs find nothing by the keys of a connection, and take what they have
 * found for none. */
static void
conn_del(uint32_t id)
{
    struct xft_conn *conn = &conns[id - 1];

    for (int dir = 0; dir < 2; dir++) {
        atomic_store_explicit((ATOMIC(uint8_t) *) &conn->ct_state[dir], 0,
                              memory_order_release);
        bpf_map_delete_elem(conn_index_fd, &conn->key[dir]);
    }
    conn_free(id - 1);
}

/* Updates the rate of the connection in a place. */
static void
conn_rate(uint32_t index, long long int now)
    OVS_REQUIRES(conns_mutex)
{
    const volatile struct xft_conn *conn = &conns[index];
    uint32_t n_packets = conn->packets[0] + conn->packets[1];
    struct conn_place *place = &conn_places[index];
    uint32_t pps;

    if (now < place->rated + RATE_MS) {
        return;
    }
    pps = (uint64_t) (n_packets - place->n_packets) * 1000
          / (now - place->rated);
    place->pps = place->has_pps ? (place->pps + pps) / 2 : pps;
    place->has_pps = true;
    place->n_packets = n_packets;
    place->rated = now;
}

/* Returns the place that a connection with 'pps' packets per second may take
 * from a slower one, or UINT32_MAX.  Looks at the next CONN_LOOKS places, once
 * in a millisecond. */
static uint32_t
conn_find_slow(uint32_t pps)
    OVS_REQUIRES(conns_mutex)
{
    long long int now = time_msec();
    uint32_t slowest = UINT32_MAX;

    if (now < conn_next_look) {
        return UINT32_MAX;
    }
    conn_next_look = now + 1;
    for (int i = 0; i < CONN_LOOKS; i++) {
        uint32_t index = conn_next_place;
        const struct conn_place *place = &conn_places[index];

        conn_next_place = (index + 1) % XFT_MAX_CONNS;
        if (place->conn) {
            conn_rate(index, now);
            if (place->has_pps
                && (slowest == UINT32_MAX
                    || place->pps < conn_places[slowest].pps)) {
                slowest = index;
            }
        }
    }
    return slowest != UINT32_MAX
           && pps > 2 * (uint64_t) conn_places[slowest].pps + MIN_PPS
           ? slowest : UINT32_MAX;
}

/* Returns true if a connection may be added with its first packet.  Most
 * connections that are many are short: what it costs to add and to delete them
 * is then left to those that have more packets. */
static bool
conn_at_once(void)
    OVS_REQUIRES(conns_mutex)
{
    long long int now = time_msec();

    if (now >= conn_second + 1000) {
        conn_second = now;
        conn_n_at_once = 0;
    }
    return conn_n_at_once++ < CONNS_AT_ONCE;
}

/* Takes a place.  If there is none, stores the one that the connection is to
 * have instead of its own in '*slow', with which to ask again, and its
 * connection in '*conn': UINT32_MAX for none. */
static bool
conn_alloc(const struct ct_offload_conn *oc, uint32_t *index, uint32_t *slow,
           struct conn **conn)
    OVS_EXCLUDED(conns_mutex)
{
    bool ok;

    *slow = UINT32_MAX;
    ovs_mutex_lock(&conns_mutex);
    if (!oc->pps && !conn_at_once()) {
        ok = false;
        COVERAGE_INC(xdp_conn_deferred);
    } else {
        ok = !pool_alloc(&conns_pool, index);
        if (ok) {
            struct conn_place *place = &conn_places[*index];

            memset(place, 0, sizeof *place);
            place->rated = time_msec();
        } else {
            COVERAGE_INC(xdp_conn_no_room);
            if (oc->yield && !conns_pool.n) {
                *slow = conn_find_slow(oc->pps);
                *conn = *slow != UINT32_MAX ? conn_places[*slow].conn : NULL;
            }
        }
    }
    ovs_mutex_unlock(&conns_mutex);
    return ok;
}

static uint32_t
conn_add(const struct ct_offload_conn *oc)
{
    uint32_t index, slow;
    struct conn *other;
    struct xft_conn *conn;

    if (!atomic_count_get(&n_ct_flows)) {
        return 0;
    }
    if (!conn_alloc(oc, &index, &slow, &other)) {
        /* RCU keeps 'other', even if it is being deleted. */
        if (slow != UINT32_MAX && oc->yield(other, slow + 1)) {
            COVERAGE_INC(xdp_conn_replaced);
        }
        return 0;
    }

    conn = &conns[index];
    memset(conn, 0, sizeof *conn);
    conn->mark = oc->mark;
    for (int dir = 0; dir < 2; dir++) {
        conn->peers[dir].seqlo = oc->peers[dir].seqlo;
        conn->peers[dir].seqhi = oc->peers[dir].seqhi;
        conn->peers[dir].max_win = oc->peers[dir].max_win;
        conn->peers[dir].shift = oc->peers[dir].shift;
        conn->ct_state[dir] = oc->ct_state[dir];
        conn_key_init(&conn->key[dir], oc, dir);
    }
    for (uint32_t dir = 0; dir < 2; dir++) {
        uint32_t value = 2 * index + dir;

        /* Another datapath may have the same connection. */
        if (bpf_map_update_elem(conn_index_fd, &conn->key[dir], &value,
                                BPF_NOEXIST)) {
            if (dir) {
                bpf_map_delete_elem(conn_index_fd, &conn->key[0]);
            }
            conn_free(index);
            return 0;
        }
    }

    ovs_mutex_lock(&conns_mutex);
    conn_places[index].conn = oc->conn;
    ovs_mutex_unlock(&conns_mutex);
    return index + 1;
}

static long long int
conn_used(uint32_t id)
{
    const volatile struct xft_conn *conn = &conns[id - 1];
    long long int now = time_msec();
    uint32_t now_units = now * 1000 * 1000 / XFT_USED_NS;
    int32_t age = INT32_MAX;

    if (!conn->packets[0] && !conn->packets[1]) {
        return 0;
    }
    for (int dir = 0; dir < 2; dir++) {
        if (conn->packets[dir]) {
            age = MIN(age, (int32_t) (now_units - conn->used[dir]));
        }
    }
    return now - MAX(age, 0) * (long long int) XFT_USED_NS / (1000 * 1000);
}

/* Lets the connection tracker tell of established connections. */
static void
conns_start(void)
    OVS_REQUIRES(outputs_mutex)
{
    static const struct ct_offload offload = {
        .add = conn_add,
        .del = conn_del,
        .get_peers = conn_get_peers,
        .set_peers = conn_set_peers,
        .used = conn_used,
    };
    struct xdp_map map;

    if (map_open(&map, watch_object, "conns", sizeof *conns,
                 XFT_MAX_CONNS)) {
        VLOG_WARN("cannot track connections: %s", ovs_strerror(errno));
        return;
    }
    conns = map.data;
    conn_index_fd = bpf_object__find_map_fd_by_name(watch_object,
                                                    "conn_index");
    ovs_mutex_lock(&conns_mutex);
    pool_init(&conns_pool, XFT_MAX_CONNS);
    conn_places = xcalloc(XFT_MAX_CONNS, sizeof *conn_places);
    ovs_mutex_unlock(&conns_mutex);
    conntrack_set_offload(&offload);
}

static int
outputs_create(void)
    OVS_REQUIRES(outputs_mutex)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "ovs_flow_watch");
    struct bpf_program *prog;
    struct xdp_map map;
    int error;

    if (outputs) {
        return 0;
    }
    error = grace_start();
    if (error) {
        return error;
    }

    /* Without BTF the kernel refuses the programs that watch. */
    for (int watch = 1; watch >= 0; watch--) {
        watch_object = bpf_object__open_mem(object_file, sizeof object_file,
                                            &opts);
        if (!watch_object) {
            return errno;
        }
        bpf_object__for_each_program (prog, watch_object) {
            bpf_program__set_autoload(
                prog, watch && bpf_program__type(prog)
                               != BPF_PROG_TYPE_XDP);
        }
        error = -bpf_object__load(watch_object);
        if (!error) {
            break;
        }
        bpf_object__close(watch_object);
        watch_object = NULL;
    }
    error = error ? error : map_open(&map, watch_object, "outputs",
                                     sizeof *outputs, XFT_MAX_OUTPUTS);
    if (error) {
        bpf_object__close(watch_object);
        watch_object = NULL;
        return error;
    }
    outputs = map.data;
    output_devs_fd = bpf_object__find_map_fd_by_name(watch_object,
                                                     "output_devs");
    output_of_ifindex_fd = bpf_object__find_map_fd_by_name(
        watch_object, "output_of_ifindex");
    lost_fd = bpf_object__find_map_fd_by_name(watch_object, "lost");
    watch_attach();
    conns_start();
    return 0;
}

/* Creates the map of what flows have counted and was not sent, and gives it to
 * the programs that count there. */
static int
lost_create(struct xdp_map *map, uint32_t port, uint32_t n_entries)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts,
                .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
    int error = 0;
    int fd;

    fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ovs_lost", sizeof(uint32_t),
                        sizeof(struct xft_lost), n_entries, &opts);
    if (fd < 0) {
        return errno;
    }
    map->size = ROUND_UP(sizeof(struct xft_lost) * n_entries,
                         get_page_size());
    map->data = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     0);
    if (map->data == MAP_FAILED) {
        map->data = NULL;
        error = errno;
    } else if (bpf_map_update_elem(lost_fd, &port, &fd, 0)) {
        error = errno;
    }
    close(fd);
    return error;
}

static int
program_load(struct xdp_program *p, const struct bpf_object *watch,
             uint32_t port, uint32_t n_entries, int n_queues, int ifindex)
{
    const char *prog_name = ifindex ? "ovs_flow_tags" : "ovs_flow_table";
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "ovs_flow_table");
    uint32_t n_buckets = MAX(ROUND_UP_POW2(n_entries) / 2, 8);
    uint32_t n_all = n_entries + SPARE_ENTRIES(n_entries);
    struct bpf_program *prog;
    struct bpf_map *map;
    int error;

    p->ifindex = ifindex;
    p->n_entries = n_entries;
    p->entry_size = xft_entry_size(n_queues);
    p->object = bpf_object__open_mem(object_file, sizeof object_file, &opts);
    if (!p->object) {
        return errno;
    }

    error = get_entropy(&p->config, sizeof p->config);
    if (error) {
        goto error;
    }
    p->config.multiplier |= 1;
    p->config.bucket_mask = n_buckets - 1;
    p->config.n_queues = n_queues;
    p->config.port = port;

    bpf_object__for_each_map (map, p->object) {
        const char *name = bpf_map__name(map);

        if (!strcmp(name, "entries")) {
            error = bpf_map__set_value_size(map, p->entry_size);
            if (error) {
                error = -error;
                goto error;
            }
        }
        error = !strcmp(name, ".rodata.cfg")
                ? bpf_map__set_initial_value(map, &p->config, sizeof p->config)
                : !strcmp(name, "buckets")
                ? bpf_map__set_max_entries(map, n_buckets)
                : !strcmp(name, "entries") || !strcmp(name, "edits")
                ? bpf_map__set_max_entries(map, n_all)
                : 0;
        for (size_t i = 0; !error && i < ARRAY_SIZE(shared_maps); i++) {
            if (!strcmp(name, shared_maps[i])) {
                /* Frees 'name'. */
                error = bpf_map__reuse_fd(
                    map, bpf_object__find_map_fd_by_name(watch, name));
                break;
            }
        }
        if (error) {
            error = -error;
            goto error;
        }
    }
    bpf_object__for_each_program (prog, p->object) {
        bool wanted = !strcmp(bpf_program__name(prog), prog_name);

        bpf_program__set_autoload(prog, wanted);
        if (wanted && ifindex) {
            bpf_program__set_ifindex(prog, ifindex);
            bpf_program__set_flags(prog, OVS_BPF_F_XDP_DEV_BOUND_ONLY);
        }
    }

    error = -bpf_object__load(p->object);
    if (error) {
        goto error;
    }
    prog = bpf_object__find_program_by_name(p->object, prog_name);
    p->fd = prog ? bpf_program__fd(prog) : -ENOENT;
    p->xsks_fd = bpf_object__find_map_fd_by_name(p->object, "xsks");
    if (p->fd < 0 || p->xsks_fd < 0) {
        error = ENOENT;
        goto error;
    }

    error = map_open(&p->masks_map, p->object, ".data.masks",
                     sizeof(struct xft_masks), XFT_N_FAMILIES);
    error = error ? error : map_open(&p->buckets_map, p->object, "buckets",
                                     sizeof(struct xft_bucket), n_buckets);
    error = error ? error : map_open(&p->entries_map, p->object, "entries",
                                     p->entry_size, n_all);
    error = error ? error : map_open(&p->edits_map, p->object, "edits",
                                     sizeof(struct xft_edit), n_all);
    error = error ? error : lost_create(&p->lost_map, port, n_all);
    error = error ? error : map_open(&p->counters_map, p->object,
                                     ".data.counters",
                                     sizeof(struct xft_counters),
                                     XFT_MAX_QUEUES);
    if (error) {
        goto error;
    }
    pool_init(&p->entries, n_all);
    pool_init(&p->edits, n_all);
    return 0;

error:
    program_unload(p);
    return error;
}

static struct xft_entry *
entry_of(const struct xdp_flow_table *t, uint32_t entry)
{
    return ALIGNED_CAST(struct xft_entry *,
                        (char *) t->prog.entries_map.data
                        + (size_t) entry * t->prog.entry_size);
}

/* The list of masks that programs look at. */
static struct xft_mask_list *
mask_list(const struct xdp_flow_table *t, enum xft_family family)
{
    struct xft_masks *masks = t->prog.masks_map.data;

    return &masks[family].list[masks[family].current];
}

static void
mask_update_classes(struct xdp_flow_table *t, const struct xdp_mask *mask)
    OVS_REQUIRES(t->mutex)
{
    struct xft_mask *dst = &mask_list(t, mask->family)->mask[mask->slot];
    uint64_t classes = 0;

    for (int i = 0; i < XFT_N_CLASSES; i++) {
        if (mask->n_of_class[i]) {
            classes |= UINT64_C(1) << i;
        }
    }
    atomic_store_explicit((ATOMIC(uint64_t) *) &dst->classes, classes,
                          memory_order_release);
}

/* Adds the masks of a family to a list without the masks that are not in use
 * any more, and makes programs look at that one.  Returns false if they may
 * still look at the list that it was before. */
static bool
masks_switch(struct xdp_flow_table *t, enum xft_family family)
    OVS_REQUIRES(t->mutex)
{
    struct xft_masks *masks = t->prog.masks_map.data;
    struct xft_masks *dst = &masks[family];
    struct xft_mask_list *list = &dst->list[!dst->current];
    struct xdp_mask *mask;

    if (!grace_is_over(t->masks_switched[family])) {
        return false;
    }
    list->n = 0;
    LIST_FOR_EACH (mask, list_node, &t->masks) {
        if (mask->family == family) {
            list->mask[list->n].key = mask->key;
            list->mask[list->n].classes =
                mask_list(t, family)->mask[mask->slot].classes;
            mask->slot = list->n++;
        }
    }
    atomic_store_explicit((ATOMIC(uint64_t) *) &dst->current, !dst->current,
                          memory_order_release);
    t->masks_switched[family] = grace_request();
    return true;
}

/* Sorts masks by packets per second, so that most packets are found early. */
static void
masks_sort(struct xdp_flow_table *t)
    OVS_REQUIRES(t->mutex)
{
    struct xdp_mask *mask, *next;
    struct ovs_list *pos;
    bool sorted = true;

    LIST_FOR_EACH_SAFE (mask, next, list_node, &t->masks) {
        const struct xdp_mask *prev;

        if (ovs_list_front(&t->masks) == &mask->list_node) {
            continue;
        }
        prev = CONTAINER_OF(mask->list_node.prev, struct xdp_mask, list_node);
        if (mask->pps > prev->pps + prev->pps / 4 + MIN_PPS) {
            sorted = false;
        }
    }
    if (sorted) {
        return;
    }

    LIST_FOR_EACH_SAFE (mask, next, list_node, &t->masks) {
        pos = mask->list_node.prev;
        while (pos != &t->masks
               && CONTAINER_OF(pos, struct xdp_mask, list_node)->pps
                  < mask->pps) {
            pos = pos->prev;
        }
        ovs_list_remove(&mask->list_node);
        ovs_list_insert(pos->next, &mask->list_node);
    }
    t->masks_sorted = true;
}

/* Lets programs look at no more masks than there are, and in their order. */
static void
masks_tidy(struct xdp_flow_table *t)
    OVS_REQUIRES(t->mutex)
{
    uint32_t n[XFT_N_FAMILIES] = { 0 };
    bool sorted = t->masks_sorted, done = true;
    const struct xdp_mask *mask;

    if (!t->prog.object) {
        return;
    }
    LIST_FOR_EACH (mask, list_node, &t->masks) {
        n[mask->family]++;
    }
    for (int family = 0; family < XFT_N_FAMILIES; family++) {
        if (n[family] < mask_list(t, family)->n || sorted) {
            done &= masks_switch(t, family);
        }
    }
    t->masks_sorted = sorted && !done;
}

static int
mask_ref(struct xdp_flow_table *t, const struct xdp_flow_match *match,
         struct xdp_mask **maskp)
    OVS_REQUIRES(t->mutex)
{
    union xft_key key = match->mask;
    struct xft_mask_list *list;
    struct xdp_mask *mask;

    LIST_FOR_EACH (mask, list_node, &t->masks) {
        if (mask->family == match->family) {
            key.f.mask_id = mask->key.f.mask_id;
            if (!memcmp(&mask->key, &key, sizeof key)) {
                mask->n_flows++;
                *maskp = mask;
                return 0;
            }
        }
    }
    if (ovs_list_size(&t->masks) >= t->n_masks
        || t->last_mask_id == UINT32_MAX) {
        return ENOSPC;
    }
    list = mask_list(t, match->family);
    if (list->n == XFT_MAX_MASKS) {
        if (!masks_switch(t, match->family)) {
            return ENOSPC;
        }
        list = mask_list(t, match->family);
    }

    mask = xzalloc(sizeof *mask);
    mask->family = match->family;
    mask->key = key;
    mask->key.f.mask_id = ++t->last_mask_id;
    mask->slot = list->n;
    mask->n_flows = 1;
    mask->created = time_msec();
    ovs_list_init(&mask->flows);
    ovs_list_push_back(&t->masks, &mask->list_node);

    /* No program looks at it before it has a class. */
    list->mask[mask->slot].classes = 0;
    list->mask[mask->slot].key = mask->key;
    atomic_store_explicit((ATOMIC(uint64_t) *) &list->n, list->n + 1,
                          memory_order_release);

    *maskp = mask;
    return 0;
}

static void
mask_unref(struct xdp_flow_table *t, struct xdp_mask *mask)
    OVS_REQUIRES(t->mutex)
{
    if (!--mask->n_flows) {
        ovs_list_remove(&mask->list_node);
        free(mask);
        masks_tidy(t);
    }
}

/* Counts a flow of 'match' as one of 'mask', or as none any more. */
static void
mask_count(struct xdp_flow_table *t, struct xdp_mask *mask,
           const struct xdp_flow_match *match, int n)
    OVS_REQUIRES(t->mutex)
{
    const struct xft_fields *key = &match->key.f, *m = &match->mask.f;
    const ovs_be16 dl_type = (OVS_FORCE ovs_be16) key->dl_type;

    for (int l4 = 0; l4 < XFT_N_L4; l4++) {
        for (int tag = 0; tag < 2; tag++) {
            enum xft_l4 of_flow;

            of_flow = dl_type != htons(ETH_TYPE_IP)
                      && dl_type != htons(ETH_TYPE_IPV6) ? XFT_L4_NO_IP
                      : m->nw_proto != UINT8_MAX ? XFT_N_L4
                      : key->nw_proto == IPPROTO_TCP ? XFT_L4_TCP
                      : key->nw_proto == IPPROTO_UDP ? XFT_L4_UDP
                      : key->nw_proto == IPPROTO_ICMP
                        || key->nw_proto == IPPROTO_ICMPV6 ? XFT_L4_ICMP
                      : XFT_L4_OTHER;
            if ((l4 == of_flow || (of_flow == XFT_N_L4 && l4 != XFT_L4_NO_IP))
                && (!(m->vlan_tci & htons(VLAN_CFI))
                    || tag == !!(key->vlan_tci & htons(VLAN_CFI)))) {
                mask->n_of_class[l4 + (tag ? XFT_N_L4 : 0)] += n;
            }
        }
    }
    mask_update_classes(t, mask);
}

static int
entry_alloc(struct xdp_flow_table *t, uint32_t *entry)
    OVS_REQUIRES(t->mutex)
{
    struct xft_lost *losts = t->prog.lost_map.data;
    int error = pool_alloc(&t->prog.entries, entry);

    if (!error) {
        memset(&losts[*entry], 0, sizeof losts[*entry]);
        memset(entry_of(t, *entry), 0, t->prog.entry_size);
    }
    return error;
}

/* Puts the changes of packets of 'action' in the map, unless they are there.
 * Stores NULL in '*editp' if there are none. */
static int
edit_ref(struct xdp_flow_table *t, const struct xdp_flow_action *action,
         struct xdp_edit **editp)
    OVS_REQUIRES(t->mutex)
{
    struct xft_edit *edits = t->prog.edits_map.data;
    uint32_t hash, index;
    struct xdp_edit *edit;
    int error;

    *editp = NULL;
    if (!action->edit_flags) {
        return 0;
    }
    hash = hash_bytes(&action->edit, sizeof action->edit, 0);
    HMAP_FOR_EACH_WITH_HASH (edit, node, hash, &t->edits) {
        if (!memcmp(&edit->edit, &action->edit, sizeof edit->edit)) {
            edit->n_flows++;
            *editp = edit;
            return 0;
        }
    }
    error = pool_alloc(&t->prog.edits, &index);
    if (!error) {
        edit = xmalloc(sizeof *edit);
        edit->edit = edits[index] = action->edit;
        edit->index = index;
        edit->n_flows = 1;
        hmap_insert(&t->edits, &edit->node, hash);
        *editp = edit;
    }
    return error;
}

static void
edit_unref(struct xdp_flow_table *t, struct xdp_edit *edit)
    OVS_REQUIRES(t->mutex)
{
    if (edit && !--edit->n_flows) {
        pool_free(&t->prog.edits, edit->index, grace_request());
        hmap_remove(&t->edits, &edit->node);
        free(edit);
    }
}

static struct xft_bucket *
bucket_of(const struct xdp_flow *flow)
{
    return &((struct xft_bucket *) flow->table->prog.buckets_map.data)[
        flow->bucket];
}

/* Returns where in its bucket 'flow' could be, or -1 if there is no room. */
static int
flow_find_slot(const struct xdp_flow *flow)
{
    const struct xft_bucket *bucket = bucket_of(flow);

    for (int i = 0; i < XFT_BUCKET_SLOTS; i++) {
        if (!bucket->tag[i]) {
            return i;
        }
    }
    return -1;
}

/* Makes programs find 'flow'. */
static int
flow_activate(struct xdp_flow *flow)
{
    struct xft_bucket *bucket = bucket_of(flow);
    int slot = flow_find_slot(flow);

    if (slot < 0) {
        return ENOSPC;
    }

    bucket->entry[slot] = flow->entry;
    atomic_store_explicit((ATOMIC(uint16_t) *) &bucket->tag[slot], flow->tag,
                          memory_order_release);
    flow->slot = slot;
    return 0;
}

static void
flow_deactivate(struct xdp_flow *flow)
{
    if (flow->pending) {
        flow->pending = 0;
        ovs_list_remove(&flow->pending_node);
        atomic_count_dec(&flow->table->n_pending);
    }
    if (flow->slot >= 0) {
        atomic_store_explicit(
            (ATOMIC(uint16_t) *) &bucket_of(flow)->tag[flow->slot], 0,
            memory_order_release);
        flow->slot = -1;
    }
}

static union xft_action
action_to_xft(const struct xdp_flow_action *action,
              const struct xdp_edit *edit)
{
    union xft_action xft = { .all = 0 };

    if (edit) {
        xft.flags = action->edit_flags | XFT_F_EDIT;
        xft.edit = edit->index;
    }
    if (action->output) {
        xft.output = action->output->output;
    } else if (!(action->edit_flags & XFT_F_AGAIN)) {
        xft.flags = XFT_F_DROP;
    }
    return xft;
}

static uint64_t
key_hash(const struct xft_config *config, const union xft_key *key,
         enum xft_family family)
{
    uint64_t sum = 0;

    for (int i = 0; i < XFT_WORDS; i++) {
        if (i < XFT_WORDS_IPV4
            || (i < XFT_FIRST_AGAIN ? xft_family_is_ipv6(family)
                : xft_family_is_again(family))) {
            sum += xft_hash_word(key->w[i], &config->secret[2 * i]);
        }
    }
    return xft_hash_finish(sum, config->multiplier);
}

/* Looks for the place of 'flow' in the buckets. */
static void
flow_hash(struct xdp_flow_table *t, struct xdp_flow *flow, union xft_key *key)
    OVS_REQUIRES(t->mutex)
{
    uint64_t hash;

    *key = flow->match.key;
    key->f.mask_id = flow->mask->key.f.mask_id;
    hash = key_hash(&t->prog.config, key, flow->match.family);
    flow->bucket = xft_bucket(hash, t->prog.config.bucket_mask);
    flow->tag = xft_tag(hash);
}

/* Gives 'flow' a place in the maps.  It is used when the packets that are in
 * the queues now have been processed, so that those to come do not overtake
 * them.  Cheap without room, as that is tried again and again.
 *
 * Returns ENOSPC without room.  Then '*victimp', if not NULL, is the slowest
 * flow that is in the way, and '*maskp' that mask, or both are NULL. */
static int
flow_insert__(struct xdp_flow_table *t, struct xdp_flow *flow,
              struct xdp_flow **victimp, struct xdp_mask **maskp)
    OVS_REQUIRES(t->mutex)
{
    struct xft_entry *entry;
    union xft_key key;
    int error;

    *victimp = NULL;
    *maskp = NULL;
    if (flow->ending) {
        return ENOSPC;
    }
    if (t->n_placed >= t->prog.n_entries) {
        if (!heap_is_empty(&t->slowest)) {
            *victimp = CONTAINER_OF(heap_max(&t->slowest), struct xdp_flow,
                                    heap_node);
        }
        return ENOSPC;
    }
    if (!pool_has_room(&t->prog.entries)
        || (flow->action.edit_flags && !pool_has_room(&t->prog.edits))) {
        return ENOSPC;
    }

    error = mask_ref(t, &flow->match, &flow->mask);
    if (error) {
        struct xdp_mask *mask;

        flow->mask = NULL;
        if (ovs_list_size(&t->masks) >= t->n_masks) {
            long long int now = time_msec();

            LIST_FOR_EACH (mask, list_node, &t->masks) {
                if (now >= mask->created + NEW_MASK_MS
                    && (!*maskp || mask->pps < (*maskp)->pps)) {
                    *maskp = mask;
                }
            }
        }
        return error;
    }

    flow_hash(t, flow, &key);
    if (flow_find_slot(flow) < 0) {
        for (int i = 0; i < XFT_BUCKET_SLOTS; i++) {
            struct xdp_flow *other;

            other = t->flow_of_entry[bucket_of(flow)->entry[i]];
            if (other && other->has_pps
                && (!*victimp || other->pps < (*victimp)->pps)) {
                *victimp = other;
            }
        }
        error = ENOSPC;
        goto error_mask;
    }

    error = entry_alloc(t, &flow->entry);
    if (error) {
        goto error_mask;
    }
    error = edit_ref(t, &flow->action, &flow->edit);
    if (error) {
        goto error_entry;
    }

    entry = entry_of(t, flow->entry);
    memcpy(entry->w, key.w, sizeof entry->w);
    memcpy(entry->w_ipv6, &key.w[XFT_WORDS_IPV4], sizeof entry->w_ipv6);
    memcpy(entry->w_again, &key.w[XFT_FIRST_AGAIN], sizeof entry->w_again);
    entry->action = action_to_xft(&flow->action, flow->edit);
    mask_count(t, flow->mask, &flow->match, 1);

    if (t->link_fd >= 0) {
        flow->pending = ++t->pending_seq;
        flow->deadline = time_msec() + MAX_DRAIN_MS;
        ovs_list_push_back(&t->pending, &flow->pending_node);
        atomic_count_inc(&t->n_pending);
    } else {
        flow_activate(flow);
    }

    t->n_placed++;
    t->flow_of_entry[flow->entry] = flow;
    ovs_list_push_back(&flow->mask->flows, &flow->mask_node);
    if (flow->has_pps) {
        flow->mask->pps += flow->pps;
        heap_insert(&t->slowest, &flow->heap_node, UINT64_MAX - flow->pps);
    }
    return 0;

error_entry:
    pool_free(&t->prog.entries, flow->entry, 0);
error_mask:
    mask_unref(t, flow->mask);
    flow->mask = NULL;
    return error;
}

/* Whether 'flow' may take the place of flows with 'pps'. */
static bool
flow_is_faster(const struct xdp_flow *flow, uint64_t pps)
{
    return flow->has_pps && flow->pps > 2 * pps + MIN_PPS;
}

static void flow_lose_place(struct xdp_flow_table *, struct xdp_flow *);

/* Gives 'flow' a place in the maps, if need be that of slower flows. */
static int
flow_insert(struct xdp_flow_table *t, struct xdp_flow *flow)
    OVS_REQUIRES(t->mutex)
{
    struct xdp_flow *victim;
    struct xdp_mask *mask;
    int error;

    for (int i = 0; i < 4; i++) {
        error = flow_insert__(t, flow, &victim, &mask);
        if (error != ENOSPC) {
            break;
        }
        if (victim && flow_is_faster(flow, victim->pps)) {
            flow_lose_place(t, victim);
        } else if (mask && flow_is_faster(flow, mask->pps)) {
            /* The mask goes with its last flow. */
            for (uint32_t n = mask->n_flows; n > 0; n--) {
                flow_lose_place(t, CONTAINER_OF(ovs_list_front(&mask->flows),
                                                struct xdp_flow, mask_node));
            }
        } else {
            break;
        }
    }
    return error;
}

static void
flow_stats(const struct xdp_flow *flow, struct xdp_flow_stats *dst)
{
    const struct xdp_flow_table *t = flow->table;
    const volatile struct xft_lost *lost;
    const volatile struct xft_stats *s;
    uint64_t used = 0;

    *dst = flow->old;
    if (!flow->mask && !flow->ending) {
        return;
    }
    lost = (struct xft_lost *) t->prog.lost_map.data + flow->entry;
    s = entry_of(t, flow->entry)->stats;
    dst->n_packets -= lost->packets;
    dst->n_bytes -= lost->bytes;
    for (int i = 0; i < t->prog.config.n_queues; i++, s++) {
        dst->n_packets += s->packets;
        dst->n_bytes += s->bytes;
        dst->tcp_flags |= ntohs((OVS_FORCE ovs_be16) s->tcp_flags);
        used = MAX(used, s->used);
    }
    dst->used = MAX(dst->used, (long long int) (used / (1000 * 1000)));
}

/* As flow_stats(), and never less than before: a packet is lost some
 * microseconds after it was counted. */
static void
flow_tell_stats(struct xdp_flow *flow, struct xdp_flow_stats *dst)
{
    flow_stats(flow, dst);
    dst->n_packets = flow->told_packets = MAX(flow->told_packets,
                                              dst->n_packets);
    dst->n_bytes = flow->told_bytes = MAX(flow->told_bytes, dst->n_bytes);
}

/* Takes 'flow' out of the program, but for its entry. */
static void
flow_leave(struct xdp_flow_table *t, struct xdp_flow *flow)
    OVS_REQUIRES(t->mutex)
{
    flow_deactivate(flow);
    if (flow->has_pps) {
        flow->mask->pps -= flow->pps;
        heap_remove(&t->slowest, &flow->heap_node);
    }
    t->n_placed--;
    t->flow_of_entry[flow->entry] = NULL;
    ovs_list_remove(&flow->mask_node);
    edit_unref(t, flow->edit);
    mask_count(t, flow->mask, &flow->match, -1);
    mask_unref(t, flow->mask);
    flow->mask = NULL;
}

/* Takes 'flow' out of the program in favor of another one.  It keeps its entry
 * until no program counts for it any more. */
static void
flow_lose_place(struct xdp_flow_table *t, struct xdp_flow *flow)
    OVS_REQUIRES(t->mutex)
{
    flow_leave(t, flow);
    flow->ending = grace_request();
    ovs_list_push_back(&t->ending, &flow->ending_node);
}

/* Takes back the entry of 'flow', of which no program looks at once grace
 * period 'freed' is over. */
static void
flow_free_entry(struct xdp_flow_table *t, struct xdp_flow *flow,
                uint64_t freed)
    OVS_REQUIRES(t->mutex)
{
    struct xdp_flow_stats stats;

    flow_stats(flow, &stats);
    flow->old = stats;
    pool_free(&t->prog.entries, flow->entry, freed);
    if (flow->ending) {
        flow->ending = 0;
        ovs_list_remove(&flow->ending_node);
    }
}

static void
flows_end(struct xdp_flow_table *t)
    OVS_REQUIRES(t->mutex)
{
    struct xdp_flow *flow;

    LIST_FOR_EACH_SAFE (flow, ending_node, &t->ending) {
        if (!grace_is_over(flow->ending)) {
            break;
        }
        flow_free_entry(t, flow, 0);
    }
}

static void
flow_remove(struct xdp_flow_table *t, struct xdp_flow *flow)
    OVS_REQUIRES(t->mutex)
{
    if (flow->mask) {
        flow_leave(t, flow);
        flow->ending = grace_request();
        ovs_list_push_back(&t->ending, &flow->ending_node);
    }
    if (flow->ending) {
        flow_free_entry(t, flow, flow->ending);
    }
}

/* Updates the rate of 'flow', which has had 'n_packets'. */
static void
flow_rate(struct xdp_flow_table *t, struct xdp_flow *flow, uint64_t n_packets,
          long long int now)
    OVS_REQUIRES(t->mutex)
{
    uint64_t pps;

    if (now < flow->rated + RATE_MS) {
        return;
    }
    pps = (MAX(n_packets, flow->n_packets) - flow->n_packets) * 1000
          / (now - flow->rated);
    flow->n_packets = n_packets;
    flow->rated = now;

    if (flow->has_pps) {
        pps = (flow->pps + pps) / 2;
    }
    if (flow->mask) {
        flow->mask->pps += pps - (flow->has_pps ? flow->pps : 0);
        if (flow->has_pps) {
            heap_change(&t->slowest, &flow->heap_node, UINT64_MAX - pps);
        } else {
            heap_insert(&t->slowest, &flow->heap_node, UINT64_MAX - pps);
        }
    }
    flow->pps = pps;
    flow->has_pps = true;
}

/* Loads the program for 'n_queues', with room for that many flows and masks,
 * unless that has been done.  If 'ifindex' is not 0 the program is for that
 * device only, and puts VLAN tags that are beside packets in them.  Flows that there were before are moved to the
 * new one.  Must not be attached.  Returns 0 or a positive errno value, and
 * then keeps what has been loaded before.
 *
 * The kernel takes its time for it, and a thread that asks for the counters of
 * a flow keeps others from processing packets, so not all is done with the
 * mutex. */
int
xdp_flow_table_load(struct xdp_flow_table *t, int n_queues,
                    uint32_t n_entries, uint32_t n_masks, int ifindex)
{
    struct xdp_program prog = { .object = NULL };
    struct bpf_object *watch;
    struct xdp_flow *flow;
    int error;

    ovs_assert(t->link_fd < 0);

    if (t->prog.object && t->prog.config.n_queues == n_queues
        && t->prog.ifindex == ifindex
        && t->prog.n_entries == n_entries && t->n_masks == n_masks) {
        return 0;
    }

    if (t->output == UINT32_MAX) {
        return ENOSPC;
    }

    ovs_mutex_lock(&outputs_mutex);
    error = outputs_create();
    watch = watch_object;
    ovs_mutex_unlock(&outputs_mutex);
    error = error ? error : program_load(&prog, watch, t->output, n_entries,
                                         n_queues, ifindex);
    if (error) {
        return error;
    }

    ovs_mutex_lock(&t->mutex);
    if (t->prog.object) {
        LIST_FOR_EACH (flow, list_node, &t->flows) {
            flow_remove(t, flow);
        }
        table_unload(t);
    }
    t->prog = prog;
    t->n_masks = n_masks;
    free(t->flow_of_entry);
    t->flow_of_entry = xcalloc(n_entries + SPARE_ENTRIES(n_entries),
                               sizeof *t->flow_of_entry);
    memset(t->masks_switched, 0, sizeof t->masks_switched);
    LIST_FOR_EACH (flow, list_node, &t->flows) {
        flow_insert(t, flow);
    }
    ovs_mutex_unlock(&t->mutex);
    return 0;
}

/* Returns a file descriptor of the loaded program, for tests. */
int
xdp_flow_table_program_fd(const struct xdp_flow_table *t)
{
    return t->prog.fd;
}

/* Tells the program the socket of a queue.  Returns 0 or a positive errno
 * value. */
int
xdp_flow_table_set_socket(struct xdp_flow_table *t, int queue_id, int fd)
{
    return bpf_map_update_elem(t->prog.xsks_fd, &queue_id, &fd, 0) ? errno : 0;
}

/* Attaches the loaded program.  It is detached with the file descriptor of the
 * link, if only because the process is no more.  Returns 0 or a positive errno
 * value. */
int
xdp_flow_table_attach(struct xdp_flow_table *t, int ifindex, uint32_t flags)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = flags);
    int link_fd;

    /* Waits for others that change devices, so not with the mutex. */
    link_fd = bpf_link_create(t->prog.fd, ifindex, BPF_XDP, &opts);
    if (link_fd < 0) {
        return -link_fd;
    }

    ovs_mutex_lock(&t->mutex);
    t->link_fd = link_fd;
    free(t->reason);
    t->reason = NULL;
    ovs_mutex_unlock(&t->mutex);
    return 0;
}

/* Activates the flows up to number 'drained', and those that have waited long
 * enough. */
static void
flows_activate_pending(struct xdp_flow_table *t, uint64_t drained,
                       long long int now)
    OVS_REQUIRES(t->mutex)
{
    struct xdp_flow *flow;
    bool overtakes = false;

    LIST_FOR_EACH_SAFE (flow, pending_node, &t->pending) {
        if (flow->pending > drained) {
            if (now < flow->deadline) {
                break;
            }
            overtakes = true;
        }
        flow->pending = 0;
        ovs_list_remove(&flow->pending_node);
        atomic_count_dec(&t->n_pending);
        if (flow_activate(flow)) {
            flow_remove(t, flow);
        }
    }
    for (unsigned int i = 0; overtakes && i < t->prog.config.n_queues; i++) {
        t->n_overtaken += t->n_queued[i];
    }
    if (ovs_list_is_empty(&t->pending)) {
        memset(t->n_queued, 0, sizeof t->n_queued);
    }
}

/* Detaches the program.  Returns true if it was attached. */
bool
xdp_flow_table_detach(struct xdp_flow_table *t)
{
    if (t->link_fd < 0) {
        return false;
    }

    /* Waits for others that change devices, and for programs that still count
     * packets, so not with the mutex. */
    close(t->link_fd);
    grace_wait(grace_request());

    ovs_mutex_lock(&t->mutex);
    t->link_fd = -1;
    for (int i = 0; i < XFT_MAX_QUEUES; i++) {
        bpf_map_delete_elem(t->prog.xsks_fd, &i);
    }
    flows_activate_pending(t, UINT64_MAX, 0);
    ovs_mutex_unlock(&t->mutex);
    return true;
}

/* Returns true if xdp_flow_table_drained() is to be called. */
bool
xdp_flow_table_is_pending(const struct xdp_flow_table *t)
{
    return atomic_count_get(CONST_CAST(atomic_count *, &t->n_pending));
}

/* Called by the thread that receives from a queue before it does so, when it
 * has processed all packets received before.  'n_left' packets are in the
 * queue. */
void
xdp_flow_table_drained(struct xdp_flow_table *t, int queue_id, uint32_t n_left)
{
    if (!ovs_mutex_trylock(&t->mutex)) {
        uint64_t drained = UINT64_MAX;

        t->n_queued[queue_id] = n_left;
        if (!n_left) {
            t->drained_seq[queue_id] = t->pending_seq;
        }
        for (unsigned int i = 0; i < t->prog.config.n_queues; i++) {
            drained = MIN(drained, t->drained_seq[i]);
        }
        flows_activate_pending(t, drained, time_msec());
        ovs_mutex_unlock(&t->mutex);
    }
}

/* Asks the kernel whether XDP programs may send to a device.  Returns NULL if
 * they may, otherwise why not.  Linux before 6.3 does not know, then '*known'
 * is false: what the device refuses will tell. */
static const char *
query_can_send(int ifindex, bool *known)
{
    static const struct nl_policy policy[] = {
        [OVS_NETDEV_A_DEV_XDP_FEATURES] = { .type = NL_A_U64 },
    };
    static int family;
    struct nlattr *attrs[ARRAY_SIZE(policy)];
    const char *reason = "the kernel does not tell XDP features";
    struct ofpbuf request, *reply;

    *known = !nl_lookup_genl_family("netdev", &family);
    if (!*known) {
        return NULL;
    }
    ofpbuf_init(&request, 0);
    nl_msg_put_genlmsghdr(&request, 0, family, NLM_F_REQUEST,
                          OVS_NETDEV_CMD_DEV_GET, 1);
    nl_msg_put_u32(&request, OVS_NETDEV_A_DEV_IFINDEX, ifindex);
    if (!nl_transact(NETLINK_GENERIC, &request, &reply)) {
        if (nl_policy_parse(reply, NLMSG_HDRLEN + GENL_HDRLEN, policy, attrs,
                            ARRAY_SIZE(policy))) {
            uint64_t features =
                nl_attr_get_u64(attrs[OVS_NETDEV_A_DEV_XDP_FEATURES]);

            reason = features & OVS_NETDEV_XDP_ACT_NDO_XMIT ? NULL
                     : "the device does not send for XDP "
                       "(a veth needs a peer with XDP or GRO)";
        }
        ofpbuf_delete(reply);
    }
    ofpbuf_uninit(&request);
    return reason;
}

/* Returns true if programs stopped sending to the port of 't' because the
 * device refused packets, or may try again: to be called now and then. */
bool
xdp_flow_table_output_changed(struct xdp_flow_table *t)
{
    bool changed = false;

    ovs_mutex_lock(&t->mutex);
    if (outputs && t->output != UINT32_MAX) {
        uint32_t error;

        atomic_read_relaxed((ATOMIC(uint32_t) *) &outputs[t->output].error,
                            &error);
        changed = error && (!t->output_reason
                            || time_msec() >= t->output_retry);
    }
    ovs_mutex_unlock(&t->mutex);
    return changed;
}

/* Returns why programs must not send to a device that refused packets, or NULL
 * once they may try again: if the kernel does not say what the device can do,
 * that is not 'known' and would cost packets each time, when it changes. */
static const char *
output_refusal(struct xdp_flow_table *t, bool retry, bool known)
    OVS_REQUIRES(t->mutex)
{
    ATOMIC(uint32_t) *errorp = (ATOMIC(uint32_t) *) &outputs[t->output].error;
    long long int now = time_msec();
    uint32_t error;

    atomic_read_relaxed(errorp, &error);
    if (!error) {
        if (now >= t->output_retry + t->output_backoff) {
            t->output_backoff = 0;
        }
        return NULL;
    }
    if (!t->output_reason) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 20);

        VLOG_WARN_RL(&rl, "%s: the device refuses packets of XDP programs: "
                     "%s.", t->name, ovs_strerror(error));
        t->output_backoff = MIN(MAX(2 * t->output_backoff, MIN_BACKOFF_MS),
                                MAX_BACKOFF_MS);
        t->output_retry = known ? now + t->output_backoff : NEVER;
    }
    if (!retry && now < t->output_retry) {
        return "the device refused packets";
    }
    t->output_retry = now;
    atomic_store_relaxed(errorp, 0);
    return NULL;
}

/* Updates what programs may send to the port of 't', which depends on things
 * that change at any time.  'retry' tells that the device changed: it may take
 * packets that it refused before.  'refusal' is why it takes none, or NULL.
 * Returns true if the status changed. */
bool
xdp_flow_table_update_output(struct xdp_flow_table *t, int ifindex, int mtu,
                             bool up, bool retry, const char *refusal)
{
    const char *reason;
    bool known = true;
    bool changed;

    /* The kernel's answer may take a while, so not with the mutex. */
    reason = ifindex <= 0 || !mtu || !up ? "the device is down"
             : refusal ? refusal : query_can_send(ifindex, &known);

    ovs_mutex_lock(&t->mutex);
    if (t->reason) {
        reason = "no XDP program";
    }
    if (!reason && t->output == UINT32_MAX) {
        reason = "too many ports";
    }
    if (!reason && !watch_links[1]) {
        reason = "the kernel does not tell what devices refuse";
    }
    if (!reason) {
        reason = output_refusal(t, retry, known);
    } else if (outputs && t->output != UINT32_MAX) {
        /* Nothing is sent, so it does not matter. */
        atomic_store_relaxed(
            (ATOMIC(uint32_t) *) &outputs[t->output].error, 0);
    }
    if (!reason && t->output_ifindex != ifindex) {
        uint32_t value = ifindex;

        output_remove_device(t);
        t->output_ifindex = ifindex;
        if (bpf_map_update_elem(output_of_ifindex_fd, &value, &t->output, 0)
            || bpf_map_update_elem(output_devs_fd, &t->output, &value, 0)) {
            reason = "the kernel refused the device";
        }
    }

    /* Larger frames would be dropped without notice. */
    output_set_max_len(t, reason ? 0 : mtu + VLAN_ETH_HEADER_LEN);
    if (reason) {
        output_remove_device(t);
    }

    changed = reason != t->output_reason;
    t->output_reason = reason;
    ovs_mutex_unlock(&t->mutex);
    return changed;
}

/* Returns NULL if flows may be added, or why they may not.  To be freed. */
char *
xdp_flow_table_status(struct xdp_flow_table *t)
{
    char *reason;

    ovs_mutex_lock(&t->mutex);
    reason = nullable_xstrdup(t->reason);
    ovs_mutex_unlock(&t->mutex);
    return reason;
}

/* Returns NULL if the port can be the output of flows, or why it cannot. */
const char *
xdp_flow_table_output_status(struct xdp_flow_table *t)
{
    const char *reason;

    ovs_mutex_lock(&t->mutex);
    reason = t->output_reason;
    ovs_mutex_unlock(&t->mutex);
    return reason;
}

void
xdp_flow_table_get_counters(struct xdp_flow_table *t,
                            struct xdp_flow_counters *dst)
{
    ovs_mutex_lock(&t->mutex);
    flows_end(t);
    masks_tidy(t);
    *dst = t->old_counters;
    counters_add(t, dst);
    counters_subtract_lost(t, dst);
    dst->max_len = t->output_max_len;
    dst->n_flows = t->n_placed;
    dst->n_waiting = t->n_flows - t->n_placed;
    dst->n_masks = ovs_list_size(&t->masks);
    dst->overtaken = t->n_overtaken;
    ovs_mutex_unlock(&t->mutex);

    ovs_mutex_lock(&conns_mutex);
    dst->n_conns = conns_pool.size - conns_pool.n;
    ovs_mutex_unlock(&conns_mutex);
}

static void
count_ct_flow(const struct xdp_flow_action *action, int n)
{
    if (action->edit_flags & XFT_F_CT) {
        if (n > 0) {
            atomic_count_inc(&n_ct_flows);
        } else {
            atomic_count_dec(&n_ct_flows);
        }
    }
}

/* Adds a flow, which waits for the program if there is none.  Nobody else may
 * use the flow while it is deleted; no other flow of the table may have the
 * same key and mask.  Returns 0 or a positive errno value, ENOSPC if the flow
 * waits for room. */
int
xdp_flow_add(struct xdp_flow_table *t, const struct xdp_flow_match *match,
             const struct xdp_flow_action *action, struct xdp_flow **flowp)
{
    struct xdp_flow *flow;
    int error;

    flow = xzalloc(sizeof *flow);
    flow->table = t;
    flow->match = *match;
    flow->action = *action;
    flow->slot = -1;
    flow->rated = time_msec();

    ovs_mutex_lock(&t->mutex);
    error = action->output && action->output->output == UINT32_MAX ? ENODEV
            : t->prog.object ? flow_insert(t, flow) : 0;
    if (!error || error == ENOSPC) {
        ovs_list_push_back(&t->flows, &flow->list_node);
        t->n_flows++;
        count_ct_flow(action, 1);
    } else {
        free(flow);
        flow = NULL;
    }
    ovs_mutex_unlock(&t->mutex);
    *flowp = flow;
    return error;
}

/* Changes what is done with the packets of a flow, which keeps its
 * counters.  Returns 0 or a positive errno value, ENOSPC if the flow waits for
 * room. */
int
xdp_flow_modify(struct xdp_flow *flow, const struct xdp_flow_action *action)
{
    struct xdp_flow_table *t = flow->table;
    int error = 0;

    ovs_mutex_lock(&t->mutex);
    if (action->output && action->output->output == UINT32_MAX) {
        error = ENODEV;
    } else if (flow->mask) {
        struct xft_entry *entry = entry_of(t, flow->entry);
        struct xdp_edit *edit;

        error = edit_ref(t, action, &edit);
        if (!error) {
            atomic_store_explicit((ATOMIC(uint64_t) *) &entry->action.all,
                                  action_to_xft(action, edit).all,
                                  memory_order_release);
            edit_unref(t, flow->edit);
            flow->edit = edit;
        } else {
            flow_remove(t, flow);
        }
    }
    if (!error || error == ENOSPC) {
        count_ct_flow(&flow->action, -1);
        count_ct_flow(action, 1);
        flow->action = *action;
    }
    ovs_mutex_unlock(&t->mutex);
    return error;
}

/* Deletes a flow.  Stores what it has counted until then in '*stats'. */
void
xdp_flow_delete(struct xdp_flow *flow, struct xdp_flow_stats *stats)
{
    struct xdp_flow_table *t = flow->table;

    ovs_mutex_lock(&t->mutex);
    flow_remove(t, flow);
    flow_tell_stats(flow, stats);
    ovs_list_remove(&flow->list_node);
    t->n_flows--;
    count_ct_flow(&flow->action, -1);
    ovs_mutex_unlock(&t->mutex);
    free(flow);
}

static bool
output_can_send(const struct xdp_flow_table *t)
{
    uint32_t max_len;

    if (!outputs) {
        return false;
    }
    atomic_read_relaxed((ATOMIC(uint32_t) *) &outputs[t->output].max_len,
                        &max_len);
    return max_len != 0;
}

/* Returns true if the program has no place for 'flow'. */
bool
xdp_flow_is_waiting(const struct xdp_flow *flow)
{
    bool waiting;

    ovs_mutex_lock(&flow->table->mutex);
    waiting = !flow->mask;
    ovs_mutex_unlock(&flow->table->mutex);
    return waiting;
}

/* Returns true if packets of 'flow' do not get to the socket, of which
 * 'n_processed' have got there.  Called for each flow about twice a second:
 * flows that are fast enough get their place then. */
bool
xdp_flow_get_stats(struct xdp_flow *flow, uint64_t n_processed,
                   struct xdp_flow_stats *stats)
{
    struct xdp_flow_table *t = flow->table;
    const struct xdp_flow_table *output;
    long long int now = time_msec();
    bool active;

    ovs_mutex_lock(&t->mutex);
    flows_end(t);
    flow_tell_stats(flow, stats);
    flow_rate(t, flow, stats->n_packets + n_processed, now);
    if (!flow->mask && t->prog.object) {
        flow_insert(t, flow);
    }
    if (now >= t->next_sort && t->prog.object) {
        t->next_sort = now + SORT_MS;
        masks_sort(t);
        masks_tidy(t);
    }
    output = flow->action.output;
    active = flow->mask && !t->reason
             && (!output || output_can_send(output));
    ovs_mutex_unlock(&t->mutex);
    return active;
}
