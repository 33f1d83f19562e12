// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <linux/ethtool.h>
#include <linux/ptp_clock.h>
#include <linux/sockios.h>
#include "card_clock.h"
#include "util.h"

/* Of them the one between the closest looks at the system's clock is used. */
#define SAMPLES 9

static __s64 nanoseconds(const struct ptp_clock_time *t)
{
	return t->sec * (__s64)NSEC_PER_SEC + t->nsec;
}

/* Number of the clock (/dev/ptpN), or -errno. */
static int clock_of(const char *ifname)
{
	struct ethtool_ts_info info = { .cmd = ETHTOOL_GET_TS_INFO };
	struct ifreq ifr = { .ifr_data = (void *)&info };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	strncpy(ifr.ifr_name, ifname, IFNAMSIZ - 1);
	err = ioctl(fd, SIOCETHTOOL, &ifr) ? -errno : info.phc_index;
	close(fd);
	return err == -1 ? -ENODEV : err;
}

static int ahead_of_realtime(int fd, __s64 *ns)
{
	struct ptp_sys_offset_extended offset = { .n_samples = SAMPLES };
	__s64 closest = INT64_MAX, before, after;
	int i;

	if (ioctl(fd, PTP_SYS_OFFSET_EXTENDED, &offset))
		return -errno;
	for (i = 0; i < SAMPLES; i++) {
		before = nanoseconds(&offset.ts[i][0]);
		after = nanoseconds(&offset.ts[i][2]);
		if (after - before >= closest)
			continue;
		closest = after - before;
		*ns = nanoseconds(&offset.ts[i][1]) - before - closest / 2;
	}
	return 0;
}

int card_clock_ahead(const char *ifname, __s64 *ns)
{
	struct timex times = {};
	int number = clock_of(ifname), fd, err;
	char path[32];

	if (number < 0)
		return number;
	snprintf(path, sizeof(path), "/dev/ptp%d", number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = ahead_of_realtime(fd, ns);
	close(fd);
	if (adjtimex(&times) < 0)
		return -errno;
	*ns -= times.tai * (__s64)NSEC_PER_SEC;
	return err;
}
