// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* JSON on standard output: what is in use, and what was counted. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include "packet.h"
#include "report.h"
#include "util.h"

static json_t *integer(__u64 value)
{
	return json_integer(value);
}

/* A socket option, or null when the kernel does not tell. */
static json_t *socket_option(const struct io *io, int name)
{
	int value;
	socklen_t bytes = sizeof(value);

	if (getsockopt(io->fd, SOL_SOCKET, name, &value, &bytes))
		return json_null();
	return json_integer(value);
}

/* As mapped; the kernel makes a ring of exactly the size asked for, or none. */
static json_t *rings_in_use(const struct io *io)
{
	if (io->packet)
		return json_pack("{s:I, s:I}", "rx",
				 (json_int_t)io->packet->rx_slots, "tx",
				 (json_int_t)io->packet->tx_slots);
	return json_pack("{s:I, s:I, s:I, s:I}", "rx", (json_int_t)io->rx.size,
			 "tx", (json_int_t)io->tx.size, "fill",
			 (json_int_t)io->rings->fill.size, "completion",
			 (json_int_t)io->rings->completion.size);
}

/*
 * 0: the kernel tells none.  Up to Linux 6.12 the first frame brings it, later
 * the bind, if the driver ties its queues to NAPIs.
 */
static int napi_id(const struct io *io)
{
	int napi = 0;
	socklen_t bytes = sizeof(napi);

	getsockopt(io->fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &napi, &bytes);
	return napi;
}

/* Without a NAPI id the kernel polls nothing. */
static bool busy_polled(const struct io *io, int napi)
{
	return io->opt->busy_poll_us > 0 && napi > 0;
}

static json_t *socket_in_use(const struct io *io)
{
	bool xdp = !io->packet;
	int napi = napi_id(io);

	return json_pack(
		"{s:s, s:i, s:i, s:s, s:o, s:o, s:i, s:o, s:o, s:b, s:o, s:i}",
		"ifname", io->port->ifname, "queue", io->queue, "number",
		io->number, "family", xdp ? "af_xdp" : "af_packet", "zero_copy",
		xdp ? json_boolean(io->zero_copy) : json_null(), "rings",
		rings_in_use(io), "napi_id", napi, "busy_poll_us",
		socket_option(io, SO_BUSY_POLL), "prefer_busy_poll",
		socket_option(io, SO_PREFER_BUSY_POLL), "busy_poll_active",
		busy_polled(io, napi), "tx_skb_budget",
		io->budget_set ? json_integer(io->opt->tx_skb_budget) :
				 json_null(),
		"bind_retries", (int)io->bind_retries);
}

static json_t *port_in_use(const struct run *run, int index)
{
	const struct port *port = &run->opt.ports[index];
	const struct program *p = &run->programs[index];

	return json_pack("{s:s, s:i, s:i, s:i, s:s, s:i, s:s}", "ifname",
			 port->ifname, "ifindex", port->ifindex, "mtu",
			 port->mtu, "rx_queues", port->rx_queues, "xdp_mode",
			 p->mode, "prog_id", (int)p->id, "stamps", p->stamps);
}

static json_t *umem_in_use(const struct umem *u)
{
	return json_pack("{s:I, s:I, s:I, s:b, s:b}", "frames",
			 (json_int_t)u->frames, "chunk_bytes",
			 (json_int_t)u->chunk, "bytes", (json_int_t)u->bytes,
			 "hugepages", u->hugepages, "unaligned", u->unaligned);
}

static json_t *dma_latency(void)
{
	json_t *value = json_null();
	__s32 us;
	int fd;

	fd = open("/dev/cpu_dma_latency", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, &us, sizeof(us)) == sizeof(us))
		value = json_integer(us);
	if (fd >= 0)
		close(fd);
	return value;
}

static int print(json_t *root)
{
	int err = !root || json_dumpf(root, stdout, JSON_COMPACT);

	putchar('\n');
	if (fflush(stdout) || err)
		err = fail(-EIO, "cannot write the result: stdout: %s",
			   strerror(errno));
	json_decref(root);
	return err;
}

