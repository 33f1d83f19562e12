// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "fields.h"
#include "options.h"
#include "options_check.h"
#include "stream.h"
#include "util.h"

static const char *const role_names[] = { "forward", "reflect", "sink", "gen",
					  "ping",    "probe",	"nf",	NULL };
static const char *const backend_names[] = { "af_xdp", "af_packet", NULL };
static const char *const attach_names[] = { "native", "generic", NULL };
static const char *const bind_names[] = { "auto", "copy", "zero-copy", NULL };
static const char *const touch_names[] = { "none", "read", "macswap", NULL };
static const char *const wait_names[] = { "spin", "poll", NULL };
static const char *const wake_rx_names[] = { "recvfrom", "poll", "none", NULL };
static const char *const wake_tx_names[] = { "sendto", "poll", "none", NULL };
static const char *const policy_names[] = { "other", "fifo", "rr", NULL };

struct document {
	const json_t *ports;
	const json_t *cpus;
	const json_t *streams;
	const json_t *nf;
	struct options o;
};

#define AT(type, member) .key = #member, .offset = offsetof(struct type, member)
#define OPT(member) \
	.key = #member, .offset = offsetof(struct document, o.member)
#define TIMING(member) \
	.key = #member, .offset = offsetof(struct document, o.timing.member)
#define INT(member, low, high) \
	OPT(member), .type = FIELD_INT, .min = (low), .max = (high)
#define BOOL(member)	    OPT(member), .type = FIELD_BOOL
#define ENUM(member, array) OPT(member), .type = FIELD_ENUM, .names = (array)
#define IO(member) \
	.key = #member, .offset = offsetof(struct document, o.io.member)
#define IO_INT(member, low, high) \
	IO(member), .type = FIELD_INT, .min = (low), .max = (high)
#define IO_BOOL(member)	       IO(member), .type = FIELD_BOOL
#define IO_ENUM(member, array) IO(member), .type = FIELD_ENUM, .names = (array)

static const struct field port_fields[] = {
	{ AT(port, netns), .size = PATH_MAX, .type = FIELD_STRING,
	  .nullable = true,
	  .help = "network namespace of the port; null: the one it runs in" },
	{ AT(port, ifname), .size = IFNAMSIZ, .type = FIELD_STRING,
	  .required = true, .help = "name of the interface" },
};

