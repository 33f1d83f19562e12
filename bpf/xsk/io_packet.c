// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * AF_PACKET sockets with mapped rings (Documentation/networking/packet_mmap.rst).
 * Version 2 receives into slots of one frame, version 3 into blocks that the
 * kernel hands over when they are full or a timer of 1 ms or more runs out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include "arrival.h"
#include "io.h"
#include "options.h"
#include "packet.h"
#include "probes.h"
#include "util.h"

#define BLOCK_BYTES    (64U << 10)
#define CLOCK_READINGS 4
#define VLAN_BYTES     4
/* Room in front of a frame for a tag and for arrival times. */
#define RESERVE (VLAN_BYTES + sizeof(struct arrival_times))

/* The status words change under us. */
static __u32 status_read(const __u32 *status)
{
	return __atomic_load_n(status, __ATOMIC_ACQUIRE);
}

static void status_write(__u32 *status, __u32 value)
{
	__atomic_store_n(status, value, __ATOMIC_RELEASE);
}

static bool is_v3(const struct packet *p)
{
	return p->version == TPACKET_V3;
}

static __u8 *tx_slot(const struct packet *p, __u64 slot)
{
	return p->tx_base + (slot & (p->tx_slots - 1)) * p->slot_bytes;
}

static __u32 *tx_status(const struct packet *p, __u64 slot)
{
	__u8 *at = tx_slot(p, slot);

	return is_v3(p) ? &((struct tpacket3_hdr *)at)->tp_status :
			  &((struct tpacket2_hdr *)at)->tp_status;
}

static struct tpacket2_hdr *rx_slot(const struct packet *p, __u64 slot)
{
	return (void *)(p->map + (slot & (p->rx_slots - 1)) * p->slot_bytes);
}

static struct tpacket_block_desc *rx_block(const struct packet *p, __u32 block)
{
	return (void *)(p->map + (size_t)block * p->block_bytes);
}

static int set_option(struct io *io, int name, const void *value, int bytes,
		      const char *what)
{
	if (!setsockopt(io->fd, SOL_PACKET, name, value, bytes))
		return 0;
	return fail(-errno, "cannot set %s: AF_PACKET on %s: %s", what,
		    io->port->ifname, explain(-errno));
}

static int set_ring(struct io *io, int name, __u32 slots, const char *what)
{
	struct packet *p = io->packet;
	struct tpacket_req3 req = {
		.tp_block_size = p->block_bytes,
		.tp_frame_size = p->slot_bytes,
		.tp_frame_nr = slots,
		.tp_block_nr = (size_t)slots * p->slot_bytes / p->block_bytes,
	};

	if (name == PACKET_RX_RING && is_v3(p))
		req.tp_retire_blk_tov = io->opt->block_timeout_ms;
	return set_option(io, name, &req,
			  is_v3(p) ? sizeof(req) : sizeof(struct tpacket_req),
			  what);
}

static int set_rings(struct io *io)
{
	const struct io_options *o = io->opt;
	struct packet *p = io->packet;
	__u32 smallest = min(o->rx_ring, o->tx_ring) * p->slot_bytes;
	size_t rx_bytes = 0, tx_bytes = 0;
	int err = 0;

	p->block_bytes = min(BLOCK_BYTES, smallest);
	if (o->receive) {
		p->rx_slots = o->rx_ring;
		rx_bytes = (size_t)p->rx_slots * p->slot_bytes;
		p->blocks = rx_bytes / p->block_bytes;
		err = set_ring(io, PACKET_RX_RING, p->rx_slots, "rx_ring");
	}
	if (!err && o->transmit) {
		p->tx_slots = o->tx_ring;
		tx_bytes = (size_t)p->tx_slots * p->slot_bytes;
		err = set_ring(io, PACKET_TX_RING, p->tx_slots, "tx_ring");
	}
	if (err)
		return err;
	p->map_bytes = rx_bytes + tx_bytes;
	p->map = mmap(NULL, p->map_bytes, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_POPULATE, io->fd, 0);
	if (p->map == MAP_FAILED) {
		p->map = NULL;
		return fail(-errno, "cannot map rings: AF_PACKET on %s: %s",
			    io->port->ifname, explain(-errno));
	}
	p->tx_base = p->map + rx_bytes;
	p->tx_data = is_v3(p) ? TPACKET_ALIGN(sizeof(struct tpacket3_hdr)) :
				TPACKET_ALIGN(sizeof(struct tpacket2_hdr));
	return 0;
}

