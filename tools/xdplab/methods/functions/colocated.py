# SPDX-License-Identifier: Apache-2.0
"""What runs on the core of a network function: a memcached or nginx behind it, or a job that only computes.

Frames for a server here: an XDP program passes them to the stack of the port. An application on AF_XDP has taken them
from there: it sends them into a pair of veths whose other end has the server's address, and what comes back from there
out of the port.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from xdplab.forwarders import Dut
from xdplab.forwarders.xsk.functions import XskFunctions
from xdplab.hosts import Host, Running, cpu_job
from xdplab.methods.shared import servers
from xdplab.model import PointFailed
from xdplab.model.functions import NfTraffic
from xdplab.testbed import Port

_PREFIX = 24
_CONNECTIONS = 16
_PROGRAMS: dict[NfTraffic, tuple[str, ...]] = {"local": ("memcached",), "web": ("nginx", "wrk"), "job": ()}
#: Without them frames leave without a checksum, for the receiver on the same machine to trust.
_OFFLOADS = ("tx", "sg", "tso", "gso")


@dataclass(frozen=True)
class Colocated:
    """One of them on its place: the server on the function's core, its client on the tester's."""

    traffic: NfTraffic
    dut: Dut
    client: Port

    @property
    def _folder(self) -> FilePath:
        """Of the repetition; on the embedded testbed client and server share a machine."""
        return self.dut.rundir

    def why_not(self) -> str | None:
        """None, or why it cannot run here."""
        if self.client.lasting or self.client.simulated:
            return f"{self.traffic}: addresses are only given to ports of the embedded testbed"
        return servers.missing_program(self.dut.host, _PROGRAMS[self.traffic])

    @contextlib.contextmanager
    def way_to_the_stack(self, program: XskFunctions) -> Iterator[None]:
        """Addresses of client and server, and the veths to the stack where the program needs them."""
        tag = self.client.ifname.partition("-")[2]
        inner, outer = f"s0-{tag}", f"s1-{tag}"
        host = self.dut.host
        with contextlib.ExitStack() as stack:
            if self.traffic != "job":
                if program.takes_all:
                    host.run(["ip", "link", "add", inner, "type", "veth", "peer", "name", outer])
                    stack.callback(host.run, ["ip", "link", "delete", inner], check=False)
                    _set_up(host, (inner, outer))
                    program.stack_port = inner
                server = outer if program.takes_all else self.dut.ports[0].ifname
                _give_address(stack, self.client.host, servers.CLIENT, self.client.ifname)
                _give_address(stack, host, servers.SERVER, server)
            yield

    def figure(self, duration_s: float) -> float:
        """Requests per second, or seconds per round of the job.

        Raises:
            PointFailed: a program ended; the message holds its own words.
        """
        if self.traffic == "job":
            host = self.dut.host
            argv = [host.python, host.program(FilePath(cpu_job.__file__)), str(duration_s)]
            report = json.loads(self._output(self._start(host, argv)))
            return float(report["elapsed_s"] / max(report["rounds"], 1))
        with self._server() as server:
            text = self._ask(duration_s) if server.poll() is None else ""
            if server.poll() is not None:
                raise PointFailed(f"{_PROGRAMS[self.traffic][0]} ended: {' | '.join(server.log_tail(2))}")
        if self.traffic == "web":
            return servers.wrk_requests_per_s(text)
        report = json.loads(text)
        return float(report["requests"] / report["elapsed_s"])

    def _server(self) -> contextlib.AbstractContextManager[Running]:
        host = self.dut.host
        if self.traffic == "web":
            argv, port = servers.nginx(host, self._folder, servers.SERVER), servers.WEB_PORT
        else:
            argv, port = servers.memcached(servers.SERVER), servers.MEMCACHED_PORT
        return servers.running(host, argv, port, log=self._folder / "server.log", cpu=self.dut.layout.forwarder)

    def _ask(self, duration_s: float) -> str:
        host = self.client.host
        if self.traffic == "local":
            argv = servers.memcached_requests(host, servers.SERVER, _CONNECTIONS, duration_s)
        else:
            argv = servers.wrk(servers.SERVER, _CONNECTIONS, duration_s)
        return self._output(self._start(host, argv))

    def _start(self, host: Host, argv: Sequence[str]) -> Running:
        cpu = self.dut.layout.forwarder if self.traffic == "job" else self.dut.layout.tester_tx
        answer = self._folder / "answer"
        return host.start(argv, log=self._folder / "client.log", stdout=answer, cpus=[cpu])

    def _output(self, process: Running) -> str:
        try:
            code = process.wait(60.0)
            if code != 0:
                tail = " | ".join(process.log_tail(1))
                raise PointFailed(tail or f"{self.traffic}: its client ended with exit code {code}")
        finally:
            process.stop()
        return self.client.host.read(str(self._folder / "answer"))


def seconds_asked(traffic: NfTraffic, duration_s: float) -> float:
    """How long it is measured: wrk counts whole seconds."""
    return servers.wrk_seconds(duration_s) if traffic == "web" else duration_s


def _set_up(host: Host, names: Sequence[str]) -> None:
    for name in names:
        for feature in _OFFLOADS:
            host.run(["ethtool", "-K", name, feature, "off"], check=False)
        host.run(["ip", "link", "set", name, "up"])


def _give_address(stack: contextlib.ExitStack, host: Host, address: str, name: str) -> None:
    host.run(["ip", "address", "add", f"{address}/{_PREFIX}", "dev", name])
    stack.callback(host.run, ["ip", "address", "flush", "dev", name], check=False)
    stack.callback(host.run, ["ip", "neighbour", "flush", "dev", name], check=False)
