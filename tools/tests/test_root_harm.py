# SPDX-License-Identifier: Apache-2.0
"""Three hosts behind sshd that others use too: what is somebody else's stays, in a run, after one and by `restore`."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.bench import Bench
from lab.command import Done, finish, held_up, kill_9, start, wait_for, xdplab
from lab.cuts import look, running

from xdplab.tools import bpf_program

pytestmark = pytest.mark.root

_OVS = """
set -e
export OVS_RUNDIR=/run/theirs OVS_LOGDIR=/run/theirs OVS_DBDIR=/run/theirs OVS_SYSCONFDIR=/run/theirs
mkdir /run/theirs
ovsdb-tool create /run/theirs/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server /run/theirs/conf.db --remote=punix:/run/theirs/db.sock --detach --pidfile --log-file
/usr/lib/openvswitch-switch/ovs-vswitchd unix:/run/theirs/db.sock --detach --pidfile --log-file
vsctl="ovs-vsctl --db=unix:/run/theirs/db.sock"
$vsctl add-br br-int -- set bridge br-int datapath_type=netdev
$vsctl add-br br-ex -- set bridge br-ex datapath_type=netdev
$vsctl add-port br-int to-ex -- set interface to-ex type=patch options:peer=to-int
$vsctl add-port br-ex to-int -- set interface to-int type=patch options:peer=to-ex
"""
_OVS_SEEN = """
ovs-vsctl --db=unix:/run/theirs/db.sock show; ovs-appctl -t /run/theirs/ovs-vswitchd.*.ctl dpctl/show
ip -details link show type tun; ip -brief link show
"""


@pytest.fixture(scope="module")
def module_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench.up(tmp_path_factory.mktemp("harm")) as made:
        yield made


@pytest.fixture
def bench(module_bench: Bench) -> Iterator[Bench]:
    module_bench.lab.write_testbed()
    yield module_bench
    module_bench.lab.write_testbed()
    module_bench.assert_as_before()


def ip(bench: Bench, host: str, *commands: str) -> None:
    for command in commands:
        bench.lab.on(host, "ip", *command.split())


def restore(bench: Bench, *args: object) -> Done:
    return xdplab("restore", "--testbed", bench.lab.testbed, *args, env=bench.env, timeout_s=100)


def killed_up(bench: Bench) -> None:
    """`xdplab up`, ended by kill -9: the ports are changed, and the agents have ended."""
    process = start("up", "--testbed", bench.lab.testbed, env=bench.env)
    assert process.stdout
    assert any(line.startswith("up;") for line in iter(process.stdout.readline, "")), "it is not up"
    process.kill()
    finish(process)
    wait_for(lambda: not any("python" in each for each in running(bench.lab)), "the agents' end", 20)


def port(bench: Bench, role: str, ifname: str) -> None:
    spec = bench.lab.spec()
    spec["ports"][role]["ifname"] = ifname
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")


@contextmanager
def foreign_xdp(bench: Bench, host: str, ifname: str) -> Iterator[None]:
    argv = bench.lab.command(host, str(bpf_program("xdpfwd")), f"--if0={ifname}", "--mode=native", "--hairpin")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()  # it is ready
            yield
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("made", "taken", "words"),
    [
        ([], "mgmt", ["b: mgmt has address", "carries the SSH connection", "give the testbed another interface"]),
        (["link add mv0 link mgmt type macvlan"], "mv0", ["b: mv0 is below or above mgmt, which carries the SSH"]),
        (["route add default dev b1"], "b1", ["b: b1 carries the default route", "`ip -4 route flush dev b1`"]),
        (["link add mv0 link b1 type macvlan"], "b1", ["b: b1 carries mv0 (macvlan)", "`ip link delete dev mv0`"]),
    ],
    ids=["SSH", "above SSH", "default route without an address", "macvlan"],
)
def test_a_port_that_somebody_needs_is_refused_by_name(
    bench: Bench, made: list[str], taken: str, words: list[str]
) -> None:
    ip(bench, "B", *made)
    try:
        port(bench, "b1", taken)
        xdplab("up", "--testbed", bench.lab.testbed, env=bench.env).refused(*words)
    finally:
        for command in made:
            ip(bench, "B", command.replace("add", "delete"))


def test_a_port_with_a_program_of_somebody_else_is_refused(bench: Bench) -> None:
    with foreign_xdp(bench, "B", "b1"):
        before = bench.lab.on("B", "ip", "-details", "link", "show", "b1")
        xdplab("up", "--testbed", bench.lab.testbed, env=bench.env).refused("b: b1 carries XDP program", "xdp off")
        assert bench.lab.on("B", "ip", "-details", "link", "show", "b1") == before


def test_an_open_vswitch_that_was_there_before_us_keeps_its_datapath(bench: Bench) -> None:
    """Ours would take its tap device; its database, datapath and links are the same in its tools' own words."""
    bench.lab.on("B", "sh", "-c", _OVS)
    try:
        seen = bench.lab.on("B", "sh", "-c", _OVS_SEEN)
        assert "br-int" in seen
        assert "to-ex" in seen
        done = bench.run(forwarders=["ovs-afxdp", "xdp"])
        assert done.code == 0, done.err
        theirs, other = bench.rows()
        assert (theirs["status"], other["status"]) == ("unsupported", "ok")
        assert theirs["reason"].startswith("b: ovs-netdev of somebody else is there, which ovs-afxdp would take over")
        bench.run(forwarders=["ovs-afxdp"]).refused("ovs-netdev of somebody else")
        killed_up(bench)
        assert restore(bench).code == 0
        assert bench.lab.on("B", "sh", "-c", _OVS_SEEN) == seen
    finally:
        for name in ("ovs-vswitchd", "ovsdb-server"):
            bench.lab.on("B", "sh", "-c", f"kill $(cat /run/theirs/{name}.pid)")
        wait_for(lambda: running(bench.lab) == [], "its end", 20)
        for name in ("ovs-netdev", "br-int", "br-ex"):
            bench.lab.on("B", "sh", "-c", f"ip link delete dev {name} 2>/dev/null || true")
        bench.lab.on("B", "rm", "-r", "/run/theirs")