static int set_options(struct io *io)
{
	const struct io_options *o = io->opt;
	int one = 1, reserve = RESERVE, bypass = o->qdisc_bypass;
	int version = io->packet->version;

	return set_option(io, PACKET_VERSION, &version, sizeof(version), "packet_version") ?:
		       set_option(io, PACKET_RESERVE, &reserve, sizeof(reserve), "PACKET_RESERVE") ?:
		       set_option(io, PACKET_IGNORE_OUTGOING, &one, sizeof(one), "PACKET_IGNORE_OUTGOING") ?:
		       set_option(io, PACKET_LOSS, &one, sizeof(one), "PACKET_LOSS") ?:
		       set_option(io, PACKET_QDISC_BYPASS, &bypass,
				  sizeof(bypass), "qdisc_bypass");
}

/*
 * How far CLOCK_REALTIME is ahead of the clock of our results: from the
 * tightest of a few readings, for one may be interrupted.
 */
static __u64 realtime_ahead(void)
{
	__u64 before, after, ahead = 0, best = ~0ULL;
	struct timespec ts;
	int i;

	for (i = 0; i < CLOCK_READINGS; i++) {
		before = now_ns();
		clock_gettime(CLOCK_REALTIME, &ts);
		after = now_ns();
		if (after - before >= best)
			continue;
		best = after - before;
		ahead = ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec -
			(before + best / 2);
	}
	return ahead;
}

/* Time stamps of the stack, for each frame as it enters. */
static int set_stamps(struct io *io)
{
	int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;

	io->packet->stamps = io->opt->stages;
	io->packet->realtime_ahead_ns = realtime_ahead();
	if (!io->opt->stages || !setsockopt(io->fd, SOL_SOCKET, SO_TIMESTAMPING,
					    &flags, sizeof(flags)))
		return 0;
	return fail(-errno, "cannot set SO_TIMESTAMPING: %s: %s",
		    io->port->ifname, explain(-errno));
}

static int bind_port(struct io *io)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = io->port->ifindex,
		.sll_protocol = io->opt->receive ? htons(ETH_P_ALL) : 0,
	};

	if (!bind(io->fd, (void *)&address, sizeof(address)))
		return 0;
	return fail(-errno, "cannot bind AF_PACKET socket: %s: %s",
		    io->port->ifname, explain(-errno));
}

static int packet_open(struct io *io)
{
	struct packet *p = calloc(1, sizeof(*p));

	if (!p)
		return fail(-ENOMEM, "cannot allocate: %s", io->port->ifname);
	io->packet = p;
	p->version = io->opt->packet_version == 3 ? TPACKET_V3 : TPACKET_V2;
	p->slot_bytes = io->opt->chunk_bytes;
	/* protocol 0: nothing arrives before the rings are there */
	io->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (io->fd < 0)
		return fail(-errno, "cannot open AF_PACKET socket: %s: %s",
			    io->port->ifname, explain(-errno));
	return set_options(io)	      ?:
		       set_rings(io)  ?:
		       set_stamps(io) ?:
		       bind_port(io)  ?:
					io_set_busy_poll(io);
}

static void packet_close(struct io *io)
{
	struct packet *p = io->packet;

	if (!p)
		return;
	if (p->map)
		munmap(p->map, p->map_bytes);
	if (io->fd >= 0)
		close(io->fd);
	io->fd = -1;
	free(p);
	io->packet = NULL;
}

/* The stack has taken the outer tag out of the frame: put it back. */
static void put_tag(struct frame *f, __u16 tci, __u16 tpid)
{
	__be16 tag[2] = { htons(tpid), htons(tci) };

	f->data -= VLAN_BYTES;
	f->len += VLAN_BYTES;
	memmove(f->data, f->data + VLAN_BYTES, 2 * ETH_ALEN);
	memcpy(f->data + 2 * ETH_ALEN, tag, sizeof(tag));
}

