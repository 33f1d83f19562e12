// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <bpf/bpf.h>
#include "config.h"
#include "hold.h"
#include "util.h"

struct place {
	int tap; /* as long as it is open, the device and its namespace live */
	int ns;	 /* that namespace */
	int ifindex;
	int link;
	int prog_fd; /* held here, or 0 */
};

static struct place places[MAX_PORTS + GEN_STREAMS];

/* An ifindex says nothing outside of its namespace: be in it when this is true. */
static bool enter(struct place *p)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI };

	if (p->tap)
		return p->ifindex && !setns(p->ns, CLONE_NEWNET);
	if (unshare(CLONE_NEWNET))
		return false;
	p->tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	p->ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (p->tap >= 0 && p->ns >= 0 && !ioctl(p->tap, TUNSETIFF, &ifr))
		p->ifindex = if_nametoindex(ifr.ifr_name);
	return p->ifindex;
}

static void attach(struct place *p, int prog_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);

	p->link = bpf_link_create(prog_fd, p->ifindex, BPF_XDP, &opts);
	if (p->link >= 0)
		p->prog_fd = prog_fd;
}

void hold_program(int prog_fd)
{
	int ns = netns_enter(NULL), i = 0;

	if (ns < 0)
		return;
	while (i < (int)ARRAY_SIZE(places) && places[i].prog_fd)
		i++;
	if (i < (int)ARRAY_SIZE(places) && enter(&places[i]))
		attach(&places[i], prog_fd);
	netns_leave(ns);
}

void hold_release(int prog_fd)
{
	int i;

	for (i = 0; i < (int)ARRAY_SIZE(places); i++)
		if (places[i].prog_fd == prog_fd) {
			close(places[i].link);
			places[i].prog_fd = 0;
		}
}
