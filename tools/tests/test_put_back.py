# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong with one call to one host, everything else is put back, and the rest is what `restore` does.

Whole runs, on hosts that are played: machines with cards, of which one call is spoilt after another.
"""

import copy
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from lab import card, studies

from xdplab import app
from xdplab.cli.study import ConsoleListener
from xdplab.hosts.agent.machine import Finished
from xdplab.hosts.base import Host
from xdplab.model import HostLost, InputError, Interrupted, LinkLost, Steps, TestbedSpec, XdplabError
from xdplab.runner import plan
from xdplab.runner.recovery import recover
from xdplab.runner.session import PointSession
from xdplab.testbed import TestbedLock, real

HOSTS = {"t": ("a0",), "dut": ("b0", "b1"), "far": ("c0",)}
SPEC: dict[str, Any] = {
    "schema": 1,
    "name": "lab",
    "kind": "hosts",
    "mtu": 1000,  # IPv6 takes none below 1280
    "hosts": {name: {"address": f"192.0.2.{number}"} for number, name in enumerate(HOSTS)},
    "ports": {role: {"host": name, "ifname": role} for name, roles in HOSTS.items() for role in roles},
}
KNOBS = {"napi_defer_hard_irqs": [3], "channels": [4], "mtu": [1400]}
MAC = "02:00:00:00:00:01"
IPV6 = "/proc/sys/net/ipv6/conf/{}/disable_ipv6"
LONG = {"generic-receive-offload": "gro", "large-receive-offload": "lro", "tcp-segmentation-offload": "tso",
        "rx-checksumming": "rx", "tx-checksumming": "tx", "rx-vlan-offload": "rxvlan"}  # fmt: skip


class Card(card.Machine):
    """One with an interface."""

    def __init__(self, ifname: str) -> None:
        files = {IPV6.format(ifname): "0", f"/sys/class/net/{ifname}/napi_defer_hard_irqs": "0"}
        super().__init__({**files, f"/sys/class/net/{ifname}/mtu": "9000"})
        self.ifname, self.flags_set = ifname, {"up": False, "promisc": False}

    @property
    def mtu(self) -> int:
        return int(self.files[f"/sys/class/net/{self.ifname}/mtu"])

    def write(self, path: str, text: str) -> None:
        """IPv6's folder goes and comes with the MTU (addrconf_notify in net/ipv6/addrconf.c)."""
        super().write(path, text)
        if self.mtu < 1280:
            self.files.pop(IPV6.format(self.ifname), None)
        else:
            self.files.setdefault(IPV6.format(self.ifname), "0")

    def _set(self, flag: str, rest: list[str]) -> tuple[int, str]:
        for name, value in zip(rest[::2], rest[1::2], strict=False) if flag == "-K" else ():
            if LONG.get(name, name) in self.features:
                self.features[LONG.get(name, name)] = value
        return (0, "") if flag == "-K" else super()._set(flag, rest)

    def state(self) -> dict[str, Any]:
        """What it is set to, as `hosts/agent/ports.py` gives it."""
        files = {"disable_ipv6": self.files[path]} if (path := IPV6.format(self.ifname)) in self.files else {}
        return {
            "mac": MAC,
            "mtu": self.mtu,
            "up": self.flags_set["up"],
            "promiscuous": self.flags_set["promisc"],
            "offloads": {name: state == "on" for name, state in self.features.items()},
            "channels": {"combined": int(self.channels)},
            "addresses": {},
            **files,
        }

    def put_back(self, was: dict[str, Any]) -> None:
        self.write(f"/sys/class/net/{self.ifname}/mtu", str(was["mtu"]))
        self.flags_set = {"up": was["up"], "promisc": was["promiscuous"]}
        self.features = {name: "on" if state else "off" for name, state in was["offloads"].items()}
        if "channels" in was:  # `restore` leaves them out where somebody has set something since
            self._set_channels(str(was["channels"]["combined"]))
        if "disable_ipv6" in was:
            self.write(IPV6.format(self.ifname), was["disable_ipv6"])

    def ip(self, words: list[str]) -> str:
        """`ip link set dev IF ...`, and what `ip address show` prints."""
        if "show" in words:
            flags = [name.upper() for name, on in self.flags_set.items() if on]
            promiscuous = int(self.flags_set["promisc"])
            link = {"address": MAC, "mtu": self.mtu, "flags": flags, "promiscuity": promiscuous}
            return json.dumps([{"ifname": self.ifname, **link}])
        for at, word in enumerate(words):
            if word == "mtu":
                self.write(f"/sys/class/net/{self.ifname}/mtu", words[at + 1])
            elif word in ("up", "down"):
                self.flags_set["up"] = word == "up"
            elif word == "promisc":
                self.flags_set["promisc"] = words[at + 1] == "on"
        return ""