static const struct field fields[] = {
	{ ENUM(role, role_names), .required = true, .help = "what it does" },
	{ AT(document, ports), .type = FIELD_ARRAY, .required = true,
	  .help = "one or two objects, keys below" },
	{ INT(queue, 0, 255), .help = "first receive queue" },
	{ INT(queues, 1, XSK_QUEUES), .help = "receive queues of each port" },
	{ INT(sockets, 1, XSK_SOCKETS),
	  .help = "sockets of each queue, on one UMEM" },
	{ OPT(duration_s), .type = FIELD_NUMBER, .max = 864000,
	  .help = "how long; 0: until a signal" },
	{ AT(document, streams), .type = FIELD_ARRAY,
	  .help = "of roles gen, ping and probe: objects, keys below" },
	{ TIMING(warmup_s), .type = FIELD_NUMBER, .max = 3600,
	  .help = "traffic before the trial, not counted" },
	{ TIMING(max_burst), .type = FIELD_INT, .max = 1000000,
	  .help = "intervals that a stream may be late before it skips frames" },
	{ TIMING(late_ns), .type = FIELD_INT, .max = NSEC_PER_SEC,
	  .help = "a departure later than this is not on schedule" },
	{ TIMING(stall_ns), .type = FIELD_INT, .min = 1, .max = NSEC_PER_SEC,
	  .help = "a gap between two polls that counts as a stall" },
	{ OPT(drain_s), .type = FIELD_NUMBER, .max = 3600,
	  .help = "wait for late frames at the end, at most" },
	{ INT(ping_batch, 1, XSK_BATCH),
	  .help = "frames in flight of role ping" },
	{ INT(interval_us, 0, 1e9),
	  .help = "from batch to batch of role ping" },
	{ INT(timeout_us, 10, 1e9), .help = "wait for a batch of role ping" },
	{ INT(count, 0, 1e12), .help = "batches of role ping; 0: no limit" },
	{ OPT(samples), .size = PATH_MAX, .type = FIELD_STRING,
	  .help = "file for each latency of roles ping and probe" },
	{ INT(samples_max, 1, 1e8), .help = "latencies in that file at most" },
	{ IO_BOOL(stages),
	  .help = "time stamps of driver and stack in role sink" },
	{ OPT(trace), .size = PATH_MAX, .type = FIELD_STRING, .nullable = true,
	  .help = "file for the traced batches of roles forward and reflect" },
	{ INT(trace_every, 1, 1000000), .help = "trace one batch in so many" },
	{ AT(document, nf), .type = FIELD_OBJECT,
	  .help = "of role nf: keys below" },
	{ ENUM(backend, backend_names), .help = "kind of socket" },
	{ ENUM(xdp_mode, attach_names),
	  .help = "how the XDP program is attached" },
	{ IO_ENUM(bind, bind_names), .help = "copy mode of AF_XDP sockets" },
	{ IO_BOOL(need_wakeup), .help = "XDP_USE_NEED_WAKEUP" },
	{ IO_BOOL(multi_buffer),
	  .help = "XDP_USE_SG (Linux 6.6): role sink takes frames of several chunks" },
	{ IO_INT(rx_ring, 8, 32768), .help = "descriptors, a power of two" },
	{ IO_INT(tx_ring, 8, 32768), .help = "descriptors, a power of two" },
	{ IO_INT(fill_ring, 8, 32768), .help = "descriptors, a power of two" },
	{ IO_INT(completion_ring, 8, 32768),
	  .help = "descriptors, a power of two" },
	{ IO_INT(tx_skb_budget, 0, 32768),
	  .help = "XDP_MAX_TX_SKB_BUDGET (Linux 6.17); 0: the kernel's" },
	{ IO_INT(busy_poll_us, 0, 1000000), .help = "SO_BUSY_POLL; 0: off" },
	{ IO_INT(busy_poll_budget, 0, 65535),
	  .help = "SO_BUSY_POLL_BUDGET; 0: the kernel's" },
	{ IO_BOOL(prefer_busy_poll), .help = "SO_PREFER_BUSY_POLL" },
	{ BOOL(shared_umem), .help = "one UMEM for all sockets of a thread" },
	{ IO_INT(frames, 0, 4194304),
	  .help = "chunks of a UMEM; 0: as many as the rings need" },
	{ IO_INT(chunk_bytes, 2048, 4096), .help = "bytes of a chunk" },
	{ IO_INT(headroom, 0, 3584), .help = "bytes in front of each frame" },
	{ IO_BOOL(hugepages), .help = "UMEM in pages of 2 MiB" },
	{ IO_BOOL(unaligned), .help = "XDP_UMEM_UNALIGNED_CHUNK_FLAG" },
	{ IO_BOOL(audit),
	  .help = "follow every chunk, and report where each is at the end" },
	{ IO_INT(packet_version, 2, 3),
	  .help = "TPACKET version of AF_PACKET" },
	{ IO_BOOL(qdisc_bypass), .help = "PACKET_QDISC_BYPASS" },
	{ IO_INT(block_timeout_ms, 1, 10000),
	  .help = "of blocks of TPACKET version 3" },
	{ IO_INT(batch, 1, XSK_BATCH), .help = "frames handled at once" },
	{ ENUM(touch, touch_names), .help = "what is done to each frame" },
	{ IO_ENUM(wait, wait_names),
	  .help = "what a thread without work does" },
	{ IO_ENUM(wake_rx, wake_rx_names),
	  .help = "call that wakes the kernel to receive" },
	{ IO_ENUM(wake_tx, wake_tx_names),
	  .help = "call that wakes the kernel to send" },
	{ AT(document, cpus), .type = FIELD_ARRAY,
	  .help = "CPU of each thread" },
	{ ENUM(policy, policy_names),
	  .help = "scheduling policy of the threads" },
	{ INT(priority, 1, 99), .help = "real-time priority" },
	{ BOOL(mlock), .help = "lock all memory" },
	{ BOOL(unprivileged),
	  .help = "give up root and all capabilities once everything is open" },
	{ INT(dma_latency_us, 0, 1000000), .nullable = true,
	  .help = "/dev/cpu_dma_latency; null: leave it" },
};

static const struct options defaults = {
	.queues = 1,
	.sockets = 1,
	.timing = { .max_burst = 32, .late_ns = 200, .stall_ns = 100000 },
	.drain_s = 0.1,
	.ping_batch = 1,
	.timeout_us = 100000,
	.samples_max = 1000000,
	.trace_every = 1,
	.io = {
		.need_wakeup = true,
		.rx_ring = 2048,
		.tx_ring = 2048,
		.fill_ring = 2048,
		.completion_ring = 2048,
		.chunk_bytes = 4096,
		.packet_version = 2,
		.qdisc_bypass = true,
		.block_timeout_ms = 1,
		.batch = 64,
	},
	.shared_umem = true,
	.priority = 1,
	.dma_latency_us = -1,
};

void options_help(void)
{
	static struct document filled;
	static const struct port port;

	filled.o = defaults;
	fields_help("xsk [--check] CONFIG.json | -, with the keys:", fields,
		    ARRAY_SIZE(fields), &filled);
	fields_help("ports[]:", port_fields, ARRAY_SIZE(port_fields), &port);
	streams_help();
	nf_options_help();
}

