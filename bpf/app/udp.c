// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Datagrams of xdpapp, at a rate or as fast as they go. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "link.h"
#include "payload.h"
#include "udp.h"
#include "util.h"

int send_datagrams(const struct options *o)
{
	const struct sockaddr *address = (const void *)&o->address;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	__u64 begin_ns, end_ns, due_ns, now, full = 0;
	struct datagram head = { .magic = LINK_MAGIC };
	struct iovec parts[2] = { { &head, sizeof(head) } };
	double gap_ns = 0;

	if (fd < 0 || connect(fd, address, sizeof(o->address)))
		return fail(1, "cannot connect: %s", explain(-errno));
	parts[1].iov_len = o->request_bytes - sizeof(head);
	if (o->udp_bps)
		gap_ns = o->request_bytes * 8e9 / o->udp_bps;
	begin_ns = now_ns();
	end_ns = begin_ns + o->duration_ns;
	while ((now = now_ns()) < end_ns) {
		due_ns = begin_ns + head.number * gap_ns;
		if (due_ns > now) {
			if (due_ns - now > 100000)
				usleep((due_ns - now - 50000) / 1000);
			continue;
		}
		parts[1].iov_base = (void *)payload(head.number, 0);
		if (writev(fd, parts, 2) < 0) {
			if (errno != ENOBUFS && errno != ECONNREFUSED)
				return fail(1, "cannot send: %s",
					    explain(-errno));
			full++;
			continue;
		}
		head.number++;
	}
	printf("{\"event\":\"end\",\"elapsed_ns\":%llu,\"sent\":%u,\"refused\":%llu}\n",
	       now_ns() - begin_ns, head.number, full);
	return 0;
}
