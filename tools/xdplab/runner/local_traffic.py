# SPDX-License-Identifier: Apache-2.0
"""Local traffic: a memcached behind a network function on the same machine, and a client that asks it.

An XDP program passes its frames to the stack of the port. An application on AF_XDP has taken them from there: it sends
them into a pair of veths whose other end has the server's address, and what comes back from there out of the port.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path as FilePath

from xdplab.forwarders import Dut
from xdplab.forwarders.xsk_functions import XskFunctions
from xdplab.hosts import Host, memcached_client
from xdplab.model import PointFailed
from xdplab.testbed import Port

_CLIENT, _SERVER, _PREFIX, _TCP_PORT = "198.18.0.1", "198.18.0.2", 24, 11211
_CONNECTIONS = 16
#: Without them frames leave without a checksum, for the receiver on the same machine to trust.
_OFFLOADS = ("tx", "sg", "tso", "gso")


def why_not(dut: Dut, client: Port) -> str | None:
    """None, or why local traffic cannot be measured here."""
    if client.lasting or client.simulated:
        return "local traffic: addresses are only given to ports of the embedded testbed"
    if dut.host.run(["which", "memcached"], check=False).returncode:
        return "memcached is not installed; `apt-get install memcached` installs it"
    return None


@contextlib.contextmanager
def way_to_the_stack(program: XskFunctions, dut: Dut, client: Port) -> Iterator[None]:
    """Addresses of client and server, and the veths to the stack where the program needs them."""
    tag = client.ifname.partition("-")[2]
    inner, outer = f"s0-{tag}", f"s1-{tag}"
    server = outer if program.takes_all else dut.ports[0].ifname
    with contextlib.ExitStack() as stack:
        if program.takes_all:
            dut.host.run(["ip", "link", "add", inner, "type", "veth", "peer", "name", outer])
            stack.callback(dut.host.run, ["ip", "link", "delete", inner], check=False)
            for name in (inner, outer):
                for feature in _OFFLOADS:
                    dut.host.run(["ethtool", "-K", name, feature, "off"], check=False)
                dut.host.run(["ip", "link", "set", name, "up"])
            program.stack_port = inner
        for host, address, name in ((client.host, _CLIENT, client.ifname), (dut.host, _SERVER, server)):
            _give_address(stack, host, address, name)
        yield


def _give_address(stack: contextlib.ExitStack, host: Host, address: str, name: str) -> None:
    host.run(["ip", "address", "add", f"{address}/{_PREFIX}", "dev", name])
    stack.callback(host.run, ["ip", "address", "flush", "dev", name], check=False)
    stack.callback(host.run, ["ip", "neighbour", "flush", "dev", name], check=False)


def requests_per_s(dut: Dut, client: Port, client_cpu: int, workdir: FilePath, duration_s: float) -> float:
    """Answered `get` requests; memcached shares the core of the network function, as published.

    Raises:
        PointFailed: the server or the client ended; the message holds its own words.
    """
    options = ["-u", "root", "-l", _SERVER, "-p", str(_TCP_PORT), "-U", "0", "-t", "1", "-m", "64"]
    server = dut.host.start(
        ["memcached", *options], log=workdir / "memcached.log", cpus=[dut.layout.forwarder], die_with_us=True
    )
    answer = workdir / "client.json"
    script = client.host.program(FilePath(memcached_client.__file__))
    argv = [client.host.python, script, _SERVER, str(_TCP_PORT), str(duration_s), str(_CONNECTIONS)]
    asking = client.host.start(argv, log=workdir / "client.log", stdout=answer, cpus=[client_cpu], die_with_us=True)
    try:
        code = asking.wait(duration_s + 20.0)
        if server.poll() is not None:
            raise PointFailed(f"memcached ended: {' | '.join(server.log_tail(2))}")
        if code != 0:
            raise PointFailed(" | ".join(asking.log_tail(1)) or "the memcached client did not end in time")
        told = json.loads(client.host.read(str(answer)))
    finally:
        asking.stop()
        server.stop()
    return float(told["requests"] / told["elapsed_s"])