class Spoilt:
    """Which call of all is spoilt, and how."""

    at, calls, on = 0, 0, False
    how: Callable[["Played", Callable[[], Any]], Any] = staticmethod(lambda host, call: call())


class Played(Host):
    """A host without SSH; `machines` outlive it."""

    machines: ClassVar[dict[str, dict[str, Card]]] = {}
    folder = Path("/run/xdplab/run")
    cpus = (0, 1, 2, 3)
    missing_hint = ""

    def __init__(self, name: str, spec: Any, controller: str) -> None:
        super().__init__(name)
        self.cards = self.machines[name]
        self.facts = {"boot_id": name, "netns": name, "cpus": [0, 1, 2, 3], "ended": [], "left": {}, "pid": 1}
        self.lost = self.gone = False
        self.reconnects = 0

    @property
    def session(self) -> int:
        return self.reconnects

    def open(self) -> None:
        """It is reached."""

    def close(self) -> None:
        with suppress(LinkLost):  # as `SshHost`
            self._spoil(lambda: None)

    def hold_cpus(self, cpus: Any) -> None:
        self._spoil(lambda: None)

    def hold_ports(self, ifnames: Any) -> None:
        self._spoil(lambda: None)

    def reconnect(self) -> bool:
        if self.gone:
            raise HostLost(f"{self.name}: not reached again")
        self.reconnects += self.lost
        again, self.lost = self.lost, False
        return again

    def call(self, function: Callable[..., Any], *args: Any, **given: Any) -> Any:
        return self._spoil(lambda: getattr(self, f"_{function.__name__}")(*args, **given))

    def _spoil(self, call: Callable[[], Any]) -> Any:
        Spoilt.calls += Spoilt.on
        if Spoilt.on and Spoilt.calls == Spoilt.at:
            return Spoilt.how(self, call)
        if self.lost:
            raise LinkLost(f"lost the connection to host {self.name}")
        return call()

    def _card(self, path: str) -> Card:
        found = next((each for each in self.cards.values() if path in each.files), None)
        if found is None:
            raise XdplabError(f"{self.name}: {path}: No such file or directory")
        return found

    def _read(self, path: str) -> str:
        known = {"/proc/meminfo": "MemTotal: 1 kB", "/proc/sys/kernel/random/boot_id": str(uuid.UUID(int=1))}
        return "1" if path.endswith("/carrier") else known.get(path) or self._card(path).files[path]

    def _write(self, path: str, text: str) -> None:
        self._card(path).write(path, text)

    def _exists(self, path: Any) -> bool:
        return any(str(path) in each.files for each in self.cards.values())

    def _names(self, folder: str) -> list[str]:
        return []

    def _make_folder(self, path: Any) -> None: ...

    def _remove_folder(self, path: Any) -> None: ...

    def _xdp(self, ifname: str) -> None: ...

    def _links(self) -> dict[str, Any]:
        return {}

    def _read_port(self, ifname: str) -> dict[str, Any]:
        return self.cards[ifname].state()

    def _put_port_back(self, ifname: str, wanted: dict[str, Any]) -> list[str]:
        self.cards[ifname].put_back(wanted)
        return []

    def _held_queues(self, ifnames: list[str]) -> list[str]:
        return []

    def _execute(self, argv: list[str], *_: Any) -> Finished:
        if argv[0] == "ip" and "route" in argv:
            return Finished(0, "[]", "")
        if argv == ["ip", "-json", "-details", "address", "show"]:
            shown = [link for each in self.cards.values() for link in json.loads(each.ip(argv))]
            return Finished(0, json.dumps(shown), "")
        if argv[:2] == ["find", "/dev/shm"]:
            return Finished(0, "", "")
        here = next((each for name, each in self.cards.items() if name in argv), None)
        if here is None or argv[0] not in ("ip", "ethtool"):
            return Finished(1, "", f"{argv[0]}: not here")
        if argv[0] == "ip":
            return Finished(0, here.ip(argv), "")
        done = here.run(argv, check=False)
        return Finished(done.returncode, done.stdout, done.stderr)


