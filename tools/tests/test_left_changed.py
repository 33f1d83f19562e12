# SPDX-License-Identifier: Apache-2.0
"""What cannot be put back is neither forgotten nor in the way of the rest, and nobody changes it meanwhile."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lab import dials, studies
from lab.card import Machine
from lab.command import Done
from lab.outsider import distribution

from xdplab.hosts import Host, LocalHost
from xdplab.knobs import KnobContext, make_knob
from xdplab.model import CpuLayout, InputError, TestbedSpec, Unsupported
from xdplab.runner import recovery
from xdplab.testbed import Port, TestbedLock, embedded, port_settings, state
from xdplab.testbed.state import SystemLock

Cli = Callable[..., Done]


@pytest.fixture(scope="session")
def dials_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = {"dial_one": "lab.dials:DialOne", "dial_two": "lab.dials:DialTwo"}
    return distribution(tmp_path_factory.mktemp("dials"), "dials", {"xdplab.knobs": points})


@pytest.fixture(autouse=True)
def folder(dials_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the files of both knobs, which hold 1 and 2."""
    monkeypatch.syspath_prepend(dials_folder)
    monkeypatch.setenv("LAB_DIALS", str(tmp_path))
    monkeypatch.setattr(dials, "stuck", {})
    monkeypatch.setattr(dials, "refused", {})
    for name, value in (("dial_one", "1"), ("dial_two", "2")):
        (tmp_path / name).write_text(value, encoding="utf-8")
    return tmp_path


def held(folder: Path) -> list[str]:
    return [(folder / name).read_text(encoding="utf-8") for name in ("dial_one", "dial_two")]


def study(folder: Path, **knobs: Any) -> Path:
    return studies.study_file(folder, forwarders=["fake"], repetitions=1, knobs=knobs)


def killed_run(**settings: str) -> TestbedLock:
    """The state file of a run that was killed, in this boot."""
    lock = TestbedLock("fake")
    lock.remember_boots(LocalHost())
    lock.remember(settings=settings)
    return lock


@pytest.fixture
def other_run() -> Iterator[None]:
    """It has settings of this machine."""
    lock = SystemLock(LocalHost())
    lock.acquire()
    yield
    lock.release()


@pytest.mark.parametrize("fault", [Unsupported("dial_two: it is stuck"), ValueError("it is stuck")], ids=repr)
def test_a_setting_that_could_not_be_put_back_is_not_forgotten(folder: Path, cli: Cli, fault: Exception) -> None:
    dials.stuck["dial_two"] = fault
    done = cli("run", study(folder, dial_one=7, dial_two=8))
    done.refused("could not be put back: ", "dial_two", "it is stuck", "`xdplab restore`", code=1)
    lock = TestbedLock("fake")
    assert (held(folder), lock.state()["settings"]) == (["1", "8"], {"dial_two": "2"})
    for command in (["restore", "--testbed", "fake"], ["run", study(folder, dial_two=9)]):
        cli(*command).refused(str(lock.path), "dial_two", "it is stuck", code=1)
    assert held(folder) == ["1", "8"]
    dials.stuck.clear()
    assert cli("restore", "--testbed", "fake").out == "dial_two back to 2\n"
    assert held(folder) == ["1", "2"]
    assert not lock.path.exists()


def test_a_dry_run_changes_nothing_of_what_a_killed_run_left(folder: Path, cli: Cli) -> None:
    lock = TestbedLock("fake")
    lock.remember(settings={"dial_one": "stale"}, boots={"local": "an earlier one"})
    before = lock.path.read_bytes()
    done = cli("run", study(folder, dial_one=7), "--dry-run")
    assert "a run left it changed; `xdplab restore` puts it back" in done.out + done.err
    assert lock.path.read_bytes() == before
    assert "rebooted since" in cli("restore", "--testbed", "fake").out
    assert held(folder) == ["1", "2"]


