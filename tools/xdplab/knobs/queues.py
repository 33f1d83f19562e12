# SPDX-License-Identifier: Apache-2.0
"""Rings, channels and what chooses a queue (`ethtool -g -l -n -x`).

Rings and channels change before a forwarder starts: a driver that replaces them drops AF_XDP sockets.
"""

import re
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.knobs.base import EachKnob, KnobContext, ValueKnob, whole_number
from xdplab.knobs.ethtool import ABSENT, EthtoolKnob, NumberKnob, driver, shown
from xdplab.model import InputError, Unsupported, XdplabError
from xdplab.model.design import Scalar

_MAX_QUEUES = 256


#: Descriptors of each receive ring.
RxRing = NumberKnob.called("rx_ring", what="ring sizes", get="-g", put="-G", field="RX", argument="rx", low=1)
#: Descriptors of each transmit ring.
TxRing = NumberKnob.called("tx_ring", what="ring sizes", get="-g", put="-G", field="TX", argument="tx", low=1)


class Channels(EthtoolKnob):
    """Queues in use: combined where the driver has that, else as many to receive as to transmit."""

    name: ClassVar[str] = "channels"
    what: ClassVar[str] = "channels"

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 1, _MAX_QUEUES)

    def present(self, host: Host, ifname: str) -> str:
        """`combined 4`, or `rx 2 tx 2`."""
        _, now = self._counts(host, ifname)
        if now.get("Combined", ABSENT) != ABSENT:
            return f"combined {now['Combined']}"
        rx, tx = now.get("RX", ABSENT), now.get("TX", ABSENT)
        return ABSENT if ABSENT in (rx, tx) else f"rx {rx} tx {tx}"

    def limit(self, host: Host, ifname: str, value: Scalar) -> str | None:
        most, _ = self._counts(host, ifname)
        known = [most[key] for key in ("Combined", "RX", "TX") if most.get(key, ABSENT).isdigit()]
        combined = most.get("Combined", ABSENT)
        largest = int(combined) if combined.isdigit() else min(map(int, known), default=0)
        return f"{value} is above the maximum of {largest}" if int(value) > largest else None

    def arguments(self, ifname: str, value: str) -> list[str]:
        """`-L PORT combined 4`."""
        return ["-L", ifname, *value.split()]

    def wanted(self, name: str, present: str, value: Scalar) -> str:
        """In the form that the port has."""
        return re.sub(r"\d+", str(value), present)

    @staticmethod
    def _counts(host: Host, ifname: str) -> tuple[dict[str, str], dict[str, str]]:
        text = shown(host, "-l", ifname)
        most, _, now = text.partition("Current hardware settings:")
        return (
            dict(re.findall(r"^(\w+):[ \t]*(\S+)", most, re.MULTILINE)),
            dict(re.findall(r"^(\w+):[ \t]*(\S+)", now, re.MULTILINE)),
        )


class RssQueues(ValueKnob):
    """Spread received flows over the first N queues (`ethtool -X PORT equal N`)."""

    name: ClassVar[str] = "rss_queues"
    after: ClassVar[tuple[str, ...]] = ("channels",)  # the table is as wide as these, and is filled again with them

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 1, _MAX_QUEUES)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """There must be a table, one that ethtool can put back, and that many queues."""
        for port in context.ports:
            table = self.present(context.host, port.ifname)
            if not table:
                return f"{self.name}: the {driver(context.host, port.ifname)} driver has no indirection table"
            if not _is_default(table) and not _is_igbs(table):
                return f"{self.name}: {port.ifname} has an indirection table of its own, which ethtool cannot put back"
            queues = self._queues(context.host, port.ifname)
            if int(value) > queues:
                return f"{self.name}: {value} is above the {queues} queues of {port.ifname}"
        return None

    def present(self, host: Host, ifname: str) -> list[int]:
        rows = re.findall(r"^\s*\d+:((?:[ \t]+\d+)+)[ \t]*$", shown(host, "-x", ifname), re.MULTILINE)
        return [int(queue) for row in rows for queue in row.split()]

    @staticmethod
    def _queues(host: Host, ifname: str) -> int:
        found = re.search(r" with (\d+) RX ring", shown(host, "-x", ifname))
        return int(found.group(1)) if found else 0

    def wanted(self, name: str, present: list[int], value: Scalar) -> list[int]:
        """A table that does so already is left: set again, it would be the user's, and keep its channels."""
        return [index % int(value) for index in range(len(present))]

    def write(self, host: Host, name: str, value: Any) -> None:
        host.run(["ethtool", "-X", name, "equal", str(max(value) + 1)])

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """The tables name these queues, all of them."""
        for ifname, table in self.read(context).items():
            if set(table) != set(range(int(value))):
                raise Unsupported(f"{self.name}: {ifname} spreads over queues {sorted(set(table))} after {value}")

    def restore_one(self, context: KnobContext, ifname: str, table: Any) -> None:
        """The driver's default, or one over fewer queues, which it was (see `unsupported`)."""
        if self.present(context.host, ifname) != table:
            if max(table) + 1 < self._queues(context.host, ifname):
                self.write(context.host, ifname, table)
            else:
                context.host.run(["ethtool", "-X", ifname, "default"])
            if self.present(context.host, ifname) != table:
                _refill(context.host, ifname)
            if self.present(context.host, ifname) != table:
                raise Unsupported(f"{self.name}: the indirection table of {ifname} could not be put back")


