# SPDX-License-Identifier: Apache-2.0
"""`xdplab lab init` on three hosts behind sshd: what it writes is what the doctor reads; planted mistakes are told."""

import os
import pty
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import yaml
from lab.bench import Bench
from lab.command import BIN, Done, held_up, xdplab

from xdplab.hosts.ssh import SshHost

pytestmark = pytest.mark.root

OFFERS = {"tester": ["a0", "d0"], "forwarder": ["b0", "b1"], "far": ["c0", "d1"]}
HOST = {"tester": "a", "forwarder": "b", "far": "c"}


@pytest.fixture(scope="module")
def module_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench.up(tmp_path_factory.mktemp("init")) as made:
        yield made


@pytest.fixture
def bench(module_bench: Bench) -> Iterator[Bench]:
    yield module_bench
    (module_bench.folder / "made.yaml").unlink(missing_ok=True)


def init(bench: Bench, *args: object, offers: dict[str, list[str]] | None = None, **changes: dict[str, Any]) -> Done:
    """The command with a file of hosts; `offers` and keys of hosts are replaced."""
    given = bench.lab.spec()["hosts"]
    wanted = {**OFFERS, **(offers or {})}
    hosts = {part: {**given[HOST[part]], "offer": wanted[part], **changes.get(part, {})} for part in OFFERS}
    source = bench.folder / "hosts.yaml"
    source.write_text(yaml.safe_dump(hosts), encoding="utf-8")
    return xdplab("lab", "init", bench.folder / "made.yaml", "--from", source, *args, env=bench.env, timeout_s=100)


def test_what_it_writes_is_what_the_doctor_finds(bench: Bench) -> None:
    """An interface that was down is up for the frames and down again; the next commands are said, and work."""
    bench.lab.on("B", "ip", "link", "set", "b1", "down")
    done = init(bench)
    assert done.code == 0, done.err
    assert "UP" not in bench.lab.on("B", "ip", "-br", "link", "show", "b1").split("<")[1].split(",")
    bench.lab.on("B", "ip", "link", "set", "b1", "up")
    made = bench.folder / "made.yaml"
    for line in (
        f"xdplab doctor --testbed {made}",
        f"make provision TESTBED={made}",
        f"xdplab run latency --testbed {made}",
    ):
        assert line in done.out
    ports = yaml.safe_load(made.read_text(encoding="utf-8"))["ports"]
    assert {role: port["ifname"] for role, port in ports.items()} == {each: each for each in ports}
    assert set(ports) == {"a0", "b0", "b1", "c0", "d0", "d1"}
    doctor = xdplab("doctor", "--testbed", made, "--json", env=bench.env, timeout_s=100)
    rows = {(row["host"], row["name"]): row["state"] for row in doctor.json()}
    assert {rows["", f"cable {each}"] for each in ("a0-b0", "b1-c0", "d0-d1")} == {"ok"}
    assert rows["forwarder", "b0 b0"] == rows["tester", "a0 a0"] == "ok"
    again = init(bench)
    again.refused("exists; give another name")
    bench.assert_as_before()


def exchange_cables(bench: Bench) -> None:
    """What b0 was joined to is joined to b1, and the other way round: the interfaces exchange their names."""
    for old, new in (("b0", "x0"), ("b1", "b0"), ("x0", "b1")):
        bench.lab.on("B", "ip", "link", "set", old, "down")
        bench.lab.on("B", "ip", "link", "set", old, "name", new)
    for port in ("b0", "b1"):
        bench.lab.on("B", "ip", "link", "set", port, "up")


@pytest.mark.slow
def test_cables_are_found_however_they_are_plugged(bench: Bench) -> None:
    exchange_cables(bench)
    try:
        done = init(bench)
    finally:
        exchange_cables(bench)
    assert done.code == 0, done.err
    ports = yaml.safe_load((bench.folder / "made.yaml").read_text(encoding="utf-8"))["ports"]
    assert {role: port["ifname"] for role, port in ports.items()} == {
        "a0": "a0", "b0": "b1", "b1": "b0", "c0": "c0", "d0": "d0", "d1": "d1",
    }  # fmt: skip


