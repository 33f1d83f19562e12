// SPDX-License-Identifier: Apache-2.0
/* Answers each DNS query at queue 0 of a port: A 192.0.2.1, whatever name is asked for. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <xdp/xsk.h>

enum { FRAMES = 2048, SIZE = 4096, BATCH = 64, HEADER = 12 };

struct packet {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	unsigned char dns[];
} __attribute__((packed));

static const unsigned char record[] = { 0xc0, HEADER, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1 };

static struct xsk_ring_cons rx, comp;
static struct xsk_ring_prod tx, fill;

/* The length of the answer that is there now instead of a query; 0: it was none. */
static unsigned int answer(struct packet *p, unsigned int bytes)
{
	unsigned int size, at = HEADER, sum = 0, i;
	unsigned short port = p->udp.source;
	unsigned char mac[ETH_ALEN];
	__be32 address = p->ip.saddr;

	if (bytes < sizeof(*p) + HEADER || bytes > SIZE / 2 || p->eth.h_proto != htons(ETH_P_IP) || p->ip.ihl != 5 ||
	    p->ip.protocol != IPPROTO_UDP || p->udp.dest != htons(53))
		return 0;
	size = bytes - sizeof(*p);
	while (at < size && p->dns[at])
		at += p->dns[at] + 1;
	at += 5; /* the root, type and class */
	if (at > size || (p->dns[2] & 0x80))
		return 0;
	memcpy(p->dns + at, record, sizeof(record));
	size = at + sizeof(record);
	p->dns[2] |= 0x84; /* an answer, by who knows it */
	p->dns[3] = 0;
	memcpy(p->dns + 6, (unsigned char[]){ 0, 1, 0, 0, 0, 0 }, 6);

	memcpy(mac, p->eth.h_source, ETH_ALEN);
	memcpy(p->eth.h_source, p->eth.h_dest, ETH_ALEN);
	memcpy(p->eth.h_dest, mac, ETH_ALEN);
	p->ip.saddr = p->ip.daddr;
	p->ip.daddr = address;
	p->ip.tot_len = htons(sizeof(p->ip) + sizeof(p->udp) + size);
	p->ip.check = 0;
	for (i = 0; i < sizeof(p->ip) / 2; i++)
		sum += ((unsigned char *)&p->ip)[2 * i] << 8 | ((unsigned char *)&p->ip)[2 * i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	p->ip.check = htons(~(sum + (sum >> 16)));
	p->udp.source = p->udp.dest;
	p->udp.dest = port;
	p->udp.len = htons(sizeof(p->udp) + size);
	p->udp.check = 0; /* none */
	return sizeof(*p) + size;
}

/* There are as many frames as the ring has slots. */
static void give(__u64 addr)
{
	__u32 at = 0;

	xsk_ring_prod__reserve(&fill, 1, &at);
	*xsk_ring_prod__fill_addr(&fill, at) = addr;
	xsk_ring_prod__submit(&fill, 1);
}

int main(int argc, char **argv)
{
	struct xsk_socket_config config = { .rx_size = FRAMES, .tx_size = FRAMES };
	void *area = mmap(NULL, FRAMES * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__u32 from = 0, to = 0, sending = 0, answers, i, n;
	struct xsk_umem *umem;
	struct xsk_socket *xsk;

	if (argc != 2 || xsk_umem__create(&umem, area, FRAMES * SIZE, &fill, &comp, NULL))
		return fprintf(stderr, "usage: dns PORT\n"), 1;
	if (xsk_socket__create(&xsk, argv[1], 0, umem, &rx, &tx, &config))
		return perror(argv[1]), 1;
	for (i = 0; i < FRAMES; i++)
		give((__u64)i * SIZE);
	for (;;) {
		n = xsk_ring_cons__peek(&rx, BATCH, &from);
		for (answers = i = 0; i < n; i++) {
			struct xdp_desc desc = *xsk_ring_cons__rx_desc(&rx, from + i);

			desc.len = answer(xsk_umem__get_data(area, desc.addr), desc.len);
			if (!desc.len || !xsk_ring_prod__reserve(&tx, 1, &to)) {
				give(desc.addr);
				continue;
			}
			*xsk_ring_prod__tx_desc(&tx, to) = desc;
			answers++;
		}
		xsk_ring_prod__submit(&tx, answers);
		xsk_ring_cons__release(&rx, n);
		sending += answers;
		if (sending) /* a call sends 32 in copy mode */
			sendto(xsk_socket__fd(xsk), NULL, 0, MSG_DONTWAIT, NULL, 0);
		n = xsk_ring_cons__peek(&comp, BATCH, &from);
		for (i = 0; i < n; i++)
			give(*xsk_ring_cons__comp_addr(&comp, from + i));
		xsk_ring_cons__release(&comp, n);
		sending -= n;
	}
}