def test_restore_takes_no_port_that_somebody_uses_by_now(bench: Bench) -> None:
    killed_up(bench)
    ip(bench, "B", "address add 198.51.100.1/24 dev b1")
    restore(bench).refused("b: b1 has address 198.51.100.1/24", "`xdplab restore --force`")
    assert "mtu 1500" in bench.lab.on("B", "ip", "link", "show", "b0")
    assert "198.51.100.1" in bench.lab.on("B", "ip", "address", "show", "dev", "b1")
    assert "PROMISC" in bench.lab.on("B", "ip", "link", "show", "b1")
    assert "PROMISC" not in bench.lab.on("B", "ip", "link", "show", "b0")
    done = restore(bench, "--force")
    assert done.code == 0, done.err
    assert "--force: b: b1 has address 198.51.100.1/24" in done.out
    assert "PROMISC" not in bench.lab.on("B", "ip", "link", "show", "b1")
    assert "198.51.100.1" in bench.lab.on("B", "ip", "address", "show", "dev", "b1")
    ip(bench, "B", "address delete 198.51.100.1/24 dev b1")


def test_restore_detaches_no_program_of_somebody_else(bench: Bench) -> None:
    killed_up(bench)
    with foreign_xdp(bench, "B", "b0"):
        restore(bench).refused("b: b0 carries XDP program")
        assert "prog/xdp" in bench.lab.on("B", "ip", "link", "show", "b0")
    assert restore(bench).code == 0


def test_what_is_neither_what_a_run_found_nor_what_it_set_is_left_alone(bench: Bench) -> None:
    killed_up(bench)
    ip(bench, "B", "link set b1 mtu 1700")
    done = restore(bench)
    assert done.code == 0, done.err
    assert (
        "b: b1: mtu is 1700, which is neither what the run found (1500) nor what it set (1500): left alone" in done.out
    )
    assert "mtu 1700" in bench.lab.on("B", "ip", "link", "show", "b1")
    ip(bench, "B", "link set b1 mtu 1500")


def test_what_somebody_has_put_on_a_port_since_the_run_ended_stays(bench: Bench) -> None:
    """An administrator's classifier, filter and address; what the run changed goes back all the same."""
    killed_up(bench)
    classifier = "filter show dev b1 ingress"
    for command in (
        "qdisc add dev b1 clsact",
        "filter add dev b1 ingress protocol ip prio 7 u32 match u32 0 0 classid 1:1",
    ):
        bench.lab.on("B", "tc", *command.split())
    ip(bench, "B", "address add 198.18.250.1/32 dev b1")
    done = restore(bench)
    assert done.code == 0, done.err
    for kind, what in (("qdiscs", "clsact"), ("filters", "u32"), ("addresses", "198.18.250.1/32")):
        assert re.search(f"b: b1: {kind}: changed after the run ended: {what}.*: left alone", done.out), done.out
    assert "u32" in bench.lab.on("B", "tc", *classifier.split())
    assert "198.18.250.1" in bench.lab.on("B", "ip", "address", "show", "dev", "b1")
    assert "PROMISC" not in bench.lab.on("B", "ip", "link", "show", "b1")
    assert "tx-checksumming: on" in bench.lab.on("B", "ethtool", "-k", "b1")
    bench.lab.on("B", "tc", "qdisc", "del", "dev", "b1", "clsact")
    ip(bench, "B", "address delete 198.18.250.1/32 dev b1")


