# SPDX-License-Identifier: Apache-2.0
"""Several knobs of one point, on a card that is played: each is judged by what is set before it, and all is undone."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from lab.card import Machine

from xdplab.knobs import Knob, KnobContext, interrupts, make_knob
from xdplab.model import CpuLayout, InputError, TestbedSpec, Unsupported, XdplabError, plugins
from xdplab.model.design import Scalar
from xdplab.runner import recovery
from xdplab.runner.recovery import recover
from xdplab.runner.settings import Settings
from xdplab.testbed import Port, TestbedLock

FILES = {"/sys/class/net/p0/napi_defer_hard_irqs": "0"}


def card(channels: int = 8) -> Machine:
    host = Machine(FILES)
    host.channels, host.table = str(channels), [index % channels for index in range(16)]
    return host


def state(host: Machine) -> dict[str, Any]:
    """What can be set, as a copy."""
    kept = {name: value for name, value in vars(host).items() if name not in ("calls", "programs")}
    return {name: value.copy() if isinstance(value, dict) else value for name, value in kept.items()}


def settings(host: Any, lasting: bool = False, **wanted: Scalar) -> Settings:
    ports = (Port(role="b0", host=host, ifname="p0", mac="", mtu=1500, lasting=lasting),)
    context = KnobContext(host, ports, CpuLayout(tester_tx=0, forwarder=1), (0, 1, 2))
    return Settings(TestbedLock("t"), context, wanted)


def changes(host: Machine) -> list[tuple[str, str]]:
    """Options of ethtool that changed something, and the last word of each call."""
    return [(call[1], call[-1]) for call in host.calls if call[0] == "ethtool" and call[1] in ("-L", "-X", "-C", "-K")]


ORDERS = pytest.mark.parametrize(
    "wanted", [{"channels": 8, "rss_queues": 4}, {"rss_queues": 4, "channels": 8}], ids=["channels first", "RSS first"]
)


@ORDERS
def test_more_channels_and_more_rss_queues_in_one_point(wanted: dict[str, Scalar]) -> None:
    host = card(channels=2)
    before = state(host)
    made = settings(host, **wanted)
    assert made.unsupported() is None
    made.apply()
    assert made.read_back() == {"channels": {"p0": "combined 8"}, "rss_queues": {"p0": [0, 1, 2, 3] * 4}}
    made.restore()
    assert state(host) == before
    assert changes(host) == [("-L", "8"), ("-X", "4"), ("-X", "default"), ("-L", "2")]


@ORDERS
def test_fewer_channels_than_rss_queues_are_refused_and_undone(wanted: dict[str, Scalar]) -> None:
    """Eight are there when it is asked, but two when it would be set."""
    host = card(channels=8)
    before = state(host)
    made = settings(host, **{**wanted, "channels": 2})
    with pytest.raises(Unsupported, match="rss_queues: 4 is above the 2 queues of p0"):
        made.apply()
    made.restore()
    assert state(host) == before


def test_what_was_put_back_is_forgotten_before_the_next_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels change a table that was put back before: after kill -9 it was said to be somebody else's."""
    host = card(channels=8)
    made = settings(host, lasting=True, channels=4, rss_queues=2)
    made.apply()
    remembered = []
    restore = {name: type(make_knob(name)).restore for name in ("channels", "rss_queues")}
    for name, own in restore.items():

        def look(self: Knob, context: KnobContext, saved: Any, own: Any = own, name: str = name) -> None:
            remembered.append((name, sorted(TestbedLock("t").state()["settings"])))
            own(self, context, saved)

        monkeypatch.setattr(type(make_knob(name)), "restore", look)
    made.restore()
    assert remembered == [("rss_queues", ["channels", "rss_queues"]), ("channels", ["channels"])]
    assert TestbedLock("t").state().get("settings", {}) == {}


def test_a_forwarder_that_changes_a_setting_when_it_starts_is_reported() -> None:
    host = card(channels=8)
    made = settings(host, channels=4)
    made.apply()
    made.after_start("vpp-afxdp")
    host.channels = "8"
    with pytest.raises(Unsupported, match="vpp-afxdp sets it itself: channels: p0 has combined 8 after combined 4"):
        made.after_start("vpp-afxdp")
    made.restore()


@ORDERS
def test_what_can_be_foreseen_is_reported_before_anything_is_set(wanted: dict[str, Scalar]) -> None:
    host = card(channels=2)
    reason = settings(host, **{**wanted, "channels": 16}).unsupported() or ""
    assert "16 is above the maximum of 8" in reason
    assert "4 is above the 2 queues" in (settings(host, rss_queues=4).unsupported() or "")
    assert changes(host) == []


