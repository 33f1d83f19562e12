# SPDX-License-Identifier: Apache-2.0
"""`make lab` without guests: command lines, cables, and the commands that are taken from documents."""

import re
from pathlib import Path
from typing import Any

import pytest

from labbox import box, follow, image, machines, production
from labbox.machines import MACHINES, Machine, command
from nic.artefact import Artefact
from nic.errors import Hang
from xdplab.tools import project_root

ROOT = project_root()
ARTEFACT = Artefact(Path("/cache/emulator"), Path("/cache/kernel"))


def argv(machine: Machine, accel: str = "tcg") -> list[str]:
    return command(ARTEFACT, machine, Path("/lab/a.cpio"), Path("/lab/a.ext4"), Path("/wires"), accel)


def test_a_cable_s_ends_are_two_machines_that_send_to_each_other() -> None:
    ends = {}
    for machine in MACHINES:
        words = argv(machine)
        for number, card in enumerate(machine.cards, 1):
            (netdev,) = [word for word in words if word.endswith(f",id=net{number}")]
            local, remote = re.findall(r"path=/wires/(\w+)", netdev)
            assert local == card.ifname
            ends[local] = (machine.name, remote)
    assert len(ends) == 10
    for ifname, (name, remote) in ends.items():
        other, back = ends[remote]
        assert (other != name, back) == (True, ifname)


def test_cables_and_interfaces_are_those_of_the_page() -> None:
    text = (ROOT / "docs/first-lab.md").read_text(encoding="utf-8")
    for pair in machines.settled().split(", "):
        left, right = pair.split(" ---- ")
        assert any(f"{one} ---- {two}" in text for one, two in _spellings(left, right)), pair
    for machine in MACHINES:
        offered = ",".join(card.ifname for card in machine.cards[:2])  # more are for a TRex
        assert f"--{machine.name} lab@{machine.documented}" in text
        assert f"--offer {machine.name}={offered}" in text


def _spellings(left: str, right: str) -> list[tuple[str, str]]:
    """`tester ens1f0` is so in a picture's line, or `ens1f0 tester`."""
    turned = [" ".join(reversed(each.split())) for each in (left, right)]
    pairs = [(a, b) for a in (left, turned[0]) for b in (right, turned[1])]
    return [*pairs, *((b, a) for a, b in pairs)]


def test_mac_and_ip_addresses_differ() -> None:
    macs = [card.mac for machine in MACHINES for card in machine.cards] + [machines.mgmt_mac(one) for one in MACHINES]
    assert len(set(macs)) == 13
    assert len({machine.address for machine in MACHINES}) == 3


@pytest.mark.parametrize(("euid", "drops"), [(0, True), (1000, False)])
def test_a_guest_is_reached_over_loopback_alone_and_its_emulator_has_no_privilege(
    monkeypatch: pytest.MonkeyPatch, euid: int, drops: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: euid)
    for machine in MACHINES:
        words = argv(machine)
        forwards = [word for word in words if "hostfwd" in word]
        ports = {2222: 22, **{port: port for port in machine.forwards}}
        reached = ",".join(f"hostfwd=tcp:{machine.address}:{here}-:{there}" for here, there in ports.items())
        assert forwards == [f"user,id=mgmt,ipv6=off,{reached}"]
        assert machine.address.startswith("127.")
        assert not any(word.startswith(("tap", "bridge")) for word in words)
        assert ("user=nobody" in words) is drops
        assert "spawn=deny" in words[words.index("-sandbox") + 1]


def test_what_accelerates_is_what_was_found_to_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "kvm" in argv(MACHINES[0], "kvm")
    assert "tcg,thread=multi" in argv(MACHINES[0])
    monkeypatch.setattr("os.access", lambda *_: True)
    for ended, found in ((0, "kvm"), (Hang("did not boot in 32 s"), "tcg")):
        monkeypatch.setattr(image, "_run_once", lambda *_, ended=ended: ended)
        accel, why = image.accelerator(ARTEFACT)
        assert accel == found
        assert str(ended) in why or not ended


def test_every_line_of_a_block_of_commands_is_understood() -> None:
    for page in follow.PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        found = follow.commands(text)
        assert found
        for line in found:
            follow.step(line, Path("/home/h"))
            assert "#" not in line
    assert set(follow.LEFT_OUT) <= set(follow.commands((ROOT / "docs/first-lab.md").read_text(encoding="utf-8")))


