# SPDX-License-Identifier: Apache-2.0
"""A TRex that has the cards of A and C: nobody looks for interfaces there, and what needs some is refused.

What a server answers is a recorded exchange; no TRex with cards of its own was at hand.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lab import studies
from lab.command import Done
from lab.replayed_trex import RECORDS, ReplayedTrex, about, replayed
from test_after_a_reboot import Machine, Played

from xdplab import app
from xdplab.cli.inventory import inventory
from xdplab.forwarders import Dut
from xdplab.hosts import Host
from xdplab.measure import Method
from xdplab.model import (
    CpuLayout,
    InputError,
    Path as Way,
    Pipeline,
    PointFailed,
    StudySpec,
    TestbedSpec,
    TrafficSpec,
    validated,
)
from xdplab.runner import refusals
from xdplab.runner.tester_pool import TesterPool
from xdplab.testbed import HostsTestbed, TesterPorts, real
from xdplab.testers import TesterContext, make_tester, trex, trex_cards
from xdplab.testers.trex import Trex, TrexOptions

TREX = {"folder": "/opt/trex/v3.08", "config": "/etc/trex_cfg.yaml"}
RECORD = RECORDS / "latency.jsonl"


def file(**given: Any) -> dict[str, Any]:
    ports: dict[str, Any] = {
        "a0": {"host": "t", "trex": 0},
        "b0": {"host": "dut", "ifname": "p0"},
        "b1": {"host": "dut", "ifname": "p1"},
        "c0": {"host": "t", "trex": 1},
    }
    hosts = {"t": {"address": "192.0.2.1"}, "dut": {"address": "192.0.2.2"}}
    found = {"schema": 1, "name": "lab", "kind": "hosts", "hosts": hosts, "ports": ports, **given}
    found["ports"] = {**ports, **given.get("ports", {})}
    return found


def spec(**given: Any) -> TestbedSpec:
    return validated(TestbedSpec, file(**given), "lab.yaml")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ports": {"a0": {"host": "t"}}}, "ifname is needed, or trex in its place"),
        ({"ports": {"a0": {"host": "t", "trex": 0, "ifname": "p0"}}}, "ifname is needed, or trex in its place"),
        ({"ports": {"c0": {"host": "t", "ifname": "p1"}}}, "all of the tester's are cards of one TRex, or none"),
        ({"ports": {"b1": {"host": "dut", "trex": 2}}}, "all of the tester's are cards of one TRex, or none"),
        ({"ports": {"c0": {"host": "dut", "trex": 1}}}, "the cards of one TRex are on one host"),
        ({"ports": {"c0": {"host": "t", "trex": 0}}}, "an interface is given twice"),
        ({"trex": {"folder": "opt", "config": "/x"}}, "trex.folder"),
        (
            {"ports": {r: {"host": "t", "ifname": r} for r in ("a0", "c0")}, "trex": TREX},
            "no port of the file has trex",
        ),
    ],
)
def test_a_file_that_cannot_be_meant(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        spec(**given)


@pytest.fixture
def testbed(monkeypatch: pytest.MonkeyPatch) -> HostsTestbed:
    """Of `file`; the host of A and C has no interface at all."""
    machines = {"t": Machine(), "dut": Machine()}
    machines["t"].mac.clear()
    monkeypatch.setattr(Played, "machines", machines)
    monkeypatch.setattr(real, "SshHost", Played)
    return HostsTestbed(spec(trex=TREX))


def test_a_testbed_goes_up_and_down_without_interfaces_of_a_and_c(testbed: HostsTestbed) -> None:
    testbed.up()
    assert {role: (port.ifname, port.trex, port.in_kernel) for role, port in testbed.ports.items()} == {
        "a0": ("TRex port 0", 0, False),
        "b0": ("p0", None, True),
        "b1": ("p1", None, True),
        "c0": ("TRex port 1", 1, False),
    }
    assert set(testbed.lock.state()["ports"]) == {"b0", "b1"}
    assert testbed.clock == (True, "A and C are one machine (t)")
    assert testbed.spec.usual_path == "through"
    testbed.ports["a0"] = replace(testbed.ports["a0"], mac="52:54:00:00:00:0a")
    testbed.find_ports()  # as after a connection was lost
    assert testbed.ports["a0"].mac == "52:54:00:00:00:0a"
    testbed.down()
    assert not testbed.lock.held
    hostvars = inventory(testbed.spec)["_meta"]["hostvars"]
    assert (hostvars["t"]["xdplab_ports"], set(hostvars["dut"]["xdplab_ports"])) == ({}, {"b0", "b1"})


def pool(testbed: Any, *testers: str) -> TesterPool:
    study = SimpleNamespace(all_testers=testers)
    return TesterPool(cast(StudySpec, study), tuple(make_tester(name) for name in testers), testbed)


def point(path: Way = Way.THROUGH, tester: str = "", **given: Any) -> Any:
    traffic = TrafficSpec()
    return SimpleNamespace(tester=tester, path=path, traffic=traffic, pipeline=Pipeline(), knobs={}, **given)


def test_testers_that_need_interfaces_are_refused(testbed: HostsTestbed) -> None:
    testbed.up()
    for name in ("xdpgen", "xsk"):
        reason = pool(testbed, name).missing(point())
        assert reason == (
            f"tester {name}: it sends from interfaces of the kernel, and A and C have cards of TRex in the testbed "
            "file; tester: trex"
        )
    testbed.down()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trex, "find", lambda path="": SimpleNamespace(folder=Path("/opt/trex"), libraries=Path("/lib")))


@pytest.mark.usefixtures("library")
def test_trex_is_asked_for_what_its_start_needs(testbed: HostsTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed.up()
    there: set[str] = set()
    monkeypatch.setattr(Played, "exists", lambda self, path: str(path) in there)
    script = "/opt/trex/v3.08/t-rex-64"
    reasons = []
    for path in (script, TREX["config"]):
        reasons.append(Trex().unsupported(testbed))
        there.add(path)
    assert reasons == [f"t: {path} of the testbed file's trex is not there" for path in (script, TREX["config"])]
    tcp = "sl local_address rem_address st\n 0: 00000000:1195 00000000:0000 0A 0\n"
    testbed.tester_host._machine.files["/proc/net/tcp"] = tcp  # type: ignore[attr-defined]
    assert Trex().unsupported(testbed) == "t: a TRex server runs there; trex:server=192.0.2.1 uses it"
    testbed.tester_host._machine.files["/proc/net/tcp"] = tcp.replace("1195", "0016")  # type: ignore[attr-defined]
    assert Trex().unsupported(testbed) is None
    without = SimpleNamespace(returncode=1, stdout="")
    with monkeypatch.context() as patched:
        patched.setattr(Played, "run", lambda self, argv, check: without if argv == ["which", "nft"] else None)
        assert "TRex takes commands on all addresses (tcp://*:4501), and nft, which" in str(Trex().unsupported(testbed))
    assert Trex(TrexOptions(server="192.0.2.1")).unsupported(testbed) is None
    theirs = Trex(TrexOptions(server="192.0.2.1", software=True)).unsupported(testbed)
    assert theirs == "software=true is for a TRex with cards of its own that xdplab starts"
    assert pool(testbed, "trex").missing(point(Way.REFLECT)) == (
        "tester trex: TRex needs two ports, and cannot reflect at the far end"
    )
    testbed.down()


@pytest.mark.usefixtures("library")
def test_without_a_start_a_running_one_is_to_be_named(testbed: HostsTestbed) -> None:
    other = HostsTestbed(spec())
    other.up()
    reason = Trex().unsupported(other)
    assert reason is not None
    assert "name one that runs, trex:server=ADDRESS" in reason
    assert Trex(TrexOptions(server="192.0.2.1")).unsupported(other) is None
    other.down()


def dut(testbed: HostsTestbed, kind: str = "cross") -> Dut:
    pipeline: Any = SimpleNamespace(kind=kind, pods=0)
    ports = (testbed.ports["b0"], testbed.ports["b1"])
    return Dut(testbed.dut, ports, Way.THROUGH, CpuLayout(tester_tx=0, forwarder=1), Path("/x"), pipeline=pipeline)


def test_what_needs_interfaces_of_a_and_c_is_refused(testbed: HostsTestbed) -> None:
    testbed.up()
    forwarder: Any = SimpleNamespace(
        name="f", own_links=(), pipelines=("cross", "nat"), takes_ports=False, unsupported=lambda dut: None,
        external=False, one_buffer=lambda: None,
    )  # fmt: skip
    settings: Any = SimpleNamespace(unsupported=lambda: None)

    def reason(kind: str, at_interfaces: bool) -> str | None:
        method = SimpleNamespace(name="m", at_interfaces=at_interfaces, unsupported=lambda *_: None)
        where = dut(testbed, kind)
        client = testbed.ports["a0"]
        return refusals.refusal(point(), cast(Method[Any], method), forwarder, settings, where, client)

    assert reason("cross", False) is None
    assert reason("cross", True) == "method m needs interfaces of the kernel at A and C, whose cards are TRex's"
    assert "pipeline nat is proven with frames at interfaces" in str(reason("nat", False))
    testbed.down()


def test_what_the_file_starts_is_allowed_on_the_command_line(tmp_path: Path) -> None:
    """As root, on the host of A; a configuration of TRex can have it load libraries."""
    path = tmp_path / "lab.yaml"
    path.write_text(json.dumps(file(trex=TREX)), encoding="utf-8")
    study = studies.study(testbed=str(path), tester="trex", forwarders=["xdp"])
    for allowed, named in (((), "folder=/opt/trex/v3.08"), ((TREX["folder"],), "config=/etc/trex_cfg.yaml")):
        with pytest.raises(InputError, match=rf"^testbed lab: trex: {named} would be started as root"):
            app.prepare(study, allowed)
    assert app.prepare(study, tuple(TREX.values())).plan.points


def test_applications_are_the_method_that_needs_them(cli: Callable[..., Done]) -> None:
    from xdplab.methods.latency import Latency
    from xdplab_applications.applications import Applications

    assert (Applications.at_interfaces, Latency.at_interfaces) == (True, False)


class Started:
    """What a host starts."""

    def __init__(self, ends: int | None = None) -> None:
        self.ends, self.stopped = ends, False
        self.pid = 7

    def poll(self) -> int | None:
        return self.ends

    def log_tail(self, lines: int = 15) -> tuple[str, ...]:
        return ("EAL: no huge pages",)

    def stop(self, grace_s: float = 3.0) -> int:
        self.stopped = True
        return 0


class Fence:
    """An nft that is spoken to, on a host; it says no to what is `refused`."""

    def __init__(self, *, refused: bool = False) -> None:
        self.refused, self.line, self.stopped = refused, "", False

    def host(self, start: Callable[..., Any]) -> Host:
        listed = SimpleNamespace(
            returncode=int(self.refused), stdout="tcp dport { 4500, 4501 } drop", stderr="", complaint=""
        )
        given = {"converse": lambda argv, log: self, "run": lambda argv, check: listed, "start": start}
        return cast(Host, SimpleNamespace(name="t", reached_by="192.0.2.9 50000 192.0.2.1 22", **given))

    def send(self, line: str) -> None:
        self.line = line

    def log_tail(self, lines: int) -> tuple[str, ...]:
        return ("Error: Could not process rule: Operation not supported",)

    def stop(self) -> None:
        self.stopped = True


def test_without_a_filter_it_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trex_cards, "_FILTER_S", 0.0)
    fence = Fence(refused=True)
    host = fence.host(lambda *_, **__: pytest.fail("started"))
    with pytest.raises(PointFailed, match=r"t: nft does not keep others from its ports; it said: .*Operation not supp"):
        trex_cards.CardsServer(host, spec(trex=TREX), tmp_path).start(tmp_path, lambda: None)
    assert fence.stopped


@pytest.mark.parametrize(
    ("client", "said"), [("192.0.2.9", "ip saddr 192.0.2.9 "), ("fe80::1%eth0", "ip6 saddr fe80::1 ")]
)
def test_this_machine_and_the_host_itself_get_through(client: str, said: str) -> None:
    *_, loopback, ours, others = trex_cards.filter_rules(client).split("; add ")
    assert (said in ours, loopback.endswith('"lo" accept'), others.endswith("{ 4500, 4501 } drop")) == (True,) * 3


@pytest.mark.parametrize("ends", [None, 1])
def test_its_own_script_is_started_with_the_users_configuration(
    ends: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, argvs = Started(ends), []
    fence = Fence()

    def start(argv: list[str], **given: Any) -> Started:
        assert fence.line, "nobody else gets through before it listens"
        argvs.append((argv, given["log"]))
        return started

    monkeypatch.setattr(trex_cards, "listens", lambda host: bool(argvs))
    server = trex_cards.CardsServer(fence.host(start), spec(trex=TREX), tmp_path, software=True)
    if ends is None:
        server.start(tmp_path, lambda: None)
        assert server.ended() is None
        server.stop()
        assert started.stopped
    else:
        with pytest.raises(PointFailed, match="the server did not start: trex server ended with exit code 1; it said"):
            server.start(tmp_path, lambda: None)
    assert fence.stopped
    ((argv, log),) = argvs
    assert argv[:3] == ["env", "--chdir", TREX["folder"]]
    assert argv[3:6] == ["/opt/trex/v3.08/t-rex-64", "-i", "--stl"]
    assert argv[argv.index("--cfg") + 1] == TREX["config"]
    assert {"--hdrh", "--no-key", "--software"} < set(argv)
    assert log == tmp_path / "trex-server.log"


def of_cards(context: TesterContext) -> TesterContext:
    """The same, with ports that TRex has."""
    ends = (context.ports.first, context.ports.last)
    first, last = (replace(port, trex=number, ifname=f"TRex port {number}") for number, port in enumerate(ends))
    return replace(context, ports=TesterPorts(first, last), rx_program="cards of its own")


@pytest.fixture
def known_ports(tmp_path: Path) -> Path:
    """The part of a recorded exchange in which a server tells of its ports."""
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    last = next(number for number, line in enumerate(lines) if json.loads(line).get("call") == "get_port_info")
    record = tmp_path / "ports.jsonl"
    record.write_text("\n".join([*lines[: last + 1], lines[-2], lines[-1]]) + "\n", encoding="utf-8")
    return record


def test_addresses_are_those_that_trex_tells(known_ports: Path, tmp_path: Path) -> None:
    _, context, _ = replayed(RECORD, tmp_path / "work")
    context = of_cards(context)
    asked = replace(context.ports, first=replace(context.ports.first, mac=""), last=replace(context.ports.last, mac=""))
    tester = ReplayedTrex(known_ports)
    assert tester.macs(replace(context, ports=asked)) == tuple(each["mac"] for each in about(RECORD)["ports"])
    other = replace(asked, last=replace(asked.last, trex=7))
    with pytest.raises(InputError, match=r"trex: the server has no port 7; it has \[0, 1\]"):
        tester.macs(replace(context, ports=other))
    tester.close()


def test_a_trial_runs_over_cards_as_over_interfaces(tmp_path: Path) -> None:
    tester, context, trial = replayed(RECORD, tmp_path / "work")
    result = tester.run(of_cards(context), trial)
    tester.close()
    assert result.received == result.sent > 0
    assert result.rx_program == "cards of its own"


class Told(Trex):
    """It knows the addresses of all its cards."""

    def macs(self, context: TesterContext) -> tuple[str, str]:
        return tuple(f"52:54:00:00:00:{port.trex:02x}" for port in (context.ports.first, context.ports.last))  # type: ignore[return-value]


@pytest.mark.parametrize("stated", ["52:54:00:00:00:00", "52:54:00:00:00:99", None])
def test_the_testbeds_ports_have_the_addresses_or_the_file_is_wrong(
    stated: str | None, testbed: HostsTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = HostsTestbed(spec(ports={"a0": {"host": "t", "trex": 0, **({"mac": stated} if stated else {})}}))
    monkeypatch.setattr(HostsTestbed, "folder_on", lambda self, host: tmp_path)
    monkeypatch.setattr(Played, "make_folder", lambda self, path: None, raising=False)
    given.up()
    testers = TesterPool(cast(StudySpec, SimpleNamespace(all_testers=("trex",))), (Told(),), given)
    if stated and stated.endswith("99"):
        with pytest.raises(InputError, match=r"TRex port 0 \(a0\) has MAC 52:54:00:00:00:00, the testbed file says"):
            testers.find_macs([point()])
    else:
        testers.find_macs([point()])
        assert [given.ports[role].mac for role in ("a0", "c0")] == ["52:54:00:00:00:00", "52:54:00:00:00:01"]
    given.down()
