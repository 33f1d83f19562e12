# SPDX-License-Identifier: Apache-2.0
"""B as a host that others need: a run, `kill -9`, `restore`, provisioning and `undo` leave it as they found it.

An Open vSwitch of its own with patch ports on the kernel's datapath, a VLAN and a bridge on the card that carries SSH,
an XDP program of its own, irqbalance, NetworkManager; compared in the words of `ovs-vsctl`, `ip`, `bridge`, `bpftool`,
`systemctl`.
"""

import difflib
import json
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from labbox import box
from labbox.follow import Reader, step
from labbox.machines import MACHINES, MGMT
from nic.errors import Hang

_B = MACHINES[1]
_PACKAGES = "openvswitch-switch irqbalance bpftool ethtool network-manager"
#: NetworkManager brings up and watches each interface but that of the lab's own SSH; no connection comes by itself.
_NETWORK_MANAGER = f"""[main]
no-auto-default=*
[keyfile]
unmanaged-devices=interface-name:{MGMT};interface-name:{MGMT}.100;interface-name:br100
"""
_PROGRAM = """
__attribute__((section("xdp"), used)) int theirs(void *frame) { return 2; }
char licence[] __attribute__((section("license"), used)) = "GPL";
"""
_SET_UP = f"""
apt-get update
env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends {_PACKAGES}
ovs-vsctl add-br br-int -- add-br br-ex -- add-port br-int vm0 -- set interface vm0 type=internal
ovs-vsctl add-port br-int to-ex -- set interface to-ex type=patch options:peer=to-int
ovs-vsctl add-port br-ex to-int -- set interface to-int type=patch options:peer=to-ex
ip link add link {MGMT} name {MGMT}.100 type vlan id 100
ip link add br100 type bridge
ip link set {MGMT}.100 master br100 up
ip link set br100 up
ip link add theirs0 type veth peer name theirs1
ip link set theirs0 up
ip link set theirs1 up
ip link set dev theirs0 xdp obj /root/theirs.o sec xdp
"""  # noqa: S608, which takes it for SQL
#: What is compared.
_LOOKS = (
    "ovs-vsctl show",
    "ovs-ofctl --no-stats dump-flows br-int",
    "ovs-appctl dpctl/show",
    "pidof ovs-vswitchd ovsdb-server",
    "ip -d link",
    "ip address",
    "ip route",
    "ip rule",
    "bridge link",
    "bpftool net",
    "bpftool prog show",
    "nmcli --terse --fields device,state device",
    "systemctl is-active openvswitch-switch irqbalance NetworkManager",
    "systemctl is-enabled openvswitch-switch irqbalance NetworkManager",
    *(f"ethtool {flag} {card.ifname}" for card in _B.cards for flag in ("-k", "-l", "-g", "-c", "-a")),
)
#: Counters and times that change by themselves, and programs of systemd, which it loads anew when units change.
_LIVE = re.compile(
    r"^\s*(lookups|masks|caches|flows|cache):.*\n|loaded_at \S+| run_time_ns \d+ run_cnt \d+|\w+_timer +[\d.]+"
    r"|^\d+: \w+ +name sd_.*\n(\s+.*\n)*",
    re.MULTILINE,
)
_RUN = "xdplab run latency --testbed lab.yaml --set repetitions=3"
_START_S = 600.0
#: What lies on the card that SSH comes in by is nobody's port.
_VLAN = (
    "xdplab lab init vlan.yaml --key ~/.ssh/xdplab --tester lab@192.0.2.10 --forwarder lab@192.0.2.20 "
    f"--offer tester=ens1f0 --offer forwarder={MGMT}.100"
)


def on_b(line: str) -> str:
    """What a command prints there, as root; what it complains of is part of it where it fails."""
    done = subprocess.run(
        box.ssh(_B, *map(shlex.quote, shlex.split(line))), capture_output=True, text=True, check=False
    )
    if done.returncode and not line.startswith("systemctl is-"):
        raise Hang(f"forwarder: `{line}`: {done.stderr.strip()}")
    return done.stdout


