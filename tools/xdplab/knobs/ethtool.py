# SPDX-License-Identifier: Apache-2.0
"""What knobs that go through ethtool share: asking, the reason when a driver has not got it, setting.

Values are text as ethtool prints them.
"""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.hosts.kernel import driver as driver
from xdplab.knobs.base import KnobContext, ValueKnob, whole_number
from xdplab.model import InputError, Unsupported, XdplabError
from xdplab.model.design import Scalar
from xdplab.testbed import Port

ABSENT = "n/a"


def shown(host: Host, flag: str, ifname: str) -> str:
    """What `ethtool FLAG IFNAME` prints; "" when the driver does not offer it."""
    done = host.run(["ethtool", flag, ifname], check=False)
    return "" if done.returncode else done.stdout


class EthtoolKnob(ValueKnob):
    """A setting of each port of the forwarder."""

    #: What it is called in reasons, e.g. "interrupt coalescing".
    what: ClassVar[str]

    @abstractmethod
    def present(self, host: Host, ifname: str) -> str:
        """The value of one port, `ABSENT` when the driver has not got it."""

    @abstractmethod
    def arguments(self, ifname: str, value: str) -> list[str]:
        """Arguments of ethtool that set it."""

    def limit(self, host: Host, ifname: str, value: Scalar) -> str | None:
        """Why a value is out of the driver's range; None when it is not."""
        return None

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The driver of each port must have it, and take the value."""
        for port in context.ports:
            if port.simulated:
                return f"{self.name}: port {port.role} is simulated"
            if self.present(context.host, port.ifname) == ABSENT:
                return f"{self.name}: the {driver(context.host, port.ifname)} driver has no {self.what}"
            reason = self.limit(context.host, port.ifname, value)
            if reason:
                return f"{self.name}: {driver(context.host, port.ifname)}: {reason}"
        return None

    def write(self, host: Host, name: str, value: Any) -> None:
        try:
            host.run(["ethtool", *self.arguments(name, value)])
        except XdplabError as exc:
            raise Unsupported(f"{self.name}: {exc}") from None


class NumberKnob(EthtoolKnob):
    """A number with a name in the output of `get`, set by `put IFNAME ARGUMENT N`."""

    get: ClassVar[str]
    put: ClassVar[str]
    field: ClassVar[str]
    argument: ClassVar[str]
    low: ClassVar[int] = 0
    high: ClassVar[int] = 2**31 - 1

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, self.low, self.high)

    def present(self, host: Host, ifname: str) -> str:
        """The last line with the field's name: that of the current settings where maxima stand above."""
        found = re.findall(rf"^{re.escape(self.field)}:[ \t]*(\S+)", shown(host, self.get, ifname), re.MULTILINE)
        return found[-1] if found else ABSENT

    def limit(self, host: Host, ifname: str, value: Scalar) -> str | None:
        """The pre-set maximum, where the output has one."""
        found = re.findall(rf"^{re.escape(self.field)}:[ \t]*(\d+)", shown(host, self.get, ifname), re.MULTILINE)
        if len(found) > 1 and int(value) > int(found[0]):
            return f"{value} is above the maximum of {found[0]}"
        return None

    def arguments(self, ifname: str, value: str) -> list[str]:
        return [self.put, ifname, self.argument, value]


class SwitchKnob(EthtoolKnob):
    """Something that is on or off."""

    def check(self, value: Scalar) -> bool:
        """`true`, `false`, 1, 0, on, off."""
        return switch(self.name, value)

    def wanted(self, name: str, present: str, value: Scalar) -> str:
        return "on" if value else "off"


def switch(name: str, value: Scalar) -> bool:
    """A switch from what a study may write.

    Raises:
        InputError: neither on nor off.
    """
    words: Mapping[str, bool] = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
    if str(value).lower() not in words:
        raise InputError(f"knob {name}: {value!r} is neither on nor off")
    return words[str(value).lower()]


def first_missing(ports: Sequence[Port], host: Host, file: str) -> str | None:
    """The driver of the first port whose `/sys/class/net/PORT/FILE` is not there; None when all have it."""
    for port in ports:
        if host.run(["test", "-e", f"/sys/class/net/{port.ifname}/{file}"], check=False).returncode:
            return driver(host, port.ifname)
    return None
