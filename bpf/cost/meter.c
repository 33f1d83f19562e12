// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The tester of `xdplab cost`, in a guest whose clock counts instructions:
 *
 *	meter SOURCE SINK FRAMES ROUNDS FLOWS BATCH
 *
 * sends bursts of FRAMES and of twice as many at SOURCE, BATCH at a time, and
 * waits after each batch until all of it has come to SINK, whose XDP program
 * drops and counts it.  What a frame costs is the slope between the two: set-up,
 * and what is paid by the burst, is in neither.  It runs as SCHED_FIFO and
 * sleeps while it waits, and the frame that completes a batch wakes it: a
 * forwarder that spins has the only CPU exactly while there is something to
 * forward, and polls nothing in vain.
 *
 * It prints a line for each burst, `burst FRAMES TICKS` (of the time stamp
 * counter), and between its marks the plugin (count.c) counts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include "mark.h"

#define BYTES 60
#define PORT  4097
/* Source port of the flows that are only learned, and upwards. */
#define FIRST_PORT 10000
#define LOG_BYTES  65536
#define RING_SIZE  4096
/* Of the guest's time: a batch takes less than a millisecond. */
#define LOST_S	   20
#define MAX_ROUNDS 16
/* A forwarder that spins executes as many thousands of instructions meanwhile. */
#define LEARN_US 100000

static const uint8_t head[42] = { 2,	0, 0,	 0,  0,	 0x11, 2, 0,	0,
				  0,	0, 0x10, 8,  0,	 0x45, 0, 0,	46,
				  0,	0, 0,	 0,  64, 17,   0, 0,	10,
				  0,	0, 1,	 10, 0,	 0,    2, 0x10, 0,
				  0x10, 1, 0,	 26, 0,	 0 };
static uint8_t frame[BYTES];
/* What the sink's program shares: frames so far, and the number that wakes. */
static volatile uint64_t *shared;
static int ring;

static void die(const char *what)
{
	fprintf(stderr, "meter: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int bpf(int command, union bpf_attr *attr, const char *what)
{
	int fd = syscall(SYS_bpf, command, attr, sizeof(*attr));

	if (fd < 0)
		die(what);
	return fd;
}

static int make_map(int type, int key, int value, int entries, int flags)
{
	union bpf_attr attr = { .map_type = type,
				.key_size = key,
				.value_size = value,
				.max_entries = entries,
				.map_flags = flags };

	return bpf(BPF_MAP_CREATE, &attr, "cannot make a map");
}

#define INSN(c, d, s, o, i)                 \
	((struct bpf_insn){ .code = (c),    \
			    .dst_reg = (d), \
			    .src_reg = (s), \
			    .off = (o),     \
			    .imm = (i) })
#define MOV(d, s)	 INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOVI(d, i)	 INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADDI(d, i)	 INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define LOAD(w, d, s, o) INSN(BPF_LDX | BPF_MEM | (w), d, s, o, 0)
#define STORE(d, s, o)	 INSN(BPF_STX | BPF_MEM | BPF_DW, d, s, o, 0)
#define MAP(d, fd, kind) \
	INSN(BPF_LD | BPF_DW | BPF_IMM, d, kind, 0, fd), INSN(0, 0, 0, 0, 0)
#define CALL(f)		   INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define EXIT		   INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define JUMP(op, d, s, o)  INSN(BPF_JMP | (op) | BPF_X, d, s, o, 0)
#define JUMPI(op, d, i, o) INSN(BPF_JMP | (op) | BPF_K, d, 0, o, i)

/* Drop our frames and count them; the one that is waited for wakes us. */
static void attach_sink(const char *ifname)
{
	static char log[LOG_BYTES];
	int values = make_map(BPF_MAP_TYPE_ARRAY, 4, 16, 1, BPF_F_MMAPABLE);
	struct bpf_insn code[] = {
		LOAD(BPF_W, 2, 1, 0), /* data */
		LOAD(BPF_W, 3, 1, 4), /* data_end */
		MOV(4, 2),
		ADDI(4, BYTES),
		JUMP(BPF_JGT, 4, 3, 17),
		LOAD(BPF_H, 5, 2, 36),	  /* target port */
		JUMPI(BPF_JNE, 5, 0, 15), /* set below */
		MAP(6, values, BPF_PSEUDO_MAP_VALUE),
		LOAD(BPF_DW, 7, 6, 0),
		ADDI(7, 1),
		STORE(6, 7, 0),
		LOAD(BPF_DW, 8, 6, 8),
		JUMP(BPF_JNE, 7, 8, 6),
		MAP(1, ring, BPF_PSEUDO_MAP_FD),
		MOV(2, 6),
		MOVI(3, 8),
		MOVI(4, BPF_RB_FORCE_WAKEUP),
		CALL(BPF_FUNC_ringbuf_output),
		MOVI(0, XDP_DROP),
		EXIT,
		MOVI(0, XDP_PASS),
		EXIT,
	};
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_XDP,
				.insns = (uintptr_t)code,
				.insn_cnt = sizeof(code) / sizeof(*code),
				.license = (unsigned long)"GPL",
				.log_buf = (uintptr_t)log,
				.log_size = sizeof(log),
				.log_level = 1 };
	union bpf_attr link = {
		.link_create = { .target_ifindex = if_nametoindex(ifname),
				 .attach_type = BPF_XDP,
				 .flags = XDP_FLAGS_DRV_MODE }
	};
	void *at;

	code[6].imm = htons(PORT);
	link.link_create.prog_fd =
		syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	if ((int)link.link_create.prog_fd < 0) {
		fputs(log, stderr);
		die("the sink's program is refused");
	}
	bpf(BPF_LINK_CREATE, &link, "cannot attach the sink's program");
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, values, 0);
	if (at == MAP_FAILED)
		die("cannot map the sink's counter");
	shared = at;
}