@pytest.mark.slow
def test_cables_are_found_where_each_program_takes_its_time_to_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SshHost.run

    def slow_run(self: SshHost, argv: Sequence[str], **more: Any) -> Any:
        time.sleep(0.7 * ("send" in argv))
        return run(self, argv, **more)

    monkeypatch.setattr(SshHost, "run", slow_run)  # six of them take longer than the 3 s after the last
    done = init(bench)
    assert done.code == 0, done.err


def test_hosts_that_somebody_uses_are_left_alone(bench: Bench) -> None:
    bench.lab.write_testbed()
    with held_up(bench.lab.testbed, bench.env):
        init(bench).refused("in use by xdplab on", f"(testbed {bench.lab.name})")
    bench.assert_as_before()


@pytest.mark.parametrize(
    ("offers", "words"),
    [
        ({"far": ["d1"]}, ["a cable between far and forwarder is missing", "far d1 faces tester d0",
                           "forwarder b1 sent test frames, and none arrived at an offered interface"]),
        ({"tester": ["d0"]}, ["a cable between tester and forwarder is missing", "far d1"]),
        ({"forwarder": ["b0", "mgmt"]}, ["forwarder: mgmt has address", "no test frame is sent from it", "--force"]),
        ({"forwarder": ["b0", "b7"]}, ["forwarder: no interface 'b7'", "b1 (veth"]),
        ({"forwarder": []}, ["forwarder: no interface is offered", "--offer forwarder=IFNAME", "free: b0 (veth"]),
    ],
    ids=["a cable is missing", "crossed", "in use", "wrong interface", "nothing offered"],
)  # fmt: skip
def test_what_is_wrong_with_ports_and_cables_is_one_line(
    bench: Bench, offers: dict[str, list[str]], words: list[str]
) -> None:
    init(bench, offers=offers).refused(*words)
    assert not (bench.folder / "made.yaml").exists()
    bench.assert_as_before()


@pytest.mark.slow
def test_a_cable_without_a_link_is_named(bench: Bench) -> None:
    """The far end is down, and is not offered: nothing brings it up."""
    bench.lab.on("C", "ip", "link", "set", "c0", "down")
    try:
        init(bench, offers={"far": ["d1"]}).refused("forwarder b1 has no link", "is missing")
    finally:
        bench.lab.on("C", "ip", "link", "set", "c0", "up")


def test_a_wrong_host_is_one_line(bench: Bench) -> None:
    init(bench, tester={"address": "no-such-host.invalid"}).refused("tester (no-such-host.invalid")
    init(bench, tester={"known_hosts": "/dev/null"}).refused("host key", "ssh-keyscan")
    init(bench, tester={"address": bench.lab.address("B")}).refused("the same address twice")
    bench.assert_as_before()


def test_a_user_at_a_terminal_is_asked(bench: Bench) -> None:
    ours, theirs = pty.openpty()
    made = bench.folder / "made.yaml"
    argv = [BIN / "xdplab", "lab", "init", made, "--key", bench.lab.key, "--known-hosts", bench.lab.known_hosts]
    env = {**bench.env, "COLUMNS": "200"}
    with subprocess.Popen(
        argv, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True
    ) as it:
        os.close(theirs)
        answers = [f"root@{bench.lab.address(host)}" for host in "ABC"] + ["a0,d0", "", "c0, d1"]
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        out, _ = it.communicate(timeout=100)
    os.close(ours)
    assert it.returncode == 0, out
    assert "Forwarder, the switch under test" in out
    assert "mgmt (veth, 10 Gbit/s, has address" in out
    assert "Interfaces of forwarder that frames may be sent from [b0,b1]" in out
    ports = yaml.safe_load(made.read_text(encoding="utf-8"))["ports"]
    assert ports["b0"]["host"] == "forwarder"
    bench.assert_as_before()
