# SPDX-License-Identifier: Apache-2.0
"""What a run sets on cards for its length, here on played ones: until it ends, is killed, or loses a connection."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from lab import studies
from lab.card import Machine
from lab.command import Done

from xdplab.cli import doctor_ports
from xdplab.hosts.base import Completed
from xdplab.knobs import KnobContext
from xdplab.model import CpuLayout, LinkLost, TestbedSpec, XdplabError
from xdplab.runner import recovery
from xdplab.runner.low_latency import LowLatency, low_latency
from xdplab.runner.recovery import recover
from xdplab.runner.settings import Settings
from xdplab.testbed import Port, TestbedLock
from xdplab.testbed.fake import FakeTestbed

CLASS = "/sys/class/net/p0"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
ROLES = ("a0", "b0", "b1", "c0", "d0", "d1")
NEVER_HELD_BACK = {
    "coalesce_adaptive_rx": "off", "coalesce_tx_frames": "1", "coalesce_rx_usecs": "0", "coalesce_tx_usecs": "0",
}  # fmt: skip
#: Of eight queues an i40e keeps the channels, by which XDP sends, and receives into one.
ONE_QUEUE = {"rss_queues": "1"}


class Host(Machine):
    """A machine with one i40e, `p0`, of two queues."""

    def __init__(self, boot: str = "one", driver: str = "i40e") -> None:
        super().__init__(
            {
                BOOT_ID: boot,
                f"{CLASS}/carrier": "1",
                f"{CLASS}/device/msi_irqs/99": "msix",
                f"{CLASS}/device/msi_irqs/100": "msix",
                "/proc/interrupts": "           CPU0\n  99:  7  i40e-p0-TxRx-0\n 100:  7  i40e-p0-TxRx-1\n",
                "/proc/irq/99/smp_affinity_list": "0-7",
                "/proc/irq/100/smp_affinity_list": "0-7",
            }
        )
        self.driver = driver
        #: Calls until the connection is lost; None: never.
        self.lost_after: int | None = None

    def run(self, argv: Sequence[str], *, check: bool = True, **more: Any) -> Completed:
        """The programs of a look around as well."""
        if self.lost_after is not None:
            self.lost_after -= 1
            if self.lost_after < 0:
                raise LinkLost("lost the connection to host B")
        if list(argv[:2]) == ["ethtool", "-i"]:
            self.calls.append(list(argv))
            return Completed(tuple(argv), 0, f"driver: {self.driver}\n", "")
        if argv[0] in ("grep", "readlink"):
            return Completed(tuple(argv), 1, "", "")
        return super().run(argv, check=check, **more)

    def xdp(self, ifname: str) -> None:
        """No program is attached."""

    def read_port(self, ifname: str) -> dict[str, Any]:
        """Of what a tester may change: nothing."""
        return {"mac": "02:00:00:00:00:01", "mtu": 1500}

    @property
    def irqs(self) -> list[str]:
        return [self.files[f"/proc/irq/{irq}/smp_affinity_list"] for irq in (99, 100)]


def state(host: Machine) -> dict[str, Any]:
    kept = {
        name: value for name, value in vars(host).items() if name not in ("calls", "stuck", "refuses", "lost_after")
    }
    return cast(dict[str, Any], json.loads(json.dumps(kept)))


class Lab:
    """A testbed of cards, each on a machine of its own, but what `host_of` says."""

    left_alone = ()

    def __init__(self, hosts: Mapping[str, Host], senders: int = 1, **spec: Any) -> None:
        self.spec = TestbedSpec(name="lab", kind="fake", **spec)
        self.lock = TestbedLock("lab")
        self.hosts = hosts
        self.ports = {
            role: Port(role, cast(Any, host), "p0", "", 1500, lasting=True) for role, host in sorted(hosts.items())
        }
        extra = tuple(range(2, 1 + senders))
        self.layout = CpuLayout(tester_tx=1, forwarder=1, extra_senders=extra)
        self.system = self.dut = cast(Any, hosts["b0"])
        self.reconnects = 0

    def cpus_of(self, host: Any) -> tuple[int, ...]:
        return (0, 1, 2, 3, 4)

    def reconnect(self) -> list[str]:
        lost = [host for host in self.hosts.values() if host.lost_after is not None]
        for host in lost:
            host.lost_after = None
        self.reconnects += len(lost)
        return ["B"] * len(lost)

    def clear_away(self, done: list[str], *, force: bool = False) -> None:
        pass

    def down(self) -> None:
        self.lock.release()


def lab(driver: str = "i40e", **more: Any) -> Lab:
    """Each role on a machine of its own."""
    return Lab({role: Host(role, driver) for role in ROLES}, **more)


def own(testbed: Lab) -> LowLatency:
    return LowLatency(cast(Any, testbed))


def test_the_testers_cards_hold_no_interrupt_back_and_no_card_sends_pause_frames() -> None:
    testbed = lab()
    before = {role: state(host) for role, host in testbed.hosts.items()}
    with low_latency(cast(Any, testbed)) as made:
        for role, host in testbed.hosts.items():
            assert host.pause == {"autoneg": "off", "rx": "off", "tx": "off"}
            if role.startswith("b"):
                changed = {"pause": host.pause, "table": [0] * 16, "table_is_set": True}
                assert state(host) == {**before[role], **changed}
                assert made.found[role] == {**ONE_QUEUE, "pause": "off"}
            else:
                assert host.coalesce == {"rx-usecs": "0", "tx-usecs": "0", "rx-frames": "n/a", "tx-frames": "1"}
                assert host.adaptive == {"rx": "off", "tx": "n/a"}
                assert host.irqs == ["0", "0"]  # 1 sends
                assert made.found[role] == {**ONE_QUEUE, "pause": "off", **NEVER_HELD_BACK, "irq_cpu": "0"}
        assert set(testbed.lock.state()["own_settings"]) == set(ROLES)
    assert {role: state(host) for role, host in testbed.hosts.items()} == before
    assert not testbed.lock.changed
    assert made.notes() == []


def test_interrupts_take_turns_on_as_many_cpus_as_send_and_leave_the_forwarder_its_own() -> None:
    apart, together = lab(senders=2), Lab({role: Host("one") for role in ROLES}, senders=2)
    together.layout = together.layout.model_copy(update={"forwarder": 0, "dut_napi": 3})
    for testbed, cpus in ((apart, ["0", "3"]), (together, ["4", "4"])):
        made = own(testbed)
        made.apply()
        assert testbed.hosts["a0"].irqs == cpus
        made.restore()
    one_more = lab()
    one_more.layout = one_more.layout.model_copy(update={"tester_rx": 4})
    own(one_more).apply()
    assert one_more.hosts["c0"].irqs == ["4", "4"]


def test_nothing_is_done_and_nothing_said_where_the_testbed_says_no() -> None:
    testbed = lab(low_latency=False)
    before = {role: state(host) for role, host in testbed.hosts.items()}
    made = own(testbed)
    made.apply()
    assert {role: state(host) for role, host in testbed.hosts.items()} == before
    assert not any(host.calls for host in testbed.hosts.values())
    assert (made.found, testbed.lock.changed) == ({}, False)
    made.restore()


CHANNELS = {"channels": "1"}


@pytest.mark.parametrize(
    ("driver", "own_table", "without_table", "testers", "forwarders"),
    [
        ("veth", False, True, CHANNELS, CHANNELS),
        ("virtio_net", False, True, CHANNELS, CHANNELS),
        ("igb", True, False, ONE_QUEUE, CHANNELS),
        ("ice", False, False, ONE_QUEUE, CHANNELS),
        ("mlx5_core", False, False, ONE_QUEUE, ONE_QUEUE),
    ],
)
def test_frames_come_into_the_queues_of_the_testbed_file_alone(
    driver: str, own_table: bool, without_table: bool, testers: dict[str, str], forwarders: dict[str, str]
) -> None:
    """The tester keeps its channels where the card can spread over fewer: each of its senders has one to send by."""
    testbed = lab(driver)
    for host in testbed.hosts.values():
        host.own_table, host.refuses = own_table, "-x" if without_table else ""
        host.table = [index // 2 for index in range(16)] if own_table else host.table
    before = {role: state(host) for role, host in testbed.hosts.items()}
    made = own(testbed)
    made.apply()
    for role, found in made.found.items():
        wanted = forwarders if role.startswith("b") else testers
        assert {knob: value for knob, value in found.items() if knob in ("channels", "rss_queues")} == wanted
        assert testbed.hosts[role].table == [0] * 16
        assert testbed.hosts[role].channels == ("1" if wanted is CHANNELS else "8")
    if driver == "veth":
        assert made.found == dict.fromkeys(ROLES, CHANNELS)
    made.restore()
    assert {role: state(host) for role, host in testbed.hosts.items()} == before
    assert not testbed.lock.changed


def test_a_point_that_asks_for_channels_receives_by_all_of_them() -> None:
    """Also on a card that keeps its channels for the run and receives by one."""
    testbed = lab()
    own(testbed).apply()
    port, host = testbed.ports["b0"], testbed.hosts["b0"]
    before = state(host)
    context = KnobContext(cast(Any, host), (port,), testbed.layout, (0, 1))
    settings = Settings(cast(Any, testbed.lock), context, {"channels": 4})
    settings.apply()
    assert (host.channels, host.table) == ("4", [index % 4 for index in range(16)])
    settings.restore()
    assert state(host) == before


def test_where_channels_are_refused_flows_are_spread_over_fewer() -> None:
    testbed = lab("ice")
    testbed.hosts["b0"].refuses = "-L"
    before = state(testbed.hosts["b0"])
    made = own(testbed)
    made.apply()
    assert made.found["b0"]["channels"].startswith("not set: channels: B: ethtool -L p0 combined 1: netlink error")
    assert made.found["b0"]["rss_queues"] == "1"
    assert testbed.hosts["b0"].table == [0] * 16
    made.restore()
    assert state(testbed.hosts["b0"]) == before


def test_ports_that_have_these_queues_already_and_a_table_of_somebodys_own_stay_as_they_are() -> None:
    testbed = lab("ice", queues=8, senders=8)
    theirs = testbed.hosts["a0"]
    theirs.table, theirs.table_is_set = [0, 0, 0, 1] * 4, True
    made = own(testbed)
    made.apply()
    assert all({"channels", "rss_queues"}.isdisjoint(found) for found in made.found.values())
    made.restore()
    few = lab("ice", senders=2)
    few.hosts["b0"].table, few.hosts["b0"].table_is_set = [0, 0, 0, 1] * 4, True
    before = state(few.hosts["b0"])
    made = own(few)
    made.apply()
    assert made.found["b0"]["channels"].startswith("not set: ")
    assert made.found["a0"]["rss_queues"] == "2"  # one for each sender
    one = LowLatency(cast(Any, lab("ice", senders=2)), receivers=1)
    one.apply()
    assert one.found["c0"]["rss_queues"] == "1"
    made.restore()
    assert state(few.hosts["b0"]) == before


def test_interrupts_that_come_with_the_channels_are_where_those_before_were() -> None:
    """Somebody had bound them; a driver that takes others for its channels leaves them to the system's default."""
    testbed = lab("ice")
    b0 = testbed.hosts["b0"]
    b0.files["/proc/irq/99/smp_affinity_list"] = "3"
    before = state(b0)
    set_channels = b0._set_channels

    def reset(count: str) -> tuple[int, str]:
        b0.files.update(dict.fromkeys(("/proc/irq/99/smp_affinity_list", "/proc/irq/100/smp_affinity_list"), "0-7"))
        return set_channels(count)

    b0._set_channels = reset  # type: ignore[method-assign]
    made = own(testbed)
    made.apply()
    assert list(testbed.lock.state()["own_settings"]["b0"]) == ["irq_cpu", "channels", "pause"]
    assert b0.irqs == ["0-7", "0-7"]
    made.restore()
    del b0._set_channels  # type: ignore[method-assign]
    assert state(b0) == before