static json_t *threads_in_use(const struct run *run)
{
	json_t *array = json_array();
	int i;

	for (i = 0; i < run->num_workers; i++) {
		const struct worker *w = &run->workers[i];
		struct sched_param param = {};
		cpu_set_t cpus;
		int cpu = -1, policy = sched_getscheduler(w->tid);

		sched_getparam(w->tid, &param);
		if (!sched_getaffinity(w->tid, sizeof(cpus), &cpus) &&
		    CPU_COUNT(&cpus) == 1)
			for (cpu = 0; !CPU_ISSET(cpu, &cpus); cpu++)
				;
		json_array_append_new(
			array,
			json_pack("{s:i, s:o, s:s, s:i}", "tid", (int)w->tid,
				  "cpu",
				  cpu < 0 ? json_null() : json_integer(cpu),
				  "policy",
				  policy == SCHED_FIFO ? "fifo" :
				  policy == SCHED_RR   ? "rr" :
							 "other",
				  "priority", param.sched_priority));
	}
	return array;
}

int print_ready(const struct run *run)
{
	json_t *ports = json_array(), *sockets = json_array(),
	       *umems = json_array();
	struct utsname kernel;
	json_t *root;
	int i, j;

	uname(&kernel);
	for (i = 0; i < run->opt.num_ports; i++)
		json_array_append_new(ports, port_in_use(run, i));
	for (i = 0; i < run->num_workers; i++) {
		const struct worker *w = &run->workers[i];

		for (j = 0; j < w->num_ios; j++)
			json_array_append_new(sockets,
					      socket_in_use(&w->ios[j]));
		for (j = 0; j < w->num_umems; j++)
			json_array_append_new(umems, umem_in_use(&w->umems[j]));
	}
	root = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:o}",
			 "event", "ready", "version", XSK_VERSION, "kernel",
			 kernel.release, "options", options_json(&run->opt),
			 "ports", ports, "sockets", sockets, "umems", umems,
			 "threads", threads_in_use(run), "mlocked",
			 run->mlocked, "dma_latency_us", dma_latency());
	if (run->role->in_use)
		run->role->in_use(run->workers, run->num_workers, run->shared,
				  root);
	return print(root);
}

/* The kernel's own counters of a socket. */
static json_t *kernel_statistics(const struct io *io)
{
	struct tpacket_stats_v3 packet = {};
	__u64 xdp[6] = {};
	socklen_t bytes;

	if (io->packet) {
		/* reading clears them: the record is the sum over readings */
		bytes = sizeof(packet);
		if (getsockopt(io->fd, SOL_PACKET, PACKET_STATISTICS, &packet,
			       &bytes))
			return json_null();
		io->packet->packets += packet.tp_packets;
		io->packet->drops += packet.tp_drops;
		return json_pack("{s:o, s:o}", "packets",
				 integer(io->packet->packets), "drops",
				 integer(io->packet->drops));
	}
	bytes = sizeof(xdp);
	if (getsockopt(io->fd, SOL_XDP, XDP_STATISTICS, xdp, &bytes))
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "rx_dropped",
			 integer(xdp[0]), "rx_invalid_descs", integer(xdp[1]),
			 "tx_invalid_descs", integer(xdp[2]), "rx_ring_full",
			 integer(xdp[3]), "rx_fill_ring_empty_descs",
			 integer(xdp[4]), "tx_ring_empty_descs",
			 integer(xdp[5]));
}

static json_t *socket_counters(const struct io *io)
{
	const struct io_counters *n = &io->n;
	int napi = napi_id(io);

	return json_pack(
		"{s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:b}",
		"ifname", io->port->ifname, "queue", io->queue, "number",
		io->number, "rx", integer(n->rx), "rx_bytes",
		integer(n->rx_bytes), "tx", integer(n->tx), "tx_bytes",
		integer(n->tx_bytes), "rx_wakes", integer(n->rx_wakes),
		"tx_kicks", integer(n->tx_kicks), "tx_retries",
		integer(n->tx_retries), "tx_full", integer(n->tx_full),
		"truncated", integer(n->truncated), "tx_refused",
		integer(n->tx_refused), "tx_eagain", integer(n->tx_busy.eagain),
		"tx_ebusy", integer(n->tx_busy.ebusy), "tx_enobufs",
		integer(n->tx_busy.enobufs), "kernel", kernel_statistics(io),
		"napi_id", napi, "busy_poll_active", busy_polled(io, napi));
}

