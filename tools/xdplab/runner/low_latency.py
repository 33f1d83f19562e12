# SPDX-License-Identifier: Apache-2.0
"""What a run sets on cards for its whole length, so that it measures the forwarder and not our own cards.

A card that holds interrupts back adds that to each latency, also at the tester's ports: there none is held back, and
they go to CPUs of the tester on which nothing sends. Pause frames make a full receiver slow the sender instead of
losing frames: they are off at all ports. A forwarder has the first `queues` of the testbed file, and a frame that a
card puts into another one is lost: it gets so many channels, or spreads flows over the first so many. The forwarder's
cards are otherwise a study's to set. Each is set where the driver has it and takes it, is in the state file before, and
is put back and verified after any end of a run.

A veth has channels, and nothing else of this.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType

from xdplab.hosts.kernel import driver, has_carrier, is_veth
from xdplab.hosts.signals import deferred
from xdplab.hosts.waiting import comes_true
from xdplab.knobs import Knob, KnobContext, make_knob
from xdplab.knobs.queues import Channels, RssQueues
from xdplab.model import HostLost, LinkLost, Steps, Unsupported, XdplabError
from xdplab.model.design import Scalar
from xdplab.model.run import NOT_IN_FORCE
from xdplab.runner.settings import Settings
from xdplab.testbed import Port, Testbed

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: An interrupt for each frame: where both are 0 there is none at all (struct ethtool_coalesce, linux/ethtool.h).
_TESTERS: Mapping[str, Scalar] = MappingProxyType(
    {
        "coalesce_adaptive_rx": "off",
        "coalesce_adaptive_tx": "off",
        "coalesce_rx_frames": 1,
        "coalesce_tx_frames": 1,
        "coalesce_rx_usecs": 0,
        "coalesce_tx_usecs": 0,
    }
)
_ALL: Mapping[str, Scalar] = MappingProxyType({"pause": "off"})
#: Drivers whose CPU number N sends for XDP by channel N, and not at all without one (i40e_xdp_xmit, mlx5e_xdp_xmit).
_CHANNEL_OF_CPU = ("i40e", "mlx5_core")
#: Begins what `LowLatency.found` says of a setting that a driver refused.
NOT_SET = "not set: "
#: Ends that negotiate pause frames do so by a new link.
_CARRIER_S = 15.0
#: How often the connection may be lost while everything is put back.
_PUT_BACKS = 5


class PortSettings(Settings):
    """Those of one port, under its role in the state file."""

    def apply_available(self) -> dict[str, str]:
        """Knob -> its value, or why the driver, which has it, does not take it. After a lost connection it goes on.

        Raises:
            LinkLost: it is lost.
        """
        found: dict[str, str] = {}
        for knob, value in self._wanted:
            if knob.name == "rss_queues" and found.get("channels") == str(value):
                continue  # there is no other queue
            try:
                if self._set(knob, value):
                    found[knob.name] = str(value)
            except (LinkLost, HostLost):
                raise
            except XdplabError as exc:
                found[knob.name] = f"{NOT_SET}{exc}"
        return found | self.undone(found)

    def _set(self, knob: Knob, value: Scalar) -> bool:
        if knob not in (known for known, _ in self._saved):
            if knob.unsupported(self._before, value):
                return False
            if knob.name == "channels":  # with others come interrupts that are not where these were
                irq_cpu = next((known for known, _ in self._wanted if known.name == "irq_cpu"), make_knob("irq_cpu"))
                if cpus := irq_cpu.read(self._before):
                    self._saved.append((irq_cpu, cpus))
                    self._remember()
            self._saved.append((knob, knob.read(self._before)))
            self._remember()
        knob.apply(self._before, knob.check(value))
        knob.verify(self._before, knob.check(value))
        self._set_to[knob.name] = knob.read(self._before)
        self._remember()
        return True

    def undone(self, in_force: Mapping[str, str]) -> dict[str, str]:
        """Of knobs that were in force those that no longer are, and what is there."""
        found = {}
        for knob, value in self._wanted:
            if in_force.get(knob.name) == str(value):
                try:
                    knob.verify(self._before, knob.check(value))
                except Unsupported as exc:
                    found[knob.name] = f"{NOT_IN_FORCE}{exc}"
        return found

    def _remember(self) -> None:
        (port,) = self._before.ports
        state = self._lock.state()
        own = {**state.get("own_settings", {}), port.role: {knob.name: was for knob, was in self._saved}}
        set_to = {**state.get("own_settings_set", {}), port.role: self._set_to}
        self._lock.remember(
            own_settings={role: saved for role, saved in own.items() if saved},
            own_settings_set={role: now for role, now in set_to.items() if own.get(role)},
        )


class LowLatency:
    """Of the ports of one testbed. `receivers`: queues that the tester receives from; None: as many as CPUs send."""

    def __init__(self, testbed: Testbed, receivers: int | None = None) -> None:
        self._testbed = testbed
        self._receivers = receivers
        self._ports: dict[str, PortSettings] = {}
        #: Role of a port -> knob -> its value, or why it is not set.
        self.found: dict[str, dict[str, str]] = {}
        #: Likewise what a driver or a daemon had undone before it was put back.
        self.undone: dict[str, dict[str, str]] = {}

    def apply(self) -> None:
        """Set what there is, and wait for links; called again after a lost connection it goes on.

        Raises:
            LinkLost: the connection to a host is lost.
        """
        if not self._testbed.spec.low_latency:
            return
        ports = [port for _, port in sorted(self._testbed.ports.items()) if port.lasting and port.in_kernel]
        linked = [port for port in ports if has_carrier(port.host, port.ifname)]
        for port in ports:
            if port.role not in self._ports:
                self._ports[port.role] = PortSettings(self._testbed.lock, self._context(port), self._wanted(port))
            self.found[port.role] = self._ports[port.role].apply_available()
        for port in linked:  # without a link the next proof says so
            comes_true(partial(has_carrier, port.host, port.ifname), _CARRIER_S, 0.1)

    def restore(self) -> None:
        """Put everything back; what could not be stays in the state file. `undone` has what was not in force before.

        Raises:
            XdplabError: the reason of each that failed.
        """
        look = Steps()  # what fails in it, such as a connection, is met next
        for role, settings in self._ports.items():
            with look.step(role):
                self.undone[role] = settings.undone(self.found.get(role, {}))
        for _ in range(_PUT_BACKS):
            steps, again = Steps(), list[str]()
            for role, settings in reversed(self._ports.items()):
                with steps.step(role):
                    settings.restore()
            if not steps.failed:
                return
            with steps.step("connections"):
                again = self._testbed.reconnect()
            if not again:
                break
        steps.raise_failed()

    def notes(self) -> list[str]:
        """What was undone, a line each."""
        return [
            f"{role}: {knob}: {why}; figures may have that in them"
            for role, lost in self.undone.items()
            for knob, why in lost.items()
        ]

    def _wanted(self, port: Port) -> dict[str, Scalar]:
        queues = self._queues(port)
        if is_veth(port.host, port.ifname):
            return queues
        if port.role.startswith("b"):
            return {**queues, **_ALL}
        return {**queues, **_ALL, **_TESTERS, "irq_cpu": "/".join(map(str, self._interrupt_cpus(port)))}

    def _queues(self, port: Port) -> dict[str, Scalar]:
        """Where to receive into no other queues than these; nothing where there are no others.

        Channels are queues to send by as well, which the tester needs for each of its senders, and XDP on some drivers
        for each CPU: there they stay if flows can be spread over fewer.
        """
        context, queues, tester = self._context(port), self._testbed.spec.queues, not port.role.startswith("b")
        channels, rss = Channels(), RssQueues()
        if channels.unsupported(context, queues) is None and _in_force(channels, context, queues):
            return {}
        table = rss.present(port.host, port.ifname)
        if table and (tester or driver(port.host, port.ifname) in _CHANNEL_OF_CPU):
            receivers = self._receivers or len(self._testbed.layout.tx_cpus)
            there, wanted = max(table) + 1, receivers if tester else queues
            if there > wanted and rss.unsupported(context, wanted) is None:
                return {rss.name: wanted}
            if tester or there == wanted:
                return {}
        return {channels.name: queues, rss.name: queues}

    def _interrupt_cpus(self, port: Port) -> tuple[int, ...]:
        """As many as send, beside these: what receives must not wait for what sends."""
        layout, cpus = self._testbed.layout, self._testbed.cpus_of(port.host)
        if layout.tester_rx is not None:
            return (layout.tester_rx,)
        taken = {*layout.tx_cpus}
        if port.host.read(_BOOT_ID) == self._testbed.system.read(_BOOT_ID):
            taken |= {layout.forwarder, *(() if layout.dut_napi is None else (layout.dut_napi,))}
        spare = tuple(cpu for cpu in cpus if cpu not in taken)
        return spare[: len(layout.tx_cpus)] or tuple(cpu for cpu in cpus if cpu in layout.tx_cpus)[:1] or cpus[:1]

    def _context(self, port: Port) -> KnobContext:
        return KnobContext(port.host, (port,), self._testbed.layout, self._testbed.cpus_of(port.host))


@contextmanager
def low_latency(testbed: Testbed) -> Iterator[LowLatency]:
    """While it lasts; the testbed is up."""
    own = LowLatency(testbed)
    try:
        own.apply()
        yield own
    finally:
        with deferred():
            own.restore()


def _in_force(knob: Knob, context: KnobContext, value: Scalar) -> bool:
    try:
        knob.verify(context, value)
    except Unsupported:
        return False
    return True