def test_what_a_driver_has_and_refuses_is_said_and_the_rest_is_set() -> None:
    testbed = lab()
    testbed.hosts["c0"].refuses = "rx-usecs"
    before = state(testbed.hosts["c0"])
    made = own(testbed)
    made.apply()
    found = made.found["c0"]
    refused = found.pop("coalesce_rx_usecs")
    assert refused.startswith("not set: coalesce_rx_usecs: B: ethtool -C p0 rx-usecs 0: netlink error")
    others = {knob: value for knob, value in NEVER_HELD_BACK.items() if "rx_usecs" not in knob}
    assert found == {**ONE_QUEUE, "pause": "off", "irq_cpu": "0", **others}
    made.restore()
    assert state(testbed.hosts["c0"]) == before


def killed(testbed: Lab, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """A run with a point's setting as well, of which only the state file is left; how the cards were before."""
    before = {role: state(host) for role, host in testbed.hosts.items()}
    own(testbed).apply()
    testbed.hosts["b0"].ring["rx"] = "1024"
    testbed.lock.remember(settings={"rx_ring": {"p0": "512"}}, settings_ports=["b0"])
    monkeypatch.setattr(recovery, "open_testbed", lambda spec: testbed)
    return before


def test_after_kill_9_every_card_is_put_back_behind_the_settings_of_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = lab()
    before = killed(testbed, monkeypatch)
    done = recover(testbed.spec)
    assert {role: state(host) for role, host in testbed.hosts.items()} == before
    assert not testbed.lock.changed
    assert done[0] == "rx_ring back to {'p0': '512'}"
    # in the reverse order of how they were set
    assert [line.split()[1] for line in done[1:8]] == [
        "irq_cpu", "coalesce_tx_usecs", "coalesce_rx_usecs", "coalesce_tx_frames", "coalesce_adaptive_rx", "pause",
        "rss_queues",
    ]  # fmt: skip
    assert recover(testbed.spec) == []


def test_a_card_that_cannot_be_put_back_stays_in_the_state_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = lab()
    before = killed(testbed, monkeypatch)
    testbed.hosts["c0"].refuses = "-A"
    with pytest.raises(XdplabError, match="could not be put back: pause: B: ethtool -A p0"):
        recover(testbed.spec)
    asked = {"c0": {"pause": {"p0": {"autoneg": "on", "rx": "on", "tx": "off"}}}}
    assert testbed.lock.state()["own_settings"] == asked
    testbed.hosts["c0"].refuses = ""
    recover(testbed.spec)
    assert {role: state(host) for role, host in testbed.hosts.items()} == before


def test_a_card_that_cannot_be_put_back_fails_the_run_and_stays_in_the_state_file() -> None:
    testbed = lab()
    made = own(testbed)
    made.apply()
    testbed.hosts["a0"].refuses = "-C"
    with pytest.raises(XdplabError, match=r"could not be put back: .*`xdplab restore` tries again"):
        made.restore()
    assert set(testbed.lock.state()["own_settings"]) == {"a0"}


@pytest.mark.parametrize("calls", [0, 3, 8, 14, 20])
def test_a_connection_that_is_lost_meanwhile_leaves_nothing_changed(calls: int) -> None:
    """While it is set, which then goes on, and while it is put back."""
    testbed = lab()
    before = {role: state(host) for role, host in testbed.hosts.items()}
    made, tester = own(testbed), testbed.hosts["c0"]
    tester.lost_after = calls
    with pytest.raises(LinkLost):
        made.apply()
    testbed.reconnect()
    made.apply()
    assert made.found["c0"] == {**ONE_QUEUE, "pause": "off", **NEVER_HELD_BACK, "irq_cpu": "0"}
    tester.lost_after = calls
    made.restore()
    assert testbed.reconnects == 2
    assert {role: state(host) for role, host in testbed.hosts.items()} == before
    assert not testbed.lock.changed


def test_an_interrupt_that_the_driver_gave_up_has_nothing_to_put_back_and_what_was_undone_is_said() -> None:
    """An XDP program that comes or goes makes some drivers take new interrupts."""
    testbed = lab()
    made, host = own(testbed), testbed.hosts["a0"]
    made.apply()
    for irq in ("99", "100"):
        del host.files[f"/proc/irq/{irq}/smp_affinity_list"], host.files[f"{CLASS}/device/msi_irqs/{irq}"]
    host.files |= {f"{CLASS}/device/msi_irqs/101": "", "/proc/irq/101/smp_affinity_list": "0-7"}
    host.files["/proc/interrupts"] = " 101:  7  i40e-p0-TxRx-0\n"
    host.coalesce["rx-usecs"] = "50"
    made.restore()
    assert set(made.undone["a0"]) == {"coalesce_rx_usecs", "irq_cpu"}
    assert made.undone["a0"]["irq_cpu"].startswith("not in force: irq_cpu: interrupt 101 is on CPUs 0-7")
    assert len(made.notes()) == 2
    assert (host.files["/proc/irq/101/smp_affinity_list"], host.coalesce["rx-usecs"]) == ("0-7", "50")
    assert not testbed.lock.changed


def test_a_run_records_what_is_in_force_and_puts_the_cards_back(
    cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tester's ports of a simulated testbed are cards; one of them is undone in the run."""
    hosts = {role: Host(role) for role in ("a0", "c0")}
    before = {role: state(host) for role, host in hosts.items()}
    opened: list[FakeTestbed] = []

    class Cards(FakeTestbed):
        def __init__(self, spec: TestbedSpec) -> None:
            super().__init__(spec)
            opened.append(self)
            for role, host in hosts.items():
                self.ports[role] = Port(role, cast(Any, host), "p0", "", 1500, lasting=True)

        def check_connections(self) -> None:
            hosts["c0"].coalesce["rx-usecs"] = "3"

    monkeypatch.setattr("xdplab.testbed.load.FakeTestbed", Cards)
    done = cli("run", studies.study_file(tmp_path, forwarders="fake", repetitions=1))
    assert done.code == 0, done.err
    assert "c0: coalesce_rx_usecs: not in force: coalesce_rx_usecs: p0 has 3 after 0 was set" in done.out + done.err
    environment = studies.only_run(tmp_path / "results").load().environment
    assert environment.low_latency["a0"] == {**ONE_QUEUE, "pause": "off", **NEVER_HELD_BACK, "irq_cpu": "1"}
    assert environment.low_latency["c0"]["coalesce_rx_usecs"].startswith("not in force: ")
    assert "rx-usecs: 0" in environment.ports["a0"]["ethtool -c"]
    assert "Autonegotiate:\toff" in environment.ports["a0"]["ethtool -a"]
    assert environment.ports["a0"]["irq_cpus"] == "1 1"
    assert "ethtool -a" not in environment.ports.get("b0", {})
    assert {role: state(host) for role, host in hosts.items()} == before
    assert opened
    assert not any(each.lock.path.exists() for each in opened)


PCIE = f"{CLASS}/device"


@pytest.mark.parametrize(
    ("now", "most", "expected"),
    [
        (("16.0 GT/s PCIe", "16"), ("16.0 GT/s PCIe", "16"), [("ok", "16 GT/s x16 (252 Gbit/s)")]),
        (
            ("8.0 GT/s PCIe", "8"),
            ("16.0 GT/s PCIe", "16"),
            [("advice", "8 GT/s x8 (63 Gbit/s), the card can 16 GT/s x16; its link has 100 Gbit/s")],
        ),
        (
            ("5.0 GT/s PCIe", "4"),
            ("5.0 GT/s PCIe", "8"),
            [("advice", "5 GT/s x4 (16 Gbit/s), the card can 5 GT/s x8; ")],
        ),
        (("Unknown", "0"), ("Unknown", "255"), []),
        (("2.5 GT/s PCIe", "0"), ("2.5 GT/s PCIe", "0"), []),
    ],
)
def test_the_doctor_says_where_a_slot_gives_less_than_the_card_can(
    now: tuple[str, str], most: tuple[str, str], expected: list[tuple[str, str]]
) -> None:
    host: Any = Host()
    for which, facts in (("current", now), ("max", most)):
        host.files |= {f"{PCIE}/{which}_link_speed": facts[0], f"{PCIE}/{which}_link_width": facts[1]}
    host.files[f"{CLASS}/speed"] = "100000"
    found = doctor_ports._pcie(host, "p0")
    assert [each.state for each in found] == [state for state, _ in expected]
    assert all(each.found.startswith(words) for each, (_, words) in zip(found, expected, strict=True))
    assert doctor_ports._pcie(cast(Any, Host()), "p0") == []  # no slot


def test_the_doctor_tries_what_a_run_sets_and_says_what_is_refused() -> None:
    testbed = lab()
    testbed.hosts["c0"].refuses = "-A"
    before = {role: state(host) for role, host in testbed.hosts.items()}
    with low_latency(cast(Any, testbed)) as made:
        found = doctor_ports.setting_checks(made, testbed.ports)
    assert [each.state for each in found] == ["ok", "ok", "ok", "advice", "ok", "ok"]
    assert found[1].found == "rss_queues 1, pause off"
    assert found[3].found.startswith("not set: pause: B: ethtool -A p0 autoneg")
    assert {role: state(host) for role, host in testbed.hosts.items()} == before


def test_simulated_ports_are_none_of_its_business() -> None:
    testbed = FakeTestbed(TestbedSpec(name="t", kind="fake"))
    made = LowLatency(testbed)
    made.apply()
    made.restore()
    assert (made.found, made.undone) == ({}, {})


@pytest.mark.parametrize(
    ("by_run", "pause", "moderation"),
    [
        (True, ("ok", "on, off for the time of a run"), ("ok", "none for the time of a run")),
        (
            False,
            ("advice", "on: pause frames slow the sender"),
            ("advice", "rx-usecs: 50, tx-usecs: 50, adaptive rx: on  tx: n/a"),
        ),
    ],
)
def test_the_doctor_says_what_a_run_switches_off(
    by_run: bool, pause: tuple[str, str], moderation: tuple[str, str]
) -> None:
    host: Any = Host()
    found = [*doctor_ports._pause(host, "p0", by_run), *doctor_ports._moderation(host, "p0", "a0", by_run)]
    assert [each.state for each in found] == [pause[0], moderation[0]]
    for each, (_, words) in zip(found, (pause, moderation), strict=True):
        assert words in each.found
    assert doctor_ports._moderation(host, "p0", "b0", by_run) == []  # a study's to set
    host.pause = dict.fromkeys(host.pause, "off")
    host.coalesce, host.adaptive = {"rx-usecs": "0"}, {"rx": "off", "tx": "n/a"}
    quiet = [*doctor_ports._pause(host, "p0", by_run), *doctor_ports._moderation(host, "p0", "a0", by_run)]
    assert [(each.state, each.found) for each in quiet] == [("ok", "off"), ("ok", "no interrupt moderation")]
    queues = doctor_ports._queues(host, "p0", TestbedSpec(name="t", kind="fake", low_latency=by_run))
    said = ("ok", "8 in use, 1 for the time of a run") if by_run else ("advice", "8 in use, the file says 1")
    assert (queues.state, queues.found) == said
    more = doctor_ports._queues(host, "p0", TestbedSpec(name="t", kind="fake", low_latency=by_run, queues=16))
    assert (more.state, more.found) == ("advice", "8 in use, the file says 16")  # it has no more than 8
    host.refuses = "p0"  # a veth has neither
    assert [*doctor_ports._pause(host, "p0", by_run), *doctor_ports._moderation(host, "p0", "a0", by_run)] == []
