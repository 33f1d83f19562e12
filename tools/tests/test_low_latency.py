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
from xdplab.model import CpuLayout, LinkLost, TestbedSpec, XdplabError
from xdplab.runner import recovery
from xdplab.runner.low_latency import LowLatency, low_latency
from xdplab.runner.recovery import recover
from xdplab.testbed import Port, TestbedLock
from xdplab.testbed.fake import FakeTestbed

CLASS = "/sys/class/net/p0"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
ROLES = ("a0", "b0", "b1", "c0", "d0", "d1")
NEVER_HELD_BACK = {
    "coalesce_adaptive_rx": "off", "coalesce_tx_frames": "1", "coalesce_rx_usecs": "0", "coalesce_tx_usecs": "0",
}  # fmt: skip


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

    @property
    def irqs(self) -> list[str]:
        """CPUs of both interrupts."""
        return [self.files[f"/proc/irq/{irq}/smp_affinity_list"] for irq in (99, 100)]


def state(host: Machine) -> dict[str, Any]:
    kept = {
        name: value for name, value in vars(host).items() if name not in ("calls", "stuck", "refuses", "lost_after")
    }
    return cast(dict[str, Any], json.loads(json.dumps(kept)))


class Lab:
    """A testbed of cards, each on a machine of its own, but what `host_of` says."""

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

    def clear_away(self, *, force: bool = False) -> list[str]:
        return []

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
                assert state(host) == {**before[role], "pause": host.pause}
                assert made.found[role] == {"pause": "off"}
            else:
                assert host.coalesce == {"rx-usecs": "0", "tx-usecs": "0", "rx-frames": "n/a", "tx-frames": "1"}
                assert host.adaptive == {"rx": "off", "tx": "n/a"}
                assert host.irqs == ["0", "0"]  # 1 sends
                assert made.found[role] == {"pause": "off", **NEVER_HELD_BACK, "irq_cpu": "0"}
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


@pytest.mark.parametrize(("driver", "spec"), [("veth", {}), ("i40e", {"low_latency": False})])
def test_nothing_is_done_and_nothing_said_on_veth_or_where_the_testbed_says_no(
    driver: str, spec: dict[str, Any]
) -> None:
    testbed = lab(driver, **spec)
    before = {role: state(host) for role, host in testbed.hosts.items()}
    made = own(testbed)
    made.apply()
    assert {role: state(host) for role, host in testbed.hosts.items()} == before
    assert all({call[1] for call in host.calls} <= {"-i"} for host in testbed.hosts.values())
    assert (made.found, testbed.lock.changed) == ({}, False)
    made.restore()


def test_what_a_driver_has_and_refuses_is_said_and_the_rest_is_set() -> None:
    testbed = lab()
    testbed.hosts["c0"].refuses = "rx-usecs"
    before = state(testbed.hosts["c0"])
    made = own(testbed)
    made.apply()
    found = made.found["c0"]
    refused = found.pop("coalesce_rx_usecs")
    assert refused.startswith("not set: coalesce_rx_usecs: B: ethtool -C p0 rx-usecs 0: netlink error")
    assert found == {"pause": "off", "irq_cpu": "0"} | {k: v for k, v in NEVER_HELD_BACK.items() if "rx_usecs" not in k}
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
    assert [line.split()[1] for line in done[1:7]] == [
        "irq_cpu", "coalesce_tx_usecs", "coalesce_rx_usecs", "coalesce_tx_frames", "coalesce_adaptive_rx", "pause",
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
    assert made.found["c0"] == {"pause": "off", **NEVER_HELD_BACK, "irq_cpu": "0"}
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
    assert environment.low_latency["a0"] == {"pause": "off", **NEVER_HELD_BACK, "irq_cpu": "1"}
    assert environment.low_latency["c0"]["coalesce_rx_usecs"].startswith("not in force: ")
    assert "rx-usecs: 0" in environment.ports["a0"]["ethtool -c"]
    assert "Autonegotiate:\toff" in environment.ports["a0"]["ethtool -a"]
    assert environment.ports["a0"]["irq_cpus"] == "1 1"
    assert "ethtool -a" not in environment.ports.get("b0", {})
    assert {role: state(host) for role, host in hosts.items()} == before
    assert opened
    assert not any(each.lock.path.exists() for each in opened)


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
        (False, ("advice", "on: slow the sender"), ("advice", "rx-usecs: 50, tx-usecs: 50, adaptive rx: on  tx: n/a")),
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
    assert [(each.state, each.found) for each in quiet] == [("ok", "off"), ("ok", "held back by no time")]
    host.refuses = "p0"  # a veth has neither
    assert [*doctor_ports._pause(host, "p0", by_run), *doctor_ports._moderation(host, "p0", "a0", by_run)] == []