def test_a_setting_that_somebody_has_changed_since_is_left_alone(bench: Bench) -> None:
    file = "/sys/class/net/b0/napi_defer_hard_irqs"
    long = bench.study(method={"name": "latency", "duration_s": 30}, knobs={"napi_defer_hard_irqs": [3]})
    process = start("run", long, env=bench.env)
    wait_for(lambda: any("xdpfwd" in each for each in running(bench.lab)), "a forwarder", 60)
    wait_for(lambda: "settings_set" in _state(bench), "settings in the state file", 20)
    kill_9(process.pid)
    finish(process)
    wait_for(lambda: running(bench.lab) == [], "the agents' end", 20)
    bench.lab.on("B", "sh", "-c", f"echo 7 > {file}")
    done = restore(bench)
    assert done.code == 0, done.err
    assert "b: napi_defer_hard_irqs is {'b0': '7'}, which is neither" in done.out
    assert bench.lab.on("B", "cat", file) == "7\n"
    assert bench.lab.on("B", "cat", file.replace("b0", "b1")) == "0\n"
    bench.lab.on("B", "sh", "-c", f"echo 0 > {file}")


def _state(bench: Bench) -> str:
    return (bench.folder / "state" / f"{bench.lab.name}.json").read_text(encoding="utf-8")


def test_a_machine_that_stands_in_the_place_of_another_is_left_alone(bench: Bench) -> None:
    bench.lab.put("B", "/etc/machine-id", f"{0:032x}\n")  # where Debian was never booted there is none
    killed_up(bench)
    before = look(bench.lab)
    bench.lab.put("B", "/etc/machine-id", "ffffffffffffffffffffffffffffffff\n")
    restore(bench).refused("b: another machine answers: its machine-id is ffff", "--forget b0 --forget b1")
    assert look(bench.lab)["B"] == before["B"]
    bench.lab.put("B", "/etc/machine-id", f"{0:032x}\n")
    assert restore(bench).code == 0


def test_two_testbeds_of_one_name_do_not_put_back_each_others_ports(bench: Bench) -> None:
    killed_up(bench)
    other = bench.folder / "other.yaml"
    other.write_text(bench.lab.testbed.read_text(encoding="utf-8"), encoding="utf-8")
    for command in ("restore", "up"):
        xdplab(command, "--testbed", other, env=bench.env).refused(
            f"{bench.lab.testbed} has this name too", f"`xdplab restore --testbed {bench.lab.testbed}`"
        )
    assert restore(bench).code == 0


def test_an_interface_belongs_to_one_testbed_whatever_its_folders_are(bench: Bench) -> None:
    spec: dict[str, Any] = bench.lab.spec() | {"name": "other"}
    for host in spec["hosts"].values():
        host["folder"], host["cpus"] = "/run/elsewhere", [1]
    other = bench.folder / "other.yaml"
    other.write_text(yaml.safe_dump(spec), encoding="utf-8")
    bench.lab.write_testbed(**{name: {"cpus": [0]} for name in "abc"})
    env = {**bench.env, "XDPLAB_STATE": str(bench.folder / "elsewhere")}
    with held_up(bench.lab.testbed, bench.env):
        xdplab("up", "--testbed", other, env=env).refused("a: a0 is in use by a run of process", "other `ports`")


def test_a_card_that_was_removed_is_forgotten_when_that_is_said(tmp_path: Path) -> None:
    with Bench.up(tmp_path) as bench:
        killed_up(bench)
        ip(bench, "B", "link delete b1")
        restore(bench).refused("b: no interface 'b1'", "`xdplab restore --forget b1` if its card is gone")
        assert "PROMISC" not in bench.lab.on("B", "ip", "link", "show", "b0")
        restore(bench, "--forget", "b9").refused("--forget b9", "only on b1, c0")
        done = restore(bench, "--forget", "b1", "--forget", "c0")  # the far end of the pair went with it
        assert done.code == 0, done.err
        assert list((bench.folder / "state").glob("*.json")) == []