/* Note on the frame when the stack got it; its clock is CLOCK_REALTIME. */
static void note_arrival(const struct packet *p, const struct frame *f,
			 __u32 status, __u32 sec, __u32 nsec)
{
	__u64 ns = sec * NSEC_PER_SEC + nsec;
	bool hardware = status & TP_STATUS_TS_RAW_HARDWARE;
	struct arrival_times at = { .magic = ARRIVAL_MAGIC };

	if (!p->stamps)
		return;
	at.hardware_ns = hardware ? ns : 0;
	at.software_ns = ns - p->realtime_ahead_ns;
	memcpy(f->data - sizeof(at), &at, sizeof(at));
}

static void take_v2(struct packet *p, struct frame *f)
{
	struct tpacket2_hdr *h = rx_slot(p, p->rx_next);
	__u16 tpid = h->tp_status & TP_STATUS_VLAN_TPID_VALID ?
			     h->tp_vlan_tpid :
			     ETH_P_8021Q;

	*f = (struct frame){ .data = (__u8 *)h + h->tp_mac,
			     .addr = p->rx_next++,
			     .len = h->tp_snaplen };
	p->cut = h->tp_snaplen < h->tp_len;
	if (h->tp_status & TP_STATUS_VLAN_VALID)
		put_tag(f, h->tp_vlan_tci, tpid);
	note_arrival(p, f, h->tp_status, h->tp_sec, h->tp_nsec);
}

static bool next_v2(struct packet *p)
{
	/* a slot that was not put back yet still says USER */
	return p->rx_next - p->rx_done < p->rx_slots &&
	       status_read(&rx_slot(p, p->rx_next)->tp_status) & TP_STATUS_USER;
}

static void take_v3(struct packet *p, struct frame *f)
{
	struct tpacket3_hdr *h = p->next;
	__u16 tpid = h->tp_status & TP_STATUS_VLAN_TPID_VALID ?
			     h->hv1.tp_vlan_tpid :
			     ETH_P_8021Q;

	*f = (struct frame){ .data = (__u8 *)h + h->tp_mac,
			     .addr = p->rx_next++,
			     .len = h->tp_snaplen };
	p->cut = h->tp_snaplen < h->tp_len;
	p->left--;
	p->next = (void *)((__u8 *)h + h->tp_next_offset);
	if (h->tp_status & TP_STATUS_VLAN_VALID)
		put_tag(f, h->hv1.tp_vlan_tci, tpid);
	note_arrival(p, f, h->tp_status, h->tp_sec, h->tp_nsec);
}

/* A block goes back when all its frames have. */
static bool next_v3(struct packet *p)
{
	struct tpacket_block_desc *block = rx_block(p, p->block);

	if (p->left)
		return true;
	if (p->next) {
		if (p->rx_next != p->rx_done)
			return false;
		status_write(&block->hdr.bh1.block_status, TP_STATUS_KERNEL);
		p->next = NULL;
		p->block = p->block + 1 < p->blocks ? p->block + 1 : 0;
		block = rx_block(p, p->block);
	}
	if (!(status_read(&block->hdr.bh1.block_status) & TP_STATUS_USER))
		return false;
	p->left = block->hdr.bh1.num_pkts;
	p->next = (void *)((__u8 *)block + block->hdr.bh1.offset_to_first_pkt);
	return p->left;
}

static void packet_put(struct io *io, const struct frame *frames, __u32 n)
{
	struct packet *p = io->packet;
	__u32 i;

	p->rx_done += n;
	if (is_v3(p))
		return;
	for (i = 0; i < n; i++)
		status_write(&rx_slot(p, frames[i].addr)->tp_status,
			     TP_STATUS_KERNEL);
}

