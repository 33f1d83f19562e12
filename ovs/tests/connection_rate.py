#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""Short TCP connections a second through the connection tracker, with flows in XDP and without.

    ovs/tests/connection_rate.py --build "$(ovs/build | tail -1)"    # in .venv

Two daemons, one with `hw-offload`, each between veth pairs in namespaces of its own. Clients open a connection, send a
byte, wait for one and for the end of the connection, and open the next. Flows are tracked before they are forwarded, as
in a firewall: connections of one side are committed. The table has the connections a second, and how many of them were
given to XDP of each that was opened (`conntrack_offload_begin`). In turns and in random order; medians and ranges.
Exit code: 0, or 2 if it could not run.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab import StormError, Switch, at_least, measured, ready, run
from new_flows import Names, new_switch
from offload_queues import SLEEP
from option_loss import spread

RULES = """priority=10,tcp,ct_state=-trk,actions=ct(table=1,zone=5)
priority=0,actions=normal
table=1,in_port=1,tcp,ct_state=+trk+new,actions=ct(commit,zone=5),output:2
table=1,in_port=1,tcp,ct_state=+trk+est,actions=output:2
table=1,in_port=2,tcp,ct_state=+trk+est,actions=output:1
table=1,priority=0,actions=drop
"""
#: `ends serve`, or `ends ask CLIENTS SECONDS`, which prints how many connections there were.
ENDS = r"""#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in there = { .sin_family = AF_INET };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void serve(void)
{
	int one = 1, all = socket(AF_INET, SOCK_STREAM, 0), fd;
	char byte;

	setsockopt(all, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(all, (struct sockaddr *)&there, sizeof(there)) || listen(all, 1024))
		exit(1);
	for (int i = 0; i < 16; i++)
		if (!fork())
			while ((fd = accept(all, NULL, NULL)) >= 0) {
				if (recv(fd, &byte, 1, 0) == 1)
					send(fd, &byte, 1, MSG_NOSIGNAL);
				close(fd);
			}
	puts("ready");
	fflush(stdout);
	pause();
}

static long ask(double until)
{
	struct timeval patience = { 1, 0 };
	long count = 0;
	char byte = 1;

	while (now() < until) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (!connect(fd, (struct sockaddr *)&there, sizeof(there)))
			count += send(fd, &byte, 1, 0) == 1 && recv(fd, &byte, 1, 0) == 1 && !recv(fd, &byte, 1, 0);
		close(fd);
	}
	return count;
}

int main(int argc, char **argv)
{
	there.sin_port = htons(5001);
	inet_pton(AF_INET, "10.77.0.2", &there.sin_addr);
	if (argc < 4) {
		serve();
	} else {
		double until = now() + atof(argv[3]);
		int ends[2], clients = atoi(argv[2]);
		long count, sum = 0;

		if (pipe(ends))
			return 1;
		for (int i = 0; i < clients; i++)
			if (!fork()) {
				count = ask(until);
				return write(ends[1], &count, sizeof(count)) != sizeof(count);
			}
		close(ends[1]);
		while (read(ends[0], &count, sizeof(count)) == sizeof(count))
			sum += count;
		printf("%ld\n", sum);
	}
	return 0;
}
"""


@contextmanager
def new_side(build: Path, offload: bool) -> Iterator[tuple[Switch, Names, str]]:
    """A new daemon with a server behind its second port, and the program that is the clients."""
    with new_switch(build, offload, "priority=0,actions=normal") as (switch, names):
        ends = str(switch.folder / "ends")
        run("gcc", "-O2", "-o", ends, "-x", "c", "-", stdin=ENDS)
        switch.ofctl("replace-flows", "-", stdin=RULES)
        switch.vsctl("set", "Open_vSwitch", ".", SLEEP)
        server = subprocess.Popen(["ip", "netns", "exec", names[2], ends, "serve"], stdout=subprocess.PIPE,
                                  start_new_session=True)  # fmt: skip
        try:
            assert server.stdout is not None
            if server.stdout.readline() != b"ready\n":
                raise StormError("the server does not listen")
            yield switch, names, ends
        finally:
            run("kill", "--", f"-{server.pid}", check=False)
            server.wait()


def offload_begun(switch: Switch) -> int:
    """Connections that were given to XDP, since the daemon started."""
    return int(switch.appctl("coverage/read-counter", "conntrack_offload_begin"))


def rate(side: tuple[Switch, Names, str], asked: argparse.Namespace) -> tuple[float, float]:
    """Connections a second, and those of them that were given to XDP."""
    switch, names, ends = side
    switch.appctl("dpctl/flush-conntrack")
    before, started = offload_begun(switch), time.monotonic()
    said = run("ip", "netns", "exec", names[0], ends, "ask", str(asked.clients), str(asked.seconds))
    elapsed_s = time.monotonic() - started
    if not int(said):
        raise StormError(f"no connection was made\n{switch.ofctl('dump-flows')}")
    return int(said) / elapsed_s, (offload_begun(switch) - before) / int(said)


def measure(asked: argparse.Namespace) -> None:
    """All repetitions, and their table."""
    order = random.Random(asked.seed)  # noqa: S311 (an order)
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with ExitStack() as stack:
        sides = {offload: stack.enter_context(new_side(asked.build, offload)) for offload in found}
        for number in range(asked.repetitions):
            for offload in order.sample(list(found), len(found)):
                found[offload].append(rate(sides[offload], asked))
            print(f"{number + 1} of {asked.repetitions} repetitions", file=sys.stderr, flush=True)
    print(f"{'':22}{'connections a second':>30}{'of each, in XDP':>26}")
    for offload, name in ((False, "without"), (True, "flows in XDP")):
        rates, shares = zip(*found[offload], strict=True)
        print(f"{name:22}{spread(list(rates), '.0f'):>30}{spread(list(shares), '.3f'):>26}")
    times = [b[0] / a[0] for a, b in zip(found[False], found[True], strict=True)]
    print(f"{'times':22}{spread(times, '.3f'):>30}")


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--clients", type=at_least(1), default=16, help="connections at a time")
    parser.add_argument("--seconds", type=at_least(0.1), default=1.0, help="of a rate")
    parser.add_argument("--repetitions", type=at_least(1), default=9)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    asked = parser.parse_args(argv)
    if not ready("connection_rate", (asked.build,), "gcc"):
        return 2
    return measured("connection_rate", lambda: measure(asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