def _raises(error: Exception) -> Callable[[Played, Callable[[], Any]], Any]:
    def spoil(host: Played, call: Callable[[], Any]) -> Any:
        raise error

    return spoil


def _loses(*, gone: bool) -> Callable[[Played, Callable[[], Any]], Any]:
    def spoil(host: Played, call: Callable[[], Any]) -> Any:
        host.lost, host.gone = True, gone
        raise LinkLost(f"lost the connection to host {host.name}")

    return spoil


def _nonsense(host: Played, call: Callable[[], Any]) -> Any:
    """Of the kind that an answer must have; more is refused before (`SshHost.call`)."""
    answer = call()
    if isinstance(answer, Finished):
        return Finished(0, "nonsense", "")
    return {bool: answer is False, str: "nonsense", list: ["nonsense"]}.get(type(answer), answer)


HOW = {
    "OSError": _raises(OSError(28, "No space left on device")),
    "ValueError": _raises(ValueError("not enough values to unpack")),
    "KeyError": _raises(KeyError("address")),
    "lost": _loses(gone=False),
    "gone": _loses(gone=True),
    "nonsense": _nonsense,
}


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A testbed file of played hosts; calls count from the end of the first repetition on."""
    monkeypatch.setattr(real, "SshHost", Played)
    monkeypatch.setattr(real.port_settings, "_RESTORE_S", 0.0)
    monkeypatch.setattr(app, "write_report", lambda _: None)
    monkeypatch.setattr(plan, "_check_reality", lambda *_: None)  # what is sent and forwarded plays no part here
    monkeypatch.setattr(Spoilt, "on", False)
    clean_up = PointSession._clean_up

    def counted(self: PointSession) -> list[str]:
        Spoilt.on = True
        return clean_up(self)

    monkeypatch.setattr(PointSession, "_clean_up", counted)
    path = tmp_path / "lab.yaml"
    path.write_text(json.dumps(SPEC), encoding="utf-8")
    return path


def new_machines() -> dict[str, dict[str, Card]]:
    """As they are before a run."""
    return {name: {role: Card(role) for role in roles} for name, roles in HOSTS.items()}


def differing() -> list[tuple[str, str]]:
    """Host and name of the cards that are not as they were made."""
    return [(name, role) for name, cards in Played.machines.items() for role in cards if is_changed(cards[role])]


def is_changed(found: Card) -> bool:
    fresh = vars(Card(found.ifname))
    return any(value != fresh[key] for key, value in vars(found).items() if key != "calls")


def run(farm: Path, results: Path, at: int, how: str) -> str:
    """A run whose `at`-th call from the end of its repetition on is spoilt; what it reports."""
    Played.machines = new_machines()
    Spoilt.at, Spoilt.calls, Spoilt.on, Spoilt.how = at, 0, False, staticmethod(HOW[how])
    study = studies.study(testbed=str(farm), forwarders=["fake"], path="reflect", knobs=KNOBS, repetitions=1)
    said = ""
    with ConsoleListener() as listener:
        try:
            _, outcome = app.run_study(app.prepare(study), listener, results)
            said = str(outcome.error or "")
        except XdplabError as exc:
            said = str(exc)
    Spoilt.on = False
    return said


def test_calls_of_putting_back_may_fail(farm: Path, results: Path) -> None:
    """Some of them, in one way each."""
    _each(farm, results, lambda at: [list(HOW)[at % len(HOW)]] if at % 7 == 0 else [])


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_each_call_of_putting_back_may_fail(farm: Path, results: Path, how: str) -> None:
    _each(farm, results, lambda _: [how])


def _each(farm: Path, results: Path, ways: Callable[[int], list[str]]) -> None:
    assert (run(farm, results, 0, "OSError"), differing()) == ("", [])
    calls = Spoilt.calls
    assert calls > 60, "the run puts nothing back"
    spec = TestbedSpec.model_validate(SPEC)
    lock = TestbedLock("lab")
    for at in range(1, calls + 1):
        for how in ways(at):
            said, left = run(farm, results, at, how), differing()
            where = f"call {at}, {how}: {said}: {left}"
            assert len({host for host, _ in left} if how == "gone" else left) <= 1, where
            assert not left or lock.changed, where
            assert said or not (left or lock.path.exists()), where
            if how == "lost":
                assert (said, left) == ("", []), where
            recover(spec)
            assert not lock.path.exists(), where
            assert not differing(), where


def test_calls_of_restore_may_fail(farm: Path, results: Path) -> None:
    """Each, in one way; the next restore does what is left."""
    run(farm, results, 1, "gone")
    lock, spec = TestbedLock("lab"), TestbedSpec.model_validate(SPEC)
    assert len(differing()) >= 1
    left, machines = lock.path.read_bytes(), copy.deepcopy(Played.machines)

    def restore(at: int, how: str) -> str:
        lock.path.write_bytes(left)
        Played.machines = copy.deepcopy(machines)
        Spoilt.at, Spoilt.calls, Spoilt.on, Spoilt.how = at, 0, True, staticmethod(HOW[how])
        try:
            return "; ".join(recover(spec))
        except XdplabError as exc:
            return str(exc)
        finally:
            Spoilt.on = False

    assert "left alone" not in restore(0, "OSError")
    assert differing() == []
    calls = Spoilt.calls
    assert calls > 20, "restore puts nothing back"
    for at in range(1, calls + 1):
        how = list(HOW)[at % len(HOW)]
        said = restore(at, how)
        where = f"call {at}, {how}: {said}: {differing()}"
        if "left alone" in said:  # nonsense was taken for a value that somebody else has set, and that was said
            assert how == "nonsense", where
            continue
        assert how != "gone" or len({host for host, _ in differing()}) <= 1, where
        recover(spec)
        assert not lock.path.exists(), where
        assert not differing(), where


def test_a_host_that_is_gone_keeps_restore_from_no_other(farm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Played.machines = new_machines()
    testbed = real.HostsTestbed(TestbedSpec.model_validate(SPEC))
    testbed.up()
    assert len(differing()) == 4
    testbed.lock.release()  # killed
    opened = Played.open

    def refused(self: Played) -> None:
        if self.name == "t":
            self.lost = self.gone = True
            raise InputError("t: no answer")
        opened(self)

    monkeypatch.setattr(Played, "open", refused)
    with pytest.raises(InputError, match="t: no answer"):
        recover(testbed.spec)
    assert differing() == [("t", "a0")]
    assert list(testbed.lock.state()["ports"]) == ["a0"]


def test_a_host_that_is_lost_after_its_ports_were_found_keeps_restore_from_no_other(
    farm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Played.machines = new_machines()
    testbed = real.HostsTestbed(TestbedSpec.model_validate(SPEC))
    testbed.up()
    testbed.lock.release()  # killed
    hold, there = Played.hold_ports, dict[str, Played]()

    def held(self: Played, ifnames: Any) -> None:
        hold(self, ifnames)
        there[self.name] = self
        if self.name == "dut":
            there["t"].lost = there["t"].gone = True

    monkeypatch.setattr(Played, "hold_ports", held)
    with pytest.raises(XdplabError, match="lost the connection to host t"):
        recover(testbed.spec)
    assert differing() == [("t", "a0")]


def test_the_first_error_is_raised_with_the_reasons_of_all() -> None:
    steps, made = Steps(), []
    for error in (LinkLost("lost"), KeyError("x"), LinkLost("lost"), None):
        with steps.step("here"):
            made.append(error)
            if error is not None:
                raise error
    assert len(made) == 4
    with pytest.raises(LinkLost, match=r"^lost; here: KeyError: 'x' \(test_put_back.py:\d+\)$"):
        steps.raise_failed()


@pytest.mark.parametrize(
    ("kinds", "raised"),
    [
        ((InputError, InputError), InputError),
        ((InputError, XdplabError), XdplabError),
        ((XdplabError, Interrupted, InputError), Interrupted),
    ],
)
def test_bad_input_is_one_where_nothing_else_failed(
    kinds: tuple[type[XdplabError | Interrupted], ...], raised: type
) -> None:
    steps = Steps()
    for number, kind in enumerate(kinds):
        with steps.step("here"):
            raise kind(str(number))
    assert (type(steps.error), str(steps.error)) == (raised, "; ".join(map(str, range(len(kinds)))))