def test_a_time_of_coalescing_is_set_after_the_driver_has_stopped_choosing_it() -> None:
    host = card()
    made = settings(host, coalesce_rx_usecs=8, coalesce_adaptive_rx="off")
    made.apply()
    made.restore()
    assert changes(host) == [("-C", "off"), ("-C", "8"), ("-C", "50"), ("-C", "on")]


def test_a_knob_that_undoes_another_makes_the_point_unsupported() -> None:
    """Steering flows switches their rules on."""
    host = card()
    host.features["ntuple"] = "on"
    before = state(host)
    made = settings(host, ntuple="off", flow_steering=3)
    with pytest.raises(Unsupported, match="ntuple: p0 has on"):
        made.apply()
    made.restore()
    assert state(host) == before


def test_after_kill_9_settings_go_back_in_reverse_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that names eight queues must go before the channels do."""
    host = card(channels=2)
    before = state(host)
    settings(host, lasting=True, rss_queues=8, channels=8).apply()
    assert state(host) != before

    class Left:
        lock, system, left_alone = TestbedLock("t"), host, ()
        ports: ClassVar = {"b0": Port(role="b0", host=host, ifname="p0", mac="", mtu=1500, lasting=True)}

        def clear_away(self, done: list[str], *, force: bool = False) -> None:
            pass

        def down(self) -> None:
            self.lock.release()

    monkeypatch.setattr(recovery, "open_testbed", lambda spec: Left())
    done = recover(TestbedSpec(name="t", kind="fake"))
    assert [line.split()[0] for line in done] == ["rss_queues", "channels"]
    assert state(host) == before
    assert TestbedLock("t").state()["settings"] == {}


def test_every_after_names_a_knob() -> None:
    assert {name for knob in plugins.names("xdplab.knobs") for name in make_knob(knob).after} <= set(
        plugins.names("xdplab.knobs")
    )


class _Number(Knob):
    """A knob of somebody else's."""

    def read(self, context: KnobContext) -> int:
        return 0

    apply: Callable[..., None] = lambda self, context, value: None
    verify: Callable[..., None] = lambda self, context, value: None
    restore: Callable[..., None] = lambda self, context, saved: None


def test_knobs_that_are_each_to_come_after_the_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    after = {"mine": ("yours",), "yours": ("mine",), "other": ("nobody",)}
    made = {name: type(name, (_Number,), {"name": name, "after": them})() for name, them in after.items()}
    monkeypatch.setattr("xdplab.runner.settings.make_knob", made.__getitem__)
    with pytest.raises(InputError, match="knobs mine, yours: each is to be set after another of them"):
        settings(card(), mine=1, other=1, yours=1)
    assert list(settings(card(), yours=1, other=1).foreseeable()) == ["yours", "other"]


class Files:
    """A host of files, of which some cannot be written."""

    name = "b"

    def __init__(self, **files: str) -> None:
        self.files, self.fixed = files, set[str]()

    def read(self, path: str) -> str:
        return self.files[path.rpartition("/")[2]]

    def exists(self, path: str) -> bool:
        return True

    def write(self, path: str, text: str) -> None:
        if path in self.fixed:
            raise XdplabError(f"{path}: Input/output error")
        self.files[path.rpartition("/")[2]] = text


def context_of(host: Any) -> KnobContext:
    ports = (Port(role="b0", host=host, ifname="p0", mac="", mtu=1500),)
    return KnobContext(host, ports, CpuLayout(tester_tx=0, forwarder=1), (0, 1))


@pytest.mark.parametrize(("raised_to", "left"), [(512, "0"), (2048, "2048")])
def test_pages_that_somebody_has_reserved_since_are_not_given_away(raised_to: int, left: str) -> None:
    host = Files(nr_hugepages="0", free_hugepages="0", resv_hugepages="0")
    knob = make_knob("hugepages_2m")
    knob.apply(context_of(host), 512)
    assert host.files["nr_hugepages"] == "512"
    host.files["nr_hugepages"] = str(raised_to)
    knob.restore(context_of(host), 0)
    assert host.files["nr_hugepages"] == left


def test_an_interrupt_that_takes_no_cpu_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refused to be put back, too, and with it every later run."""
    host = Files(smp_affinity_list="0-3")
    host.fixed.add("/proc/irq/41/smp_affinity_list")
    monkeypatch.setattr(interrupts, "_listed", lambda *_: ["41"])
    make_knob("irq_cpu").restore(context_of(host), {"41": "0-3"})
    assert host.files["smp_affinity_list"] == "0-3"