static int read_ports(const json_t *array, struct options *o)
{
	char where[32];
	size_t i;
	int err;

	if (!json_array_size(array) || json_array_size(array) > XSK_PORTS)
		return bad_value("", "ports", "must have 1 or 2 entries");
	for (i = 0; i < json_array_size(array); i++) {
		snprintf(where, sizeof(where), "ports[%zu]", i);
		err = fields_read(json_array_get(array, i), where, port_fields,
				  ARRAY_SIZE(port_fields), &o->ports[i]);
		if (err)
			return err;
	}
	o->num_ports = i;
	return 0;
}

static int read_cpus(const json_t *array, struct options *o)
{
	const json_t *value;
	size_t i;

	if (!array)
		return 0;
	if (!json_array_size(array) || json_array_size(array) > XSK_WORKERS)
		return bad_value("", "cpus", "must have 1 to 16 entries");
	json_array_foreach (array, i, value) {
		if (!json_is_integer(value))
			return bad_value("", "cpus", "must be CPU numbers");
		o->cpus[i] = json_integer_value(value);
	}
	o->num_cpus = i;
	return 0;
}

static int read_streams(const json_t *array, struct options *o)
{
	if (!array)
		return 0;
	o->num_streams = streams_read(array, o->streams);
	if (o->num_streams < 0)
		return -EINVAL;
	o->streams_json = json_deep_copy(array);
	return 0;
}

static int read_nf(const json_t *object, struct options *o)
{
	if (o->role == ROLE_NF)
		return nf_options_read(object, &o->nf);
	return object ? bad_value("", "nf", "belongs to role nf") : 0;
}

static int read_document(const json_t *root, struct options *o)
{
	static struct document doc;
	int err;

	doc = (struct document){ .o = defaults };
	/* a reflector that does not swap would send frames to their sender */
	if (json_is_string(json_object_get(root, "role")) &&
	    !strcmp(json_string_value(json_object_get(root, "role")),
		    "reflect"))
		doc.o.touch = TOUCH_MACSWAP;
	err = fields_read(root, "", fields, ARRAY_SIZE(fields), &doc);
	if (err)
		return err;
	*o = doc.o;
	o->io.receive = o->role != ROLE_GEN;
	o->io.transmit = o->role != ROLE_SINK;
	/* a schedule has an end: ten days where a signal is to come */
	o->timing.duration_s = o->duration_s ?: 864000;
	return read_ports(doc.ports, o)		    ?:
		       read_cpus(doc.cpus, o)	    ?:
		       read_streams(doc.streams, o) ?:
						      read_nf(doc.nf, o);
}

void options_free(struct options *o)
{
	nf_options_free(&o->nf);
	json_decref(o->streams_json);
	o->streams_json = NULL;
}

int options_load(const char *path, struct options *o)
{
	json_error_t error;
	json_t *root;
	int err;

	if (!strcmp(path, "-"))
		root = json_loadf(stdin, JSON_REJECT_DUPLICATES, &error);
	else
		root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		return fail(-EINVAL, "bad JSON: %s line %d: %s", path,
			    error.line, error.text);
	err = read_document(root, o) ?: options_check(o);
	json_decref(root);
	return err;
}

static json_t *field_json(const struct field *f, const struct document *doc)
{
	const void *at = (const char *)doc + f->offset;

	switch (f->type) {
	case FIELD_BOOL:
		return json_boolean(*(const bool *)at);
	case FIELD_INT:
		if (f->nullable && *(const long long *)at < 0)
			return json_null();
		return json_integer(*(const long long *)at);
	case FIELD_NUMBER:
		return json_real(*(const double *)at);
	case FIELD_ENUM:
		return json_string(f->names[*(const int *)at]);
	case FIELD_STRING:
		return *(const char *)at ? json_string(at) : json_null();
	default:
		return NULL; /* arrays: below */
	}
}

json_t *options_json(const struct options *o)
{
	json_t *root = json_object(), *ports = json_array(),
	       *cpus = json_array();
	static struct document doc;
	json_t *value;
	size_t i;

	doc.o = *o;
	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		value = field_json(&fields[i], &doc);
		if (value)
			json_object_set_new(root, fields[i].key, value);
	}
	for (i = 0; i < (size_t)o->num_ports; i++)
		json_array_append_new(ports, json_string(o->ports[i].ifname));
	for (i = 0; i < (size_t)o->num_cpus; i++)
		json_array_append_new(cpus, json_integer(o->cpus[i]));
	json_object_set_new(root, "ports", ports);
	json_object_set_new(root, "cpus", cpus);
	if (o->nf.as_read)
		json_object_set(root, "nf", o->nf.as_read);
	if (o->streams_json)
		json_object_set(root, "streams", o->streams_json);
	return root;
}