static volatile uint64_t *ring_consumer;

static void open_ring(void)
{
	void *at;

	ring = make_map(BPF_MAP_TYPE_RINGBUF, 0, 0, RING_SIZE, 0);
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
	if (at == MAP_FAILED)
		die("cannot map the ring");
	ring_consumer = at;
}

/* Until as many frames have come in all.  Returns 0, or -1 after LOST_S. */
static int wait_for(uint64_t frames)
{
	struct pollfd wanted = { .fd = ring, .events = POLLIN };

	while (shared[0] < frames) {
		if (poll(&wanted, 1, LOST_S * 1000) <= 0)
			return -1;
		/* a header of 8 bytes and the counter, one record each */
		*ring_consumer += 16;
	}
	return 0;
}

static int sender, batch;
static struct sockaddr_ll to;

static void send_burst(int frames)
{
	int i, j, n;

	for (i = 0; i < frames; i += n) {
		n = frames - i < batch ? frames - i : batch;
		shared[1] = shared[0] + n;
		for (j = 0; j < n; j++)
			if (sendto(sender, frame, BYTES, 0, (void *)&to,
				   sizeof(to)) != BYTES)
				die("cannot send");
		if (wait_for(shared[1])) {
			fprintf(stderr,
				"meter: %lu of %lu frames have come through\n",
				shared[0], shared[1]);
			exit(1);
		}
	}
}

static void write_frame(void)
{
	uint32_t sum = 0;
	int i;

	memcpy(frame, head, sizeof(head));
	frame[36] = PORT >> 8;
	frame[37] = PORT & 0xff;
	for (i = 14; i < 34; i += 2)
		sum += frame[i] << 8 | frame[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	frame[24] = ~sum >> 8;
	frame[25] = ~sum;
}

/* One frame of each flow, so that whoever learns flows has them. */
static void send_flows(int flows)
{
	for (int i = 0; i < flows; i++) {
		frame[34] = (FIRST_PORT + i) >> 8;
		frame[35] = (FIRST_PORT + i) & 0xff;
		send_burst(1);
	}
	write_frame();
}

int main(int argc, char **argv)
{
	static uint64_t took[2 * MAX_ROUNDS];
	struct sched_param fifo = { .sched_priority = 50 };
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	int frames, rounds, i;

	if (argc != 7 || (frames = atoi(argv[3])) < 1 ||
	    (rounds = atoi(argv[4])) < 1 || rounds > MAX_ROUNDS ||
	    (batch = atoi(argv[6])) < 1) {
		fprintf(stderr,
			"meter SOURCE SINK FRAMES ROUNDS FLOWS BATCH\n");
		return 2;
	}
	setrlimit(RLIMIT_MEMLOCK, &all);
	write_frame();
	open_ring();
	attach_sink(argv[2]);
	sender = socket(AF_PACKET, SOCK_RAW, 0);
	to = (struct sockaddr_ll){ .sll_family = AF_PACKET,
				   .sll_protocol = htons(ETH_P_IP),
				   .sll_ifindex = if_nametoindex(argv[1]),
				   .sll_halen = ETH_ALEN };
	memcpy(to.sll_addr, frame, ETH_ALEN);
	if (!to.sll_ifindex)
		die(argv[1]);
	if (sched_setscheduler(0, SCHED_FIFO, &fifo))
		die("cannot become SCHED_FIFO");
	mlockall(MCL_CURRENT | MCL_FUTURE);
	send_flows(atoi(argv[5]));
	/* the first one alone: whoever learns flows has time for it */
	send_burst(1);
	usleep(LEARN_US);
	for (i = 0; i < 3; i++)
		send_burst(frames);
	for (i = 0; i < 2 * rounds; i++) {
		MARK_ON();
		took[i] = ticks();
		send_burst(frames << (i & 1));
		took[i] = ticks() - took[i];
		MARK_OFF();
	}
	for (i = 0; i < 2 * rounds; i++)
		printf("burst %d %lu\n", frames << (i & 1), took[i]);
	return 0;
}