def _is_default(table: list[int]) -> bool:
    """Queues in turn, as the kernel fills it (ethtool_rxfh_indir_default)."""
    return table == [index % (max(table) + 1) for index in range(len(table))]


def _is_igbs(table: list[int]) -> bool:
    """Each queue in one piece, as igb fills it (igb_setup_mrqc)."""
    return table == [index * (max(table) + 1) // len(table) for index in range(len(table))]


def _refill(host: Host, ifname: str) -> None:
    """Have a driver fill its table that does it otherwise than the kernel: igb does when the number of queues changes.

    Setting the same table with weights instead would mark it as the user's, and fewer channels would then be refused.
    """
    channels = Channels()
    before = channels.present(host, ifname)
    count = int(before.split()[-1])
    other = re.sub(r"\d+", str(count - 1 if count > 1 else count + 1), before)
    for value in (other, before):
        host.run(["ethtool", *channels.arguments(ifname, value)])


class FlowSteering(EachKnob):
    """All UDP frames to one queue (`ethtool -N PORT flow-type udp4 action Q`); `off`: as it was."""

    name: ClassVar[str] = "flow_steering"
    after: ClassVar[tuple[str, ...]] = ("channels", "ntuple")  # the queue is there; no rule goes when rules are off

    def check(self, value: Scalar) -> int | str:
        """A queue, or `off`."""
        if value is False or str(value).lower() == "off":
            return "off"
        try:
            return whole_number(self.name, value, 0, _MAX_QUEUES - 1)
        except InputError:
            raise InputError(f"knob {self.name}: {value!r} is neither a queue nor off") from None

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The driver must have rules for flows, switched on; `off` needs nothing."""
        for port in context.ports if value != "off" else ():
            features = shown(context.host, "-k", port.ifname)
            found = re.search(r"^ntuple-filters: (\w+)( \[fixed\])?", features, re.MULTILINE)
            name = driver(context.host, port.ifname)
            if found is None or (found.group(1) == "off" and found.group(2)):
                return f"{self.name}: the {name} driver has no flow steering (ntuple filters)"
            if self._rules(context.host, port.ifname) is None:
                return f"{self.name}: the {name} driver does not list flow rules"
        return None

    def present(self, host: Host, ifname: str) -> dict[str, Any]:
        """Its rules with their actions, and whether they are switched on."""
        found = re.search(r"^ntuple-filters: (\w+)", shown(host, "-k", ifname), re.MULTILINE)
        return {"ntuple": found.group(1) if found else ABSENT, "rules": self._rules(host, ifname) or {}}

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Add a rule to each port."""
        for port in context.ports if value != "off" else ():
            context.host.run(["ethtool", "-K", port.ifname, "ntuple", "on"])
            context.host.run(["ethtool", "-N", port.ifname, "flow-type", "udp4", "action", str(value)])

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """A rule to that queue is there."""
        for ifname, found in self.read(context).items() if value != "off" else ():
            if f"Direct to queue {value}" not in found["rules"].values():
                raise Unsupported(f"{self.name}: {ifname} has no rule to queue {value} after it was added")

    def restore_one(self, context: KnobContext, ifname: str, before: Any) -> None:
        """Delete what has been added, and switch off what was off."""
        for rule in sorted(set(self._rules(context.host, ifname) or {}) - set(before["rules"])):
            context.host.run(["ethtool", "-N", ifname, "delete", rule])
        if self.present(context.host, ifname)["ntuple"] != before["ntuple"]:
            context.host.run(["ethtool", "-K", ifname, "ntuple", before["ntuple"]])
        if self.present(context.host, ifname) != before:
            raise XdplabError(f"{self.name}: the flow rules of {ifname} are not what they were")

    @staticmethod
    def _rules(host: Host, ifname: str) -> dict[str, str] | None:
        done = host.run(["ethtool", "-n", ifname], check=False)
        if done.returncode or "RX classification rule retrieval failed" in done.stdout + done.stderr:
            return None
        parts = re.split(r"^Filter: (\d+)\s*$", done.stdout, flags=re.MULTILINE)[1:]
        found = {}
        for rule, text in zip(parts[0::2], parts[1::2], strict=True):
            action = re.search(r"^\s*Action: (.+?)\s*$", text, re.MULTILINE)
            found[rule] = action.group(1) if action else ""
        return found
