// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Batches of 1 to 4 frames through the probes that our patches give to Open vSwitch, for tests of ovsprobe. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/sdt.h>

static void spin(long ns)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec -
		       start.tv_nsec <
	       ns);
}

/* sdt_batches COUNT SWITCH_NS KICK_NS: begins and ends with a line on stdin. */
int main(int argc, char **argv)
{
	const char *name = "b0";
	long i;

	if (argc != 4 || getchar() == EOF)
		return 2;
	for (i = 0; i < atol(argv[1]); i++) {
		int frames = 1 + i % 4;

		DTRACE_PROBE4(netdev_afxdp, rx_batch, name, 0, frames, &i);
		spin(atol(argv[2]));
		DTRACE_PROBE3(netdev_afxdp, tx_batch, name, 0, frames);
		spin(atol(argv[3]));
		DTRACE_PROBE4(netdev_afxdp, tx_kick_end, 0, 0, 0, 1);
		DTRACE_PROBE2(netdev_afxdp, tx_complete, 0, frames);
	}
	puts("done");
	fflush(stdout);
	return getchar() == EOF;
}
