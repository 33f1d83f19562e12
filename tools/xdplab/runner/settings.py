# SPDX-License-Identifier: Apache-2.0
"""Settings of a repetition: each is remembered before it is changed, to be put back after any end of a run."""

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from xdplab.knobs import Knob, KnobContext, make_knob
from xdplab.model import InputError, Steps, Unsupported, XdplabError
from xdplab.model.design import UNSET, Scalar
from xdplab.testbed import TestbedLock

#: What a driver forgets when a program's own has its card for a while, in the order in which it is set again: rings are
#: of the queues that are there. Offloads and MTU are put back with the card itself (`testbed/cards.py`).
OF_DRIVER = ("private_flag", "channels", "rss_queues", "rx_ring", "tx_ring", "coalesce_adaptive_rx",
              "coalesce_adaptive_tx", "coalesce_rx_usecs", "coalesce_tx_usecs", "coalesce_rx_frames",
              "coalesce_tx_frames", "pause", "threaded_napi", "napi_defer_hard_irqs", "gro_flush_timeout")  # fmt: skip


class Settings:
    """The knobs of one repetition: snapshot, apply, verify, restore in reverse order.

    They are set in the order of the study, but a knob comes after those of its own `after`; whether it is supported is
    asked when these are in force. `held`: names of those that are in force as long as it lives, set and put back by
    another one for all points that stand side by side; nothing of its own outlives the run then.

    Raises:
        InputError: knobs that are each to come after the other.
    """

    def __init__(
        self, lock: TestbedLock, context: KnobContext, wanted: dict[str, Scalar], held: Collection[str] = ()
    ) -> None:
        self._lock, self._held = lock, held
        if wanted.get("channels", UNSET) != UNSET and self._narrowed(context):
            wanted = {"rss_queues": wanted["channels"], **wanted}
        self._wanted = _ordered({make_knob(name): value for name, value in wanted.items() if value != UNSET})
        self._saved: list[tuple[Knob, Any]] = []
        #: Knob -> what it shows since it was set: what is otherwise after a killed run, somebody else has set.
        self._set_to: dict[str, Any] = {}
        layout = context.layout
        for knob, value in self._wanted:
            layout = knob.layout(KnobContext(context.host, context.ports, layout, context.cpus), value)
        self._before = context
        #: The context with the layout that the knobs ask for.
        self.context = KnobContext(context.host, context.ports, layout, context.cpus)

    def _narrowed(self, context: KnobContext) -> bool:
        """Whether the run has left a port its channels and receives by fewer: a point that asks for some has all."""
        own = self._lock.state().get("own_settings", {})
        return any("rss_queues" in own.get(port.role, {}) for port in context.ports)

    def foreseeable(self) -> dict[str, Scalar]:
        """Those that no other of them comes before: what can be asked of them now holds when they are set."""
        names = {knob.name for knob, _ in self._wanted}
        return {knob.name: value for knob, value in self._wanted if names.isdisjoint(knob.after)}

    def unsupported(self) -> str | None:
        """The first reason, as far as it can be foreseen, why a value cannot take effect."""
        foreseeable = self.foreseeable()
        for knob, value in self._wanted:
            reason = knob.unsupported(self._before, value) if knob.name in foreseeable else None
            if reason:
                return reason
        return None

    def apply(self) -> None:
        """Remember, set and verify each, and all again: a later one must not have undone an earlier one.

        Raises:
            Unsupported: a value cannot, or did not, take effect.
        """
        foreseeable = self.foreseeable()
        for knob, value in self._wanted:
            reason = None if knob.name in foreseeable else knob.unsupported(self._before, value)
            if reason:
                raise Unsupported(reason)
            if knob.name not in self._held:
                self._saved.append((knob, knob.read(self._before)))
                self._remember()
                knob.apply(self._before, knob.check(value))
            knob.verify(self._before, knob.check(value))
        for knob, value in self._wanted[:-1]:
            knob.verify(self._before, knob.check(value))
        self._set_to = self.read_back()
        self._remember()

    def keep_of_driver(self) -> None:
        """Remember what the ports lose with the kernel's driver, so that `restore` sets it again.

        Raises:
            Unsupported: something of it could not be set again.
        """
        context = self._before
        for ifname, found in make_knob("flow_steering").read(context).items():
            if found["rules"]:
                raise Unsupported(
                    f"{ifname} has rules for flows, which are lost when the kernel's driver lets go of it"
                )
        if any(make_knob("rss_queues").read(context).values()):
            reason = make_knob("rss_queues").unsupported(context, 1)
            if reason:
                raise Unsupported(reason)
        for name in reversed(OF_DRIVER):
            knob = make_knob(name)
            with suppress(XdplabError):  # this kernel, or its driver, has it not
                self._saved.append((knob, knob.read(context)))
        self._remember()

    def after_start(self, forwarder: str) -> None:
        """What needs the forwarder running; then all are verified again: a forwarder may change settings itself.

        Raises:
            Unsupported: the forwarder of this name has changed one.
        """
        for knob, value in self._wanted:
            knob.after_start(self._before, knob.check(value))
        for knob, value in self._wanted:
            try:
                knob.verify(self._before, knob.check(value))
            except Unsupported as exc:
                raise Unsupported(f"{forwarder} sets it itself: {exc}") from exc

    def read_back(self) -> dict[str, Any]:
        """Knob -> the value that the kernel shows now."""
        return {knob.name: knob.read(self._before) for knob, _ in self._wanted}

    def restore(self) -> None:
        """Put everything back and verify it; those that fail are kept, and reported after all have been tried.

        Raises:
            XdplabError: the reason of each that failed.
        """
        steps = Steps()
        for each in reversed(self._saved[:]):
            knob, saved = each
            with steps.step(f"knob {knob.name}"):
                lasting = knob.name in self._lasting()
                knob.restore(self._before, saved)
                self._saved.remove(each)
                if lasting:  # what comes next may change it again, and nobody else has then
                    self._remember()
        with steps.step("state file"):
            self._remember()
        if steps.failed:
            again = "; `xdplab restore` tries again" if self._lasting() else ""
            raise XdplabError(f"could not be put back: {steps.reasons}{again}")

    def _lasting(self) -> dict[str, Any]:
        """What of it belongs into the state file."""
        there_after = any(port.lasting for port in self._before.ports)
        return {knob.name: saved for knob, saved in self._saved if knob.scope == "system" or there_after}

    def _remember(self) -> None:
        if self._held:  # the state file is the other one's
            return
        lasting, there_after = self._lasting(), any(port.lasting for port in self._before.ports)
        roles = [port.role for port in self._before.ports if lasting and port.lasting]
        set_to = {name: value for name, value in self._set_to.items() if name in lasting}
        self._lock.remember(settings=lasting, settings_set=set_to, **({"settings_ports": roles} if there_after else {}))


def _ordered(wanted: dict[Knob, Scalar]) -> list[tuple[Knob, Scalar]]:
    """As given, but each after those of its `after` that are there."""
    left = dict(wanted)
    ordered = []
    while left:
        names = {knob.name for knob in left}
        first = next((knob for knob in left if names.isdisjoint(knob.after)), None)
        if first is None:
            raise InputError(f"knobs {', '.join(sorted(names))}: each is to be set after another of them")
        ordered.append((first, left.pop(first)))
    return ordered