static __u32 packet_rx(struct io *io, struct frame *frames, __u32 n)
{
	struct packet *p = io->packet;
	__u32 got = 0;

	while (got < n && (is_v3(p) ? next_v3(p) : next_v2(p))) {
		struct frame *f = &frames[got];

		if (is_v3(p))
			take_v3(p, f);
		else
			take_v2(p, f);
		if (p->cut) {
			io->n.truncated++;
			packet_put(io, f, 1);
			continue;
		}
		io->n.rx_bytes += f->len;
		got++;
	}
	io->n.rx += got;
	if (got && trace_batch(io->trace))
		PROBE3(rx, io->fd, got, frames[0].data);
	return got;
}

static __u32 packet_room(struct io *io, __u32 wanted)
{
	struct packet *p = io->packet;

	while (p->tx_done != p->tx_next) {
		__u32 *status = tx_status(p, p->tx_done);
		__u32 now = status_read(status);

		if (now & (TP_STATUS_SEND_REQUEST | TP_STATUS_SENDING))
			break;
		if (now & TP_STATUS_WRONG_FORMAT) {
			io->n.tx_refused++;
			status_write(status, TP_STATUS_AVAILABLE);
		}
		p->tx_done++;
	}
	return min(wanted, (__u32)(p->tx_slots - (p->tx_next - p->tx_done)));
}

static __u32 packet_get(struct io *io, struct frame *frames, __u32 n)
{
	struct packet *p = io->packet;
	__u32 i;

	for (i = 0; i < n; i++)
		frames[i] = (struct frame){
			.data = tx_slot(p, p->tx_next + i) + p->tx_data,
			.addr = p->tx_next + i,
			.len = p->slot_bytes - p->tx_data,
		};
	return n;
}

static void packet_tx(struct io *io, const struct frame *frames, __u32 n)
{
	struct packet *p = io->packet;
	__u32 i;

	for (i = 0; i < n; i++) {
		__u8 *at = tx_slot(p, frames[i].addr);

		if (is_v3(p)) {
			((struct tpacket3_hdr *)at)->tp_next_offset = 0;
			((struct tpacket3_hdr *)at)->tp_len = frames[i].len;
		} else {
			((struct tpacket2_hdr *)at)->tp_len = frames[i].len;
		}
		status_write(tx_status(p, frames[i].addr),
			     TP_STATUS_SEND_REQUEST);
		io->n.tx_bytes += frames[i].len;
	}
	p->tx_next += n;
	p->unkicked += n;
	io->n.tx += n;
	if (io->trace->now)
		PROBE3(tx, io->fd, n, frames[0].data);
}

static bool packet_pending(const struct io *io)
{
	return io->packet->unkicked && io->opt->wake_tx != WAKE_NONE;
}

static int packet_kick(struct io *io)
{
	int err;

	if (!packet_pending(io))
		return 0;
	io->n.tx_kicks++;
	if (io->trace->now)
		PROBE1(kick_begin, io->fd);
	err = sendto(io->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
	if (err >= 0)
		io->packet->unkicked = 0; /* else the rest goes next time */
	err = tx_busy_note(&io->n.tx_busy, err);
	if (io->trace->now)
		PROBE2(kick_end, io->fd, err);
	return err;
}

/* The kernel fills the ring by itself: there is time to compare clocks. */
static int packet_idle(struct io *io)
{
	struct packet *p = io->packet;

	if (p->stamps && (io->opt->wait == WAIT_POLL || !(p->idles++ % 1024)))
		p->realtime_ahead_ns = realtime_ahead();
	return 0;
}

static void packet_prefill(struct io *io, const struct frame *frame)
{
	struct packet *p = io->packet;
	__u32 i;

	for (i = 0; i < p->tx_slots; i++)
		memcpy(tx_slot(p, i) + p->tx_data, frame->data, frame->len);
}

static __u32 packet_unsent(struct io *io)
{
	struct packet *p = io->packet;

	if (p->tx_slots)
		packet_room(io, 0);
	return p->tx_next - p->tx_done;
}

const struct io_ops packet_ops = {
	.open = packet_open,
	.close = packet_close,
	.rx = packet_rx,
	.put = packet_put,
	.room = packet_room,
	.get = packet_get,
	.tx = packet_tx,
	.kick = packet_kick,
	.pending = packet_pending,
	.idle = packet_idle,
	.prefill = packet_prefill,
	.unsent = packet_unsent,
};