def test_a_picture_is_no_command_and_an_unknown_program_is_refused() -> None:
    assert follow.commands("```text\ntester ens1f0 ---- ens2f0 b\n```\n```text\nmake x   # why\n\nxdplab y\n```\n") == [
        "make x",
        "xdplab y",
    ]
    with pytest.raises(Hang, match="reboot"):
        follow.step("reboot now", Path("/h"))


@pytest.mark.parametrize(
    ("line", "expected", "output"),
    [
        ("ssh-copy-id -i ~/.ssh/k lab@192.0.2.10", "ssh-copy-id -p 2222 -i /h/.ssh/k lab@127.83.0.10", None),
        ("ssh-keyscan 192.0.2.20 192.0.2.30 >> ~/.ssh/known_hosts",
         "ssh-keyscan -T 60 -t ed25519 -p 2222 127.83.0.20 127.83.0.30",
         "/h/.ssh/known_hosts"),
        ("xdplab lab init lab.yaml --far lab@192.0.2.30", "xdplab lab init lab.yaml --far lab@127.83.0.30:2222", None),
        ("make undo TESTBED=lab.yaml", "make -o setup undo TESTBED=lab.yaml", None),
    ],
)  # fmt: skip
def test_addresses_and_the_home_are_the_lab_s(line: str, expected: str, output: str | None) -> None:
    found = follow.step(line, Path("/h"))
    assert " ".join(found.argv) == expected
    assert str(found.output) == str(output)


def test_a_lab_is_resumed_with_the_command_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with pages that are others by now."""

    class Stub:
        def __init__(self) -> None:
            self.followed: list[str] = []
            self.tried: list[str] = []
            self.broken = "c"

        def run(self, line: str) -> str:
            self.tried.append(line)
            if line == self.broken:
                raise Hang(f"exit code 1 of `{line}`")
            return ""

        def passed(self, line: str) -> None:
            self.followed.append(line)

    reader: Any = Stub()
    monkeypatch.setattr(follow, "_lines", lambda: iter("abcd"))
    with pytest.raises(Hang, match="of `c`"):
        follow.follow(reader)
    reader.broken = ""
    follow.follow(reader)
    assert "".join(reader.tried) == "abccd"
    monkeypatch.setattr(follow, "_lines", lambda: iter("axcd"))
    with pytest.raises(Hang, match="other commands than when the lab began"):
        follow.follow(reader)


def test_a_process_that_has_only_the_number_of_a_machine_s_is_not_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(box, "FOLDER", tmp_path)
    monkeypatch.setattr(box, "_STATE", tmp_path / "lab.json")
    (tmp_path / "lab.json").write_text(
        '{"b": "trixie", "accel": "tcg", "wires": "%s", "password": "p", "pids": {"tester": 1}}' % (tmp_path / "none"),
        encoding="ascii",
    )
    (tmp_path / "tester.log").touch()
    assert not box.running(MACHINES[0])
    box.down()
    assert [path.name for path in tmp_path.iterdir()] == ["tester.log"]


def test_what_changed_on_b_is_said_line_by_line_and_counters_are_none() -> None:
    before = {"ovs-vsctl show": "br-int\n  vm0\n", "ip link": "mgmt"}
    assert production.differences(before, dict(before)) == []
    assert production.differences(before, before | {"ovs-vsctl show": "br-int\n"}) == ["ovs-vsctl show: -  vm0"]
    show = "system@ovs-system:\n  lookups: hit:%d missed:1 lost:0\n  port 0: ovs-system (internal)\n"
    bridge = "bridge stp_state 0 gc_timer   %s vlan_default_pvid 1\n"
    assert production.without_counters(bridge % "37.63") == production.without_counters(bridge % "108.76")
    assert production.without_counters(show % 1) == production.without_counters(show % 2)
    assert "port 0" in production.without_counters(show % 1)
    programs = "%d: cgroup_skb  name sd_fw_egress  tag 77\n\tloaded_at x  uid 0\n7: xdp  name theirs  tag 1\n\tuid 0\n"
    assert production.without_counters(programs % 1) == production.without_counters(programs % 2)
    assert "theirs" in production.without_counters(programs % 1)
    program = "21: lsm  name restrict_fs  tag 1e1f  gpl run_time_ns %d run_cnt %d\n\tloaded_at x  uid 0\n"
    assert production.without_counters(program % (1, 2)) == production.without_counters(program % (3, 4))
