# SPDX-License-Identifier: Apache-2.0
"""What a knob is: read, apply, verify, restore, describe, and a reason when this machine has not got it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from xdplab.hosts import Host, LocalHost, NetnsHost
from xdplab.model import CpuLayout, InputError, Steps, Unsupported, plugins
from xdplab.model.design import Scalar
from xdplab.testbed import Port


@dataclass(frozen=True)
class KnobContext:
    """What a knob may touch: the forwarder's host and ports, and the layout in force."""

    host: Host
    ports: tuple[Port, ...]
    layout: CpuLayout
    cpus: tuple[int, ...]

    @property
    def machine(self) -> Host:
        """The host's machine, outside of network namespaces: some settings exist only there."""
        return LocalHost(self.host.name) if isinstance(self.host, NetnsHost) else self.host


class Knob(ABC):
    """Base of all knobs."""

    name: ClassVar[str]
    #: `port`: gone with the embedded testbed's ports, on real hosts restored by `xdplab restore` after kill -9, as
    #: `system` is on both.
    scope: ClassVar[Literal["port", "system"]] = "port"
    #: Of the system: whether points that want the same value can have it together. One object without ports then sets
    #: it before those of ports are set, and `verify` of others finds it.
    shared: ClassVar[bool] = True
    #: Knobs that come first where a point has them too: what is possible here depends on what they set.
    after: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def called(cls, name: str, **attributes: Any) -> "type[Self]":
        """A knob that differs from this one in its name and in attributes of the class alone."""
        return type(name, (cls,), {"name": name, **attributes})

    def check(self, value: Scalar) -> Scalar:
        """The value in the knob's own type.

        Raises:
            InputError: not a value of this knob.
        """
        return value

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """None, or why this value cannot take effect here."""
        return None

    def layout(self, context: KnobContext, value: Scalar) -> CpuLayout:
        """The CPU layout under this value; all knobs but one leave it."""
        return context.layout

    @abstractmethod
    def read(self, context: KnobContext) -> Any:
        """The present value, in a form that JSON keeps and `restore` takes."""

    @abstractmethod
    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Set the knob to `value`; `verify` asks afterwards whether that took effect."""

    def after_start(self, context: KnobContext, value: Scalar) -> None:  # noqa: B027 - most knobs need none
        """What can only be done once the forwarder runs (pinning its kernel threads)."""

    @abstractmethod
    def verify(self, context: KnobContext, value: Scalar) -> None:
        """Ask the kernel.

        Raises:
            Unsupported: it did not take effect.
        """

    @abstractmethod
    def restore(self, context: KnobContext, saved: Any) -> None:
        """Put back what `read` gave, and check it."""

    def describe(self, value: Scalar) -> str:
        """One phrase for the report."""
        return f"{self.name}={value}"


class EachKnob(Knob):
    """A knob of several ports, or files: `read` gives what each of them has, by name."""

    def names(self, context: KnobContext) -> Iterable[str]:
        """The forwarder's ports, where a knob does not name others."""
        return [port.ifname for port in context.ports]

    def place(self, context: KnobContext) -> Host:
        """The host of the ports or files."""
        return context.host

    @abstractmethod
    def present(self, host: Host, name: str) -> Any:
        """What one of them has, in a form that JSON keeps."""

    def read(self, context: KnobContext) -> dict[str, Any]:
        """Name of the port or file -> its present value."""
        return {name: self.present(self.place(context), name) for name in self.names(context)}

    @abstractmethod
    def restore_one(self, context: KnobContext, name: str, before: Any) -> None:
        """Put one back and verify it.

        Raises:
            XdplabError: it could not be.
        """

    def restore(self, context: KnobContext, saved: Any) -> None:
        """Each of them, also those behind one that fails.

        Raises:
            Unsupported: the reason of each that failed.
        """
        steps = Steps()
        for name, before in saved.items():
            with steps.step(f"{self.name} of {name}"):
                self.restore_one(context, name, before)
        if steps.failed:
            raise Unsupported(steps.reasons)


class ValueKnob(EachKnob):
    """One of which each port, or file, has a value of its own, which is written as it is read."""

    @abstractmethod
    def write(self, host: Host, name: str, value: Any) -> None:
        """Give one a value, in the terms of `present`; only where it has another one: some drivers refuse that."""

    def wanted(self, name: str, present: Any, value: Scalar) -> Any:
        """What one must have under a value of the study, in the terms of `present`."""
        return str(value)

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Set each port or file that has another value."""
        for name, present in self.read(context).items():
            wanted = self.wanted(name, present, value)
            if present != wanted:
                self.write(self.place(context), name, wanted)

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """Ask each port or file whether it has what `value` wants of it."""
        for name, present in self.read(context).items():
            wanted = self.wanted(name, present, value)
            if present != wanted:
                raise Unsupported(f"{self.name}: {name} has {present} after {wanted} was set")

    def restore_one(self, context: KnobContext, name: str, before: Any) -> None:
        """Set one port or file to what it had, and read that back."""
        host = self.place(context)
        if self.present(host, name) != before:
            self.write(host, name, before)
        present = self.present(host, name)
        if present != before:
            raise Unsupported(f"{self.name}: {name} has {present} and could not be set back to {before}")


def whole_number(name: str, value: Scalar, low: int, high: int) -> int:
    """`value` as an integer between `low` and `high`.

    Raises:
        InputError: it is none.
    """
    try:
        number = int(str(value))
    except ValueError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise InputError(f"knob {name}: {value!r} is not a whole number from {low} to {high}")
    return number


class PortFileKnob(ValueKnob):
    """A number in /sys/class/net/PORT/FILE, the same for all ports of the forwarder."""

    file: ClassVar[str]
    low: ClassVar[int] = 0
    high: ClassVar[int]

    def check(self, value: Scalar) -> int:
        """A whole number within the file's range."""
        return whole_number(self.name, value, self.low, self.high)

    def present(self, host: Host, name: str) -> str:
        """The text of the interface's file."""
        return host.read(self._path(name))

    def write(self, host: Host, name: str, value: Any) -> None:
        """Write it to the interface's file."""
        host.write(self._path(name), value)

    def _path(self, ifname: str) -> str:
        return f"/sys/class/net/{ifname}/{self.file}"


GROUP = "xdplab.knobs"


def make_knob(name: str) -> Knob:
    """The knob of that name.

    Raises:
        InputError: no such knob.
    """
    knob = plugins.find(GROUP, "knob", name)()
    assert isinstance(knob, Knob)
    return knob