/* Where the chunks of a UMEM are; only true when its worker has stopped. */
static json_t *umem_counters(const struct worker *w, const struct umem *u)
{
	__u64 places[CHUNK_PLACES], receiving = 0, sending = 0;
	json_t *audit = json_null();
	int i;

	for (i = 0; i < w->num_ios; i++) {
		if (w->ios[i].umem != u || w->ios[i].number)
			continue;
		receiving += w->ios[i].rings->receiving;
		sending += w->ios[i].rings->sending;
	}
	if (u->place) {
		umem_places(u, places);
		audit = json_pack("{s:o, s:o, s:o, s:o, s:o}", "free",
				  integer(places[CHUNK_FREE]), "receiving",
				  integer(places[CHUNK_FILL]), "sending",
				  integer(places[CHUNK_TX]), "held",
				  integer(places[CHUNK_HELD]), "wrong_moves",
				  integer(u->wrong_moves));
	}
	return json_pack(
		"{s:I, s:I, s:o, s:o, s:I, s:o}", "frames",
		(json_int_t)u->frames, "free", (json_int_t)u->num_free,
		"receiving", integer(receiving), "sending", integer(sending),
		"lost",
		(json_int_t)(u->frames - u->num_free - receiving - sending),
		"audit", audit);
}

static json_t *worker_counters(const struct worker *w, bool done)
{
	json_t *json = json_object();

	json_object_set_new(json, "turns", integer(w->turns));
	json_object_set_new(json, "idle_turns", integer(w->idle_turns));
	json_object_set_new(json, "waits", integer(w->waits));
	if (!done)
		return json;
	json_object_set_new(json, "ran_ns",
			    integer(w->after.ran_ns - w->before.ran_ns));
	json_object_set_new(
		json, "run_delay_ns",
		integer(sched_stats_waited_ns(&w->before, &w->after)));
	json_object_set_new(json, "nonvoluntary_switches",
			    integer(w->after.nonvoluntary_switches -
				    w->before.nonvoluntary_switches));
	return json;
}

int print_trace(bool recording, const char *error)
{
	return print(json_pack("{s:s, s:b, s:o}", "event", "trace", "recording",
			       recording, "error",
			       error ? json_string(error) : json_null()));
}

/* What the roles have measured, and by whose clock. */
static void add_reports(const struct run *run, json_t *root)
{
	int i;

	for (i = 0; i < run->num_workers; i++)
		if (run->role->report)
			run->role->report(&run->workers[i], root);
	if (run->opt.io.stages) /* of one port */
		json_object_set_new(json_object_get(root, "stages"), "stamps",
				    json_string(run->programs[0].stamps));
}

int print_counters(const struct run *run, const char *event)
{
	bool done = !strcmp(event, "done");
	json_t *sockets = json_array(), *umems = json_array(),
	       *workers = json_array(), *root;
	__u64 now = done ? run->ended_ns : now_ns();
	int i, j;

	for (i = 0; i < run->num_workers; i++) {
		const struct worker *w = &run->workers[i];

		json_array_append_new(workers, worker_counters(w, done));
		for (j = 0; j < w->num_ios; j++)
			json_array_append_new(sockets,
					      socket_counters(&w->ios[j]));
		for (j = 0; done && j < w->num_umems; j++)
			json_array_append_new(umems,
					      umem_counters(w, &w->umems[j]));
	}
	root = json_pack("{s:s, s:f, s:o, s:o}", "event", event, "elapsed_s",
			 (now - run->started_ns) / 1e9, "sockets", sockets,
			 "workers", workers);
	if (run->role->counters)
		run->role->counters(run->workers, run->num_workers, run->shared,
				    root);
	if (!done) {
		json_decref(umems);
		/* while the worker counts on: exact once the traffic is over */
		if (run->opt.io.stages)
			add_reports(run, root);
		return print(root);
	}
	json_object_set_new(root, "umems", umems);
	add_reports(run, root);
	json_object_set_new(root, "interrupted",
			    json_boolean(run->interrupted));
	json_object_set_new(root, "error",
			    run->error[0] ? json_string(run->error) :
					    json_null());
	return print(root);
}
