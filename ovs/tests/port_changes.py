# SPDX-License-Identifier: Apache-2.0
"""Random changes of live AF_XDP ports: what `option_storm.py` does to them, and how it is taken back."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lab import PORTS, QUEUES, Switch, run

RINGS = (64, 128, 256, 512, 1024, 2048, 4096)
# Of the flow table in XDP; builds without one do not read them.
TABLE: dict[str, Sequence[object]] = {
    "xdp-flow-entries": (None, 64, 128, 1024),
    "xdp-flow-masks": (None, 1, 2, 64),
}
# Values to choose from; None removes the option.
GOOD: dict[str, Sequence[object]] = {
    "n_rxq": (None, 1, 2, QUEUES),
    "xdp-mode": (None, "native", "generic", "best-effort"),
    "use-need-wakeup": (None, "true", "false"),
    "xsk-rx-ring": (None, *RINGS),
    "xsk-tx-ring": (None, *RINGS[:6]),
    "xsk-fill-ring": (None, *RINGS),
    "xsk-comp-ring": (None, 2048, 4096),
    "umem-frames": (None, 0, 8192, 16384, 32768),
    "umem-frame-size": (None, 2048, 4096),
    "umem-headroom": (None, 0, 1, 64, 128),
    "umem-hugepages": (None, "none", "2M", "1G"),
    "busy-poll": (None, 0, 20),
    "busy-poll-budget": (None, 1, 8, 64, 256),
    "prefer-busy-poll": (None, "true", "false"),
    "rx-wakeup": (None, "poll", "recvfrom", "none"),
    "tx-skb-budget": (None, 0, 32, 64),
    "shared-umem": (None, "g", "h"),
    "tx-copy": (None, "auto", "always"),
    **TABLE,
}
# Refused at once, or by the kernel: veth has no zero-copy and no more queues than these.
BAD: dict[str, Sequence[object]] = {
    "n_rxq": (QUEUES + 1, 9, 42),
    "xdp-mode": ("native-with-zerocopy", "fast"),
    "xsk-rx-ring": (63, 100, 65536, "many"),
    "umem-frames": (1000, -1, 64),
    "umem-frame-size": (1024, 8192),
    "umem-headroom": (1025, -1),
    "busy-poll-budget": (0, 65536),
    "rx-wakeup": ("sleep",),
    "tx-copy": ("never",),
    "umem-hugepages": ("4K",),
    "xdp-flow-entries": (63, 1048577, "many"),
    "xdp-flow-masks": (0, 65),
}
TYPES = ("afxdp", "afxdp-nonpmd")
MTUS = (1000, 1500, 3000, 4000, 9000)
LARGEST_NATIVE_MTU = 3000  # of a peer, about: veth takes no XDP program with frames that do not fit in a page


class Changes:
    """Changes of the ports of a switch; `harmless` ones leave every port in the datapath."""

    def __init__(self, seed: int, switch: Switch, names: tuple[str, str, str]) -> None:
        self.switch = switch
        self.names = names
        self.random = random.Random(seed)  # noqa: S311 (a test)
        self.made = 0
        self.harmless = False
        self.bad: set[tuple[str, str]] = set()
        self.peer_mtu = dict.fromkeys(PORTS, 1500)
        self.native: set[str] = set()

    def change(self) -> str:
        """Makes one random change; returns it in words."""
        self.made += 1
        what = self.random.random()
        port = self.random.choice(PORTS)
        if what < 0.06 and not self.harmless:
            kind = self.random.choice(TYPES)
            self.switch.vsctl("del-port", port)
            self.switch.add_port(port, kind)
            self.bad = {(name, key) for name, key in self.bad if name != port}
            self.native.discard(port)
            return f"{port}: added again as {kind}"
        if what < 0.12:
            return self.change_mtu(port)
        if what < 0.18:
            return self.change_link(port)
        bad = not self.harmless and self.random.random() < 0.3
        return self.change_option(PORTS if what < 0.4 else (port,), BAD if bad else GOOD)

    def change_table(self) -> str:
        """A smaller or larger flow table in XDP, which gets the flows of the one before."""
        return self.change_option((self.random.choice(PORTS),), TABLE)

    def change_option(self, ports: Sequence[str], options: dict[str, Sequence[object]]) -> str:
        """An option of these ports, in one transaction."""
        key = self.random.choice(list(options))
        value = self.random.choice(list(options[key]))
        if value == "native" and self.harmless and any(self.peer_mtu[port] > LARGEST_NATIVE_MTU for port in ports):
            value = "generic"
        if key == "xdp-mode":
            self.native = self.native | {*ports} if value == "native" else self.native - {*ports}
        argv: list[str] = []
        for port in ports:
            given = (port, "options", key) if value is None else (port, f"options:{key}={value}")
            argv += ["--", "remove" if value is None else "set", "interface", *given]
            (self.bad.add if options is BAD else self.bad.discard)((port, key))
        self.switch.vsctl(*argv[1:])
        return f"{'+'.join(ports)}: {key}={value}"

    def change_mtu(self, port: str) -> str:
        """An MTU, by request or by somebody else; the kernel refuses some."""
        mtu = self.random.choice(MTUS)
        where = self.random.choice(("request", "port", "peer"))
        if where == "peer" and self.harmless and port in self.native:
            mtu = min(mtu, LARGEST_NATIVE_MTU)
        if where == "request":
            self.switch.vsctl("set", "interface", port, f"mtu_request={mtu}")
        elif where == "port":
            run("ip", "-n", self.names[1], "link", "set", port, "mtu", str(mtu), check=False)
        else:
            run("ip", "-n", *self.peer(port), "mtu", str(mtu), check=False)
            self.peer_mtu[port] = mtu
        return f"{port}: MTU {mtu} ({where})"

    def change_link(self, port: str) -> str:
        """The link of a port or of its peer, down or up."""
        link = self.random.choice(((self.names[1], "link", "set", port), self.peer(port)))
        state = self.random.choice(("down", "up"))
        run("ip", "-n", *link, state)
        return f"{link[3]} {state}"

    def peer(self, port: str) -> tuple[str, str, str, str]:
        """Arguments of ip that name the other end of a port's link."""
        index = PORTS.index(port)
        return (self.names[0 if index == 0 else 2], "link", "set", f"t{index}")

    def take_back(self) -> None:
        """Undoes what keeps a port from forwarding."""
        for index, port in enumerate(PORTS):
            run("ip", "-n", *self.peer(port), "mtu", "1500", "up")
            address = (f"10.77.0.{index + 1}/24", f"10.77.0.{2 - index}", f"02:00:00:00:77:0{2 - index}")
            peer = self.peer(port)
            run("ip", "-n", peer[0], "addr", "replace", address[0], "dev", peer[3])
            run("ip", "-n", peer[0], "neigh", "replace", address[1], "lladdr", address[2], "dev", peer[3])
            run("ip", "-n", self.names[1], "link", "set", port, "mtu", "1500", "up", check=False)
        argv = [f"-- clear interface {port} mtu_request".split() for port in PORTS]
        argv += [f"-- remove interface {port} options {key}".split() for port, key in sorted(self.bad)]
        for port in PORTS:
            if self.peer_mtu[port] > LARGEST_NATIVE_MTU:
                # Open vSwitch does not hear of the peer: it tries other options at once, the same ones later.
                argv.append(f"-- set interface {port} options:again={self.made}".split())
            self.peer_mtu[port] = 1500
        self.bad.clear()
        self.switch.vsctl(*[word for words in argv for word in words][1:])