def test_namespaces_of_a_killed_run_are_not_removed_by_building(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(embedded, "_remove", lambda lock: pytest.fail("removed"))
    testbed = embedded.EmbeddedTestbed(TestbedSpec(name="t", kind="embedded"))
    testbed.lock.remember(netns=["xdplab-none-A"])
    with pytest.raises(InputError, match="testbed t: a run left it changed"):
        testbed.up()
    assert not testbed.lock.held


def test_a_knob_that_is_not_there_any_more_is_in_nobodys_way(folder: Path, cli: Cli) -> None:
    lock = killed_run(dial_one="5", gone="x", dial_two="6")
    cli("restore", "--testbed", "fake").refused(str(lock.path), "knob 'gone': unknown", code=1)
    assert held(folder) == ["5", "6"]
    assert lock.state()["settings"] == {"gone": "x"}


@pytest.mark.parametrize(
    ("damaged", "where"),
    [
        ({"settings": [1]}, "settings"),
        ({"settings": {"dial_one": "5"}, "settings_ports": ["x9"]}, "settings_ports.0"),
        ({"netns": 5}, "netns"),
        ({"boots": {"local": None}}, "boots.local"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_state_file_is_reported_in_one_line(folder: Path, cli: Cli, damaged: Any, where: str) -> None:
    path = TestbedLock("fake").path
    path.write_text(json.dumps(damaged), encoding="utf-8")
    cli("restore", "--testbed", "fake").refused(f"{path}: {where}", "put back what it names, and remove it", code=1)
    assert (held(folder), json.loads(path.read_text(encoding="utf-8"))) == (["1", "2"], damaged)


FILE, FILES = "/sys/class/net/{}/{}", ("napi_defer_hard_irqs", "mtu")


@pytest.mark.parametrize(
    ("knob", "value"),
    [("napi_defer_hard_irqs", 3), ("channels", 4), ("rss_queues", 4), ("private_flag", "legacy-rx=on"), ("mtu", 2000),
     ("flow_steering", 3)],
)  # fmt: skip
def test_a_port_that_cannot_be_put_back_is_not_in_the_way_of_the_next(knob: str, value: Any) -> None:
    host: Any = Machine({FILE.format(port, file): "0" for port in ("p0", "p1") for file in FILES})
    ports = tuple(Port(f"b{n}", host, f"p{n}", mac="", mtu=1500) for n in (0, 1))
    context = KnobContext(host, ports, CpuLayout(tester_tx=0, forwarder=1), (0, 1))
    made = make_knob(knob)
    saved = made.read(context)
    made.apply(context, made.check(value))
    assert made.read(context) != saved
    host.refuses = "p0"  # it is lost
    for file in FILES:
        del host.files[FILE.format("p0", file)]
    with pytest.raises(Unsupported, match="p0"):
        made.restore(context, saved)
    second = KnobContext(host, ports[1:], context.layout, context.cpus)
    assert made.read(second) == {"p1": saved["p1"]}


@pytest.mark.usefixtures("other_run")
def test_settings_of_the_machine_wait_for_the_run_that_has_them(folder: Path, results: Path, cli: Cli) -> None:
    """Refused before traffic, although the first point has none."""
    cli("run", study(folder, dial_one=["unset", 7])).refused("settings of local: in use by process")
    assert not list(results.glob("*/run.json"))
    lock = killed_run(dial_one="5")
    cli("restore", "--testbed", "fake").refused("settings of local: in use by process")
    assert (held(folder), lock.state()["settings"]) == (["1", "2"], {"dial_one": "5"})


@pytest.mark.usefixtures("other_run")
def test_settings_of_another_machine_are_another_matter() -> None:
    lock = SystemLock(cast(Host, SimpleNamespace(name="dut", read=lambda path: "another boot id")))
    lock.acquire()
    lock.release()


def test_a_testbed_of_any_name_is_not_in_its_own_way(folder: Path, cli: Cli) -> None:
    path = folder / "own.yaml"
    path.write_text("{schema: 1, name: system-settings, kind: fake}", encoding="utf-8")
    assert cli("run", study(folder, dial_one=7), "--testbed", path).code == 0
    assert held(folder) == ["1", "2"]


def test_bad_input_that_is_found_in_the_middle_ends_a_run_as_any_error(folder: Path, results: Path, cli: Cli) -> None:
    dials.refused["dial_one"] = InputError("dial_one: 7 is too much")
    cli("run", study(folder, dial_one=["unset", 7])).refused("dial_one: 7 is too much")
    run = studies.only_run(results)
    assert (run.load().ended_early, bool(run.load().finished)) == ("dial_one: 7 is too much", True)
    assert run.report.exists()


def test_a_run_that_starts_tells_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the lock and the number there is a moment."""
    lock = TestbedLock("t")
    with (state.volatile_dir() / "t.lock").open("a+", encoding="utf-8") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        monkeypatch.setattr("time.sleep", lambda _: (theirs.write("4711"), theirs.flush()))
        with pytest.raises(InputError, match="testbed t: in use by process 4711;"):
            lock.acquire()


def test_a_run_waits_for_what_puts_things_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    restoring, run = TestbedLock("t"), TestbedLock("t")
    restoring.acquire(restoring=True)
    monkeypatch.setattr("time.sleep", lambda _: restoring.release())
    run.acquire()
    assert run.held
    assert capsys.readouterr().err == (
        f"xdplab: testbed t: waiting for process {os.getpid()} (restoring what a run left)\n"
    )
    with pytest.raises(InputError, match=f"in use by process {os.getpid()};"):
        TestbedLock("t").acquire()
    run.release()


#: Where nobody can give a folder away, that is left out.
OTHERS = ("link", "writable", *(("another user's",) if os.geteuid() == 0 else ()))


@pytest.mark.parametrize("what", OTHERS)
def test_a_state_folder_of_others_is_refused(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    """Root's is no other's: nobody else could have put anything there."""
    place = tmp_path / "place"
    place.mkdir()
    if what == "link":
        place = tmp_path / "link"
        place.symlink_to(tmp_path / "place")
    elif what == "writable":
        place.chmod(0o777)
    else:
        os.chown(place, 4711, -1)
    monkeypatch.setenv("XDPLAB_STATE", str(place))
    cli("restore", "--testbed", "fake").refused(str(place), "a link, of another user, or writable", "XDPLAB_STATE")
    assert list((tmp_path / "place").iterdir()) == []


def test_where_somebody_has_set_something_only_what_every_run_sets_is_put_back() -> None:
    """On the port where they did."""
    lock = TestbedLock("fake")
    found = {"mtu": 1500, "offloads": {"rx-gro": True}, "rings": {"rx": 512}}
    lock.remember(ports={"b0": found, "b1": found})
    ports = {role: SimpleNamespace(ifname=ifname) for role, ifname in (("b0", "p0"), ("b1", "p1"))}
    testbed: Any = SimpleNamespace(lock=lock, ports=ports)
    theirs = recovery._Changed("", frozenset({"p0"}), {})
    recovery._leave_as_they_are(testbed, ["b0", "b1"], [theirs])
    assert lock.state()["ports"] == {"b0": {"mtu": 1500, "offloads": {"rx-gro": True}}, "b1": found}


@pytest.mark.parametrize(
    ("now", "found", "was_set", "theirs"),
    [
        ("3", "0", "3", []),
        ("7", "0", "3", None),
        ({"p0": "7", "p1": "3"}, {"p0": "0", "p1": "0"}, {"p0": "3", "p1": "3"}, ["p0"]),
        # the rule is removed and the flag still set: one part as found, the other as set
        ({"p0": {"on": True, "rules": []}}, {"p0": {"on": False, "rules": []}}, {"p0": {"on": True, "rules": [1]}}, []),
    ],
)
def test_each_port_is_compared_with_what_the_run_found_and_set(now: Any, found: Any, was_set: Any, theirs: Any) -> None:
    seen = port_settings.theirs(now, found, was_set)
    assert seen == (None if theirs is None else frozenset(theirs))
