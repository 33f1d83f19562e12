# SPDX-License-Identifier: Apache-2.0
"""What a killed run left is put back after a reboot of this machine, and not after one of the host that it was on."""

import json
import secrets
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from xdplab.hosts.base import Completed
from xdplab.knobs.system import Hugepages2M
from xdplab.model import InputError, TestbedSpec, Unsupported, XdplabError
from xdplab.runner.recovery import recover
from xdplab.testbed import HostsTestbed, TestbedLock, cards, real, state, working_folder

BOOT_ID = "/proc/sys/kernel/random/boot_id"
SPEC = TestbedSpec.model_validate(
    {
        "schema": 1,
        "name": "lab",
        "kind": "hosts",
        "hosts": {"t": {"address": "192.0.2.1"}, "dut": {"address": "192.0.2.2"}},
        "ports": {
            "a0": {"host": "t", "ifname": "p0"},
            "b0": {"host": "dut", "ifname": "p0"},
            "b1": {"host": "dut", "ifname": "p1"},
            "c0": {"host": "t", "ifname": "p1"},
        },
    }
)


class Machine:
    """A machine whose links have an MTU and nothing else that can be changed."""

    def __init__(self) -> None:
        self.mtu = {"p0": 9000, "p1": 9000}
        self.mac = {"p0": "02:00:00:00:00:01", "p1": "02:00:00:00:00:02"}
        self.machine_id = secrets.token_hex(16)
        self.left: dict[str, list[int]] = {}
        #: Of links on which IPv6 can be switched off.
        self.disable_ipv6: dict[str, str] = {}
        self.files = {BOOT_ID: str(uuid.UUID(int=1)), "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "7"}

    def reboot(self) -> None:
        self.mtu = dict.fromkeys(self.mtu, 1500)
        self.files[BOOT_ID] = str(uuid.UUID(int=2))


class Played:
    """A host without SSH; `machines` has what it plays."""

    machines: ClassVar[dict[str, Machine]] = {}
    folder = Path("/run/xdplab/run")
    reached_by = ""
    runs_on = ("", "")

    def __init__(self, name: str, spec: Any, controller: str) -> None:
        self.name, self._machine = name, self.machines[name]
        self.facts: dict[str, Any] = {}
        self.session = 0

    def open(self) -> None:
        self.facts = {"boot_id": self.read(BOOT_ID) + self.name, "netns": "net:[1]", "cpus": [0, 1, 2, 3], "ended": []}
        self.facts |= {"left": self._machine.left}

    def close(self) -> None:
        pass

    @property
    def cpus(self) -> tuple[int, ...]:
        return (0, 1, 2, 3)

    @property
    def identity(self) -> dict[str, str]:
        return {"machine-id": self._machine.machine_id}

    def hold_cpus(self, cpus: Sequence[int]) -> None:
        pass

    def hold_ports(self, ifnames: Sequence[str]) -> None:
        pass

    def reconnect(self) -> bool:
        return False

    def xdp(self, ifname: str) -> None:
        return None

    def read_port(self, ifname: str) -> dict[str, Any]:
        machine = self._machine
        ipv6 = {"disable_ipv6": machine.disable_ipv6[ifname]} if ifname in machine.disable_ipv6 else {}
        return {"mac": machine.mac[ifname], "mtu": machine.mtu[ifname], "up": True, "promiscuous": False, **ipv6}

    def put_port_back(self, ifname: str, was: Mapping[str, Any]) -> list[str]:
        self._machine.mtu[ifname] = was["mtu"]
        return []

    def read(self, path: str) -> str:
        return "1" if path.endswith("/carrier") else self._machine.files[path]

    def write(self, path: str, text: str) -> None:
        self._machine.files[path] = text

    def exists(self, path: str) -> bool:
        return False

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Completed:
        out = ""
        if argv[0] == "ip" and "show" in argv and "route" not in argv:
            mtu = self._machine.mtu
            out = json.dumps(
                [
                    {"ifname": name, "address": mac, "mtu": mtu[name], "flags": ["UP"]}
                    for name, mac in self._machine.mac.items()
                    if argv[-1] in ("show", name)
                ]
            )
        elif argv[:4] == ["ip", "link", "set", "dev"] and argv[5] == "mtu":
            self._machine.mtu[argv[4]] = int(argv[6])
        return Completed(tuple(argv), 0, out, "")


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> dict[str, Machine]:
    """The machines of `SPEC`, by name, as each new testbed object finds them."""
    found = {"t": Machine(), "dut": Machine()}
    monkeypatch.setattr(Played, "machines", found)
    monkeypatch.setattr(real, "SshHost", Played)
    return found


def killed_run() -> None:
    """Ports are changed and a setting of the kernel too; nothing is put back."""
    testbed = HostsTestbed(SPEC)
    testbed.up()
    assert testbed.lock.state()["ports"]["b0"]["mtu"] == 9000
    testbed.lock.remember(settings={"hugepages_2m": 5}, settings_ports=[])
    testbed.lock.release()


def test_a_reboot_of_this_machine_does_not_reach_what_is_to_be_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDPLAB_STATE")
    monkeypatch.setattr(state, "_private", Path)
    assert TestbedLock("lab").path == Path("/var/lib/xdplab/lab.json")
    assert working_folder("lab") == Path("/run/xdplab/lab.dut")


def test_cards_come_back_before_their_interfaces_are_looked_for(
    machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program's own driver had b0 when the run was killed: there is no interface until the kernel's has it again."""
    killed_run()
    TestbedLock("lab").remember(cards={"b0": {"ifname": "p0"}})
    mac = machines["dut"].mac.pop("p0")

    def give_back(lock: TestbedLock, host: Any, *, ask: bool = False) -> list[str]:
        given = lock.state().get("cards")
        if given:
            machines[host.name].mac["p0"] = mac
            lock.remember(cards={})
        return [f"{host.name}: {card['ifname']} is back" for card in (given or {}).values()]

    monkeypatch.setattr(cards, "give_back", give_back)
    assert "dut: p0 is back" in recover(SPEC)
    assert machines["dut"].mtu == {"p0": 9000, "p1": 9000}
    assert not TestbedLock("lab").changed


@pytest.mark.parametrize("force", [False, True])
def test_a_card_that_cannot_come_back_leaves_the_other_with_who_has_it_when_it_is_tried_again(
    machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    killed_run()
    TestbedLock("lab").remember(cards={"b0": {"ifname": "p0"}, "b1": {"ifname": "p1"}})
    asked = []

    def give_back(lock: TestbedLock, host: Any, *, ask: bool = False) -> list[str]:
        asked.append(ask)
        raise XdplabError("dut: b0: driver igb_uio has it by now; dut: b1: igb does not take it")

    monkeypatch.setattr(cards, "give_back", give_back)
    with pytest.raises(XdplabError, match="igb does not take it"):
        recover(SPEC, force=force)
    assert len(asked) > 1
    assert {*asked} == {not force}


def test_cards_of_a_host_that_was_rebooted_are_the_kernels(machines: dict[str, Machine]) -> None:
    killed_run()
    TestbedLock("lab").remember(cards={"b0": {"ifname": "p0"}})
    machines["dut"].reboot()
    recover(SPEC)
    assert not TestbedLock("lab").changed


def test_hosts_that_stayed_up_are_put_back(machines: dict[str, Machine]) -> None:
    killed_run()
    assert machines["dut"].mtu == {"p0": 1500, "p1": 1500}
    with pytest.raises(InputError, match="a run left it changed"):
        HostsTestbed(SPEC).up()
    recover(SPEC)
    assert [machine.mtu["p0"] for machine in machines.values()] == [9000, 9000]
    assert machines["dut"].files["/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] == "5"
    assert not TestbedLock("lab").path.exists()


def test_what_a_reboot_of_a_host_has_reset_is_not_put_back(machines: dict[str, Machine]) -> None:
    killed_run()
    machines["dut"].reboot()
    done = recover(SPEC)
    assert "dut: rebooted since, which reset what a run had changed" in done
    assert machines["dut"].mtu == {"p0": 1500, "p1": 1500}
    assert machines["dut"].files["/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] == "7"
    assert machines["t"].mtu == {"p0": 9000, "p1": 9000}
    assert not TestbedLock("lab").path.exists()


def test_what_a_run_set_on_cards_is_put_back_on_hosts_that_stayed_up(machines: dict[str, Machine]) -> None:
    killed_run()
    file = "/sys/class/net/p0/napi_defer_hard_irqs"
    for machine in machines.values():
        machine.files[file] = "3"
    own = {"napi_defer_hard_irqs": {"p0": "0"}}
    TestbedLock("lab").remember(own_settings={"a0": own, "b0": own})
    machines["dut"].reboot()
    done = recover(SPEC)
    assert "t: napi_defer_hard_irqs back to {'p0': '0'}" in done
    assert [machines[name].files[file] for name in ("t", "dut")] == ["0", "3"]
    assert not TestbedLock("lab").path.exists()


def test_another_card_of_the_same_name_is_not_given_what_was_saved(machines: dict[str, Machine]) -> None:
    """Nor what a run had set on it; what it had set on the machine is put back."""
    killed_run()
    file, of_port = "/sys/class/net/p1/napi_defer_hard_irqs", {"napi_defer_hard_irqs": {"p1": "0"}}
    machines["dut"].files[file] = "3"
    TestbedLock("lab").remember(settings={"hugepages_2m": 5, **of_port}, settings_ports=["b0", "b1"])
    machines["dut"].mac["p1"] = "02:00:00:00:00:99"
    for _ in range(2):
        with pytest.raises(XdplabError, match="dut: p1 has MAC 02:00:00:00:00:99, but what is to be put back is of"):
            recover(SPEC)
    assert machines["dut"].mtu == {"p0": 9000, "p1": 1500}
    assert list(TestbedLock("lab").state()["ports"]) == ["b0", "b1"]  # after what is still set on them
    assert TestbedLock("lab").state()["settings"] == of_port
    assert machines["dut"].files["/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] == "5"
    assert machines["dut"].files[file] == "3"
    machines["dut"].mac["p1"] = "02:00:00:00:00:02"
    recover(SPEC)
    assert machines["dut"].mtu == {"p0": 9000, "p1": 9000}
    assert machines["dut"].files[file] == "0"


@pytest.mark.parametrize(("now", "after"), [("3", "0"), ("7", "7")])
def test_what_both_a_run_and_a_point_had_set_is_as_before_the_run(
    now: str, after: str, machines: dict[str, Machine]
) -> None:
    killed_run()
    name, file = "napi_defer_hard_irqs", "/sys/class/net/p0/napi_defer_hard_irqs"
    machines["dut"].files[file] = now
    run, point = ({name: {"p0": found}} for found in "02")
    TestbedLock("lab").remember(
        own_settings={"b0": run},
        own_settings_set={"b0": {name: {"p0": "2"}}},
        settings=point,
        settings_set={name: {"p0": "3"}},
        settings_ports=["b0"],
    )
    recover(SPEC)
    assert machines["dut"].files[file] == after
    assert not TestbedLock("lab").path.exists()


def test_governors_of_the_testbeds_cpus_are_put_back(machines: dict[str, Machine]) -> None:
    """CPUs 0 and 1 were read whatever CPUs the testbed has, and the setting was reported as somebody else's."""
    killed_run()
    file = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
    for cpu in range(4):
        machines["dut"].files[file.format(cpu)] = "schedutil" if cpu < 2 else "performance"
    found, was_set = ({file.format(cpu): value for cpu in (2, 3)} for value in ("schedutil", "performance"))
    machines["dut"].files[file.format(3)] = "powersave"  # somebody's
    TestbedLock("lab").remember(settings={"governor": found}, settings_set={"governor": was_set}, settings_ports=["b0"])
    done = recover(SPEC)
    assert [machines["dut"].files[file.format(cpu)] for cpu in (2, 3)] == ["schedutil", "powersave"]
    (theirs,) = [line for line in done if line.endswith("left alone")]
    assert file.format(3) in theirs
    assert file.format(2) not in theirs
    assert not TestbedLock("lab").path.exists()


def test_a_setting_left_alone_is_reported_although_another_fails(
    machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves the state file, so that no later `restore` can report it."""
    killed_run()
    name, file = "napi_defer_hard_irqs", "/sys/class/net/p0/napi_defer_hard_irqs"
    machines["dut"].files[file] = "7"
    settings = {"hugepages_2m": 5, name: {"p0": "0"}}
    TestbedLock("lab").remember(settings=settings, settings_set={name: {"p0": "3"}}, settings_ports=["b0"])
    monkeypatch.setattr(Hugepages2M, "restore", lambda *_: (_ for _ in ()).throw(Unsupported("5 pages, not 7")))
    with pytest.raises(XdplabError, match=f"5 pages, not 7.*{name} is {{'p0': '7'}}.*left alone"):
        recover(SPEC)


@pytest.mark.parametrize("force", [False, True])
def test_what_somebody_has_set_on_a_port_since_is_left_alone(force: bool, machines: dict[str, Machine]) -> None:
    """IPv6's switch came with their MTU: that the run knew none kept `restore` from the port for good."""
    killed_run()
    machines["dut"].mtu["p1"], machines["dut"].disable_ipv6["p1"] = 1700, "0"
    so = "put back all the same" if force else "left alone"
    assert [line for line in recover(SPEC, force=force) if line.endswith(so)] == [
        f"dut: p1: mtu is 1700, which is neither what the run found (9000) nor what it set (1500): {so}",
        f"dut: p1: disable_ipv6 is 0, which is neither what the run found (None) nor what it set (None): {so}",
    ]
    assert machines["dut"].mtu == {"p0": 9000, "p1": 9000 if force else 1700}
    assert not TestbedLock("lab").path.exists()


def test_an_mtu_that_a_port_had_when_the_run_ended_is_the_run_s(machines: dict[str, Machine]) -> None:
    """A forwarder's."""
    killed_run()
    machines["dut"].mtu["p1"], machines["dut"].left["p1"] = 3500, [2, 3500, 0]
    assert not [line for line in recover(SPEC) if line.endswith("left alone")]
    assert machines["dut"].mtu == {"p0": 9000, "p1": 9000}


def test_settings_of_a_machine_wait_for_another_testbed_that_holds_them(machines: dict[str, Machine]) -> None:
    """The other testbed's value was reported as somebody else's, and ours left the state file; a port's is put back."""
    killed_run()
    name, file = "napi_defer_hard_irqs", "/sys/class/net/p0/napi_defer_hard_irqs"
    machines["dut"].files[file] = "3"
    pages = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    machines["dut"].files[pages] = "1024"
    TestbedLock("lab").remember(
        settings={"hugepages_2m": 5, name: {"p0": "0"}},
        settings_set={"hugepages_2m": 512, name: {"p0": "3"}},
        settings_ports=["b0"],
    )
    host: Any = Played("dut", None, "")
    other = state.SystemLock(host)
    other.acquire()
    with pytest.raises(InputError, match="settings of dut: in use by process"):
        recover(SPEC)
    other.release()
    assert machines["dut"].files[file] == "0"
    assert TestbedLock("lab").state()["settings"] == {"hugepages_2m": 5}
    machines["dut"].files[pages] = "512"
    recover(SPEC)
    assert machines["dut"].files[pages] == "5"
    assert not TestbedLock("lab").path.exists()


def test_another_machine_is_left_alone_and_keeps_restore_from_no_other(
    machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_run()
    TestbedLock("lab").remember(cards={"b0": {"ifname": "p0"}}, links=["ovs-system"])
    monkeypatch.setattr(cards, "give_back", lambda *_, **__: pytest.fail("it is another machine's card"))
    theirs, machines["dut"].machine_id = machines["dut"].machine_id, "other"
    with pytest.raises(InputError, match=r"^dut: another machine answers: its machine-id is other.*forget b1`$"):
        recover(SPEC)
    assert machines["t"].mtu == {"p0": 9000, "p1": 9000}
    assert machines["dut"].mtu == {"p0": 1500, "p1": 1500}
    assert machines["dut"].files["/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] == "7"
    state = TestbedLock("lab").state()
    assert (sorted(state["ports"]), sorted(state["cards"]), state["links"]) == (["b0", "b1"], ["b0"], ["ovs-system"])
    assert state["settings"] == {"hugepages_2m": 5}
    machines["dut"].machine_id = theirs
    monkeypatch.setattr(cards, "give_back", lambda lock, host, ask=False: lock.remember(cards={}) or [])
    recover(SPEC)
    assert not TestbedLock("lab").path.exists()


def test_what_a_run_set_on_the_port_that_stays_is_put_back_when_the_other_is_forgotten(
    machines: dict[str, Machine],
) -> None:
    killed_run()
    file = "/sys/class/net/{}/napi_defer_hard_irqs"
    for name in ("p0", "p1"):
        machines["dut"].files[file.format(name)] = "3"
    found, was_set = ({"napi_defer_hard_irqs": dict.fromkeys(("p0", "p1"), value)} for value in "03")
    TestbedLock("lab").remember(settings=found, settings_set=was_set, settings_ports=["b0", "b1"])
    assert "napi_defer_hard_irqs back to {'p0': '0'}" in recover(SPEC, forget=["b1"])
    assert [machines["dut"].files[file.format(name)] for name in ("p0", "p1")] == ["0", "3"]
    assert not TestbedLock("lab").path.exists()


def test_a_port_that_is_forgotten_takes_no_setting_of_another_host_s_with_it(machines: dict[str, Machine]) -> None:
    """a0 and b0 are interfaces of one name."""
    killed_run()
    file = "/sys/class/net/p0/napi_defer_hard_irqs"
    machines["dut"].files[file] = "3"
    found, was_set = ({"napi_defer_hard_irqs": {"p0": value}} for value in "03")
    TestbedLock("lab").remember(settings=found, settings_set=was_set, settings_ports=["b0"])
    recover(SPEC, forget=["a0"])
    assert machines["dut"].files[file] == "0"


def test_settings_of_this_machine_are_not_put_back_after_its_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = TestbedSpec(name="here", kind="fake")
    lock = TestbedLock("here")
    lock.remember(settings={"hugepages_2m": 1 << 20}, boots={"local": "an earlier one"})
    assert recover(spec) == ["hugepages_2m: local was rebooted since, which reset it"]
    assert not lock.path.exists()


def test_a_state_file_that_cannot_be_understood_is_not_taken_for_an_empty_one() -> None:
    lock = TestbedLock("torn")
    lock.path.write_text('{"ports": {', encoding="utf-8")
    with pytest.raises(XdplabError, match=r"torn\.json: .*; put back what it names, and remove it"):
        lock.state()
