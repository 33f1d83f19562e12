# SPDX-License-Identifier: Apache-2.0
"""Changes that a forwarder carries out while frames run through it (method `changes`)."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

from xdplab.forwarders.base import Dut, Forwarder
from xdplab.hosts import Host
from xdplab.hosts.frames import FrameProbe
from xdplab.model import PointFailed
from xdplab.testbed import Port

Kind = Literal["rules", "rule-stream", "hit-rule", "port-added", "queue-added", "restart", "new-flows"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Pipelines in which each flow is looked at, so that there is a first frame of it.
OF_FLOWS = ("conntrack", "nat")
#: Shared address space (RFC 6598): no frame of a tester and no rule of a pipeline is of it.
SPARE = IPv4Network("100.64.0.0/10")
#: As many rules as it has room for, one for each address.
MOST_RULES = 1 << 20
#: A port that is added, and its other end.
SPARE_LINKS = ("xdplab-p", "xdplab-q")
#: Step that ends with the first frame that an added port takes.
FIRST_FRAME = "first frame"
#: A frame between stations of documentation (RFC 7042 section 2.1.2), of a type for experiments (IEEE 802).
_MARK = b"xdplab first frame"
_FRAME = bytes.fromhex("00005e00530100005e00530288b5") + _MARK.ljust(46, b"\0")
#: From one to the next, and how long the first may take.
_EVERY_S, _BOUNCED_S = 0.001, 5.0


@dataclass(frozen=True)
class Step:
    """A part of a change that is timed by itself."""

    #: What is so after it: `installed`, `removed`, `replaced`, `added`.
    name: str
    #: How many rules, ports, queues.
    count: int
    #: Does it; returns how long that took in s where it is known better than by the clock.
    act: Callable[[], float | None]
    #: Reads back: "", or what is not as it should be.
    missing: Callable[[], str]


@dataclass(frozen=True)
class Change:
    """Steps that end where they began; `undo` does so from any of them, and a second time."""

    steps: Sequence[Step]
    undo: Callable[[], None] = lambda: None
    #: It may be done over and over while frames run.
    often: bool = False


@runtime_checkable
class Changing(Protocol):
    """A forwarder that carries out changes next to a restart, which every one can."""

    name: ClassVar[str]
    #: Of `KINDS`.
    changes: ClassVar[tuple[str, ...]]

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """None, or why it cannot carry out a change under load on this machine."""
        return _why_not(self.name, self.changes, kind, dut)

    def change(self, kind: str, count: int) -> Change:
        """Prepare a change of a kind that it can, with so many rules where it is of rules; it runs."""


def cannot_change(forwarder: Forwarder[Any], kind: str, dut: Dut) -> str | None:
    """None, or why a forwarder cannot carry out a change under load on this machine."""
    if isinstance(forwarder, Changing):
        return forwarder.cannot_change(kind, dut)
    return _why_not(forwarder.name, (), kind, dut)


def _why_not(name: str, changes: tuple[str, ...], kind: str, dut: Dut) -> str | None:
    if kind in (*changes, "restart"):
        return None
    if kind == "new-flows":
        why = f"change new-flows: {name} looks at no flow in pipeline {dut.pipeline}, only in "
        return None if dut.pipeline.kind in OF_FLOWS else why + " and ".join(OF_FLOWS)
    return f"{name}: change {kind}: it can do {', '.join((*changes, 'restart'))}"


def spare_addresses(count: int) -> Iterator[int]:
    """Of as many rules, as numbers."""
    first = int(SPARE[0])
    return iter(range(first, first + count))


def count_differs(what: str, wanted: int, there: Callable[[], int]) -> Callable[[], str]:
    def missing() -> str:
        found = there()
        return "" if found == wanted else f"{found} {what} are there, not {wanted}"

    return missing


def add_spare_link(host: Host, like: Port) -> Port:
    """A port that no frame comes to, and that is up."""
    remove_spare_link(host)
    name, peer = SPARE_LINKS
    host.run(["ip", "link", "add", name, "type", "veth", "peer", "name", peer])
    for each in SPARE_LINKS:
        host.run(["ip", "link", "set", each, "mtu", str(like.mtu), "up"])
    mac = host.read(f"/sys/class/net/{name}/address")
    return replace(like, role="spare", ifname=name, mac=mac)


class Bounced:
    """Frames that go into the spare port by its other end, which a switch that knows the port sends back."""

    def __init__(self, dut: Dut) -> None:
        self._probe = FrameProbe(dut.host, SPARE_LINKS[1], _MARK, dut.rundir / "bounced.log")

    def first_s(self, since_s: float) -> float:
        """From a time of `time.monotonic` to when the first came back; one is sent every millisecond.

        Raises:
            PointFailed: none comes back.
        """
        while time.monotonic() < since_s + _BOUNCED_S:
            self._probe.send(_FRAME)
            if self._probe.receive(_EVERY_S):
                return time.monotonic() - since_s
        raise PointFailed(f"no frame came back from the port that was added within {_BOUNCED_S:g} s")

    def end(self) -> None:
        self._probe.stop()


def port_change(
    host: Host,
    add: Callable[[], None],
    remove: Callable[[], None],
    there: Callable[[], int],
    between: Sequence[Step] = (),
) -> Change:
    """The spare port comes and goes: `add` and `remove` tell the switch, `there` counts what it has more than before.

    `remove` must be no error where there is nothing to remove: it is how the change is undone, too. `between` are steps
    with the port there.
    """

    def undo() -> None:
        try:
            remove()
        finally:
            remove_spare_link(host)

    added, removed = (
        Step(way, 1, act, count_differs("added ports", left, there))
        for way, act, left in (("added", add, 1), ("removed", remove, 0))
    )
    return Change([added, *between, removed], undo)


def remove_spare_link(host: Host) -> None:
    """Both ends; none is no error."""
    host.run(["ip", "link", "delete", SPARE_LINKS[0]], check=False)