def make_production() -> None:
    """Set it up, unless it is.

    Raises:
        Hang: It could not be.
    """
    if re.search(r"theirs0\b.*\bxdp\b", on_b("ip link")):
        return
    with tempfile.TemporaryDirectory() as scratch:
        source, made = Path(scratch, "theirs.c"), Path(scratch, "theirs.o")
        source.write_text(_PROGRAM, encoding="ascii")
        subprocess.run(["clang", "-O2", "-g", "--target=bpf", "-c", str(source), "-o", str(made)], check=True)
        subprocess.run(box.ssh(_B, "cat", ">", "/root/theirs.o"), input=made.read_bytes(), check=True)
    place = "/etc/NetworkManager/conf.d"
    subprocess.run(box.ssh(_B, "mkdir", "-p", place), check=True)
    subprocess.run(box.ssh(_B, "cat", ">", f"{place}/lab.conf"), input=_NETWORK_MANAGER.encode(), check=True)
    for line in _SET_UP.strip().splitlines():
        on_b(line)


def look() -> dict[str, str]:
    """Command -> what it says now."""
    return {line: look_at(line) for line in _LOOKS}


def look_at(line: str) -> str:
    return without_counters(on_b(line))


def without_counters(text: str) -> str:
    """What changes by itself left out."""
    return _LIVE.sub("", text)


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Lines that were there and are not, or the other way round, behind the command that says them."""
    found = []
    for line, was in before.items():
        changed = difflib.unified_diff(was.splitlines(), after[line].splitlines(), lineterm="", n=0)
        found += [f"{line}: {each}" for each in changed if not each.startswith(("---", "+++", "@@"))]
    return found


def untouched(reader: Reader, say: Callable[[str], None]) -> None:
    """Do it all, and compare after each.

    Raises:
        Hang: Something there is no longer as it was.
    """
    make_production()
    before = _kept("before", look)
    reader.run(_VLAN, refused="carries the SSH connection")
    say(f"B has an Open vSwitch, a VLAN, a bridge and an XDP program of its own: {len(before)} outputs are compared")
    reader.run("make provision TESTBED=lab.yaml")
    provisioned = _kept("provisioned", look)

    def unchanged(since: Mapping[str, str], after: str) -> None:
        if changed := differences(since, {line: look_at(line) for line in since}):
            raise Hang("\n  ".join([f"after {after} B is not as it was:", *changed]))
        say(f"after {after} B is as it was")

    # services that provisioning stops are named by its role, and come back with `undo`
    unchanged({line: was for line, was in before.items() if not line.startswith("systemctl")}, "provisioning")
    reader.run(_RUN)
    unchanged(provisioned, "a run")
    _kill_a_run(reader)
    reader.run("xdplab restore --testbed lab.yaml")
    unchanged(provisioned, "kill -9 and restore")
    reader.run("make undo TESTBED=lab.yaml")
    unchanged(before, "undo")


def _kept(name: str, what: Callable[[], dict[str, str]]) -> dict[str, str]:
    """As it was the first time, also in a lab that was resumed."""
    path = box.FOLDER / f"{name}.json"
    if not path.exists():
        path.write_text(json.dumps(what()), encoding="utf-8")
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _kill_a_run(reader: Reader) -> None:
    """In its first trial or later: ports and forwarder are ours then. Its guardian goes first: restore has work.

    Raises:
        Hang: It ended before that.
    """
    latest = reader.place / "results/latest"
    earlier = latest.resolve()
    run = subprocess.Popen(step(_RUN, reader.home).argv, cwd=reader.place, env=reader.env,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    deadline = time.monotonic() + _START_S
    try:
        while latest.resolve() == earlier or not (latest / "trials.jsonl").is_file():
            if run.poll() is not None or time.monotonic() > deadline:
                raise Hang("the run that was to be killed took no trial")
            time.sleep(0.2)
    finally:
        guardian = ["pkill", "--signal", "KILL", "--parent", str(run.pid), "--full", " restore "]
        found = subprocess.run(guardian, check=False).returncode == 0
        run.kill()
        run.wait()
    if not found:
        raise Hang("the run that was to be killed had no guardian")
