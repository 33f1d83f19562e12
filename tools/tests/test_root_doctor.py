# SPDX-License-Identifier: Apache-2.0
"""`xdplab doctor` on three hosts behind sshd: what is well, each gap with its mending command, and nothing changed."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.command import Done, environment, held_up, xdplab
from lab.cuts import changes, look
from lab.sshlab import SshLab

pytestmark = pytest.mark.root


class Ward:
    """A lab, and the doctor's rounds."""

    def __init__(self, folder: Path) -> None:
        self.lab = SshLab(folder / "lab")
        self.state = folder / "state"
        self.lab.up()
        self.before = look(self.lab)

    def doctor(self, spec: dict[str, Any]) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
        """Exit code, and the findings by host and name."""
        self.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
        done: Done = xdplab(
            "doctor", "--testbed", self.lab.testbed, "--json", env=environment({"XDPLAB_STATE": str(self.state)})
        )
        assert done.err == ""
        return done.code, {(each["host"], each["name"]): each for each in done.json()}


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    made = Ward(tmp_path_factory.mktemp("ward"))
    yield made
    made.lab.down()


def test_a_healthy_lab(ward: Ward) -> None:
    code, found = ward.doctor(ward.lab.spec())
    assert code == 0
    assert [each for each in found.values() if each["state"] == "missing"] == []
    for host in "abc":
        assert found[host, "ssh"]["state"] == found[host, "root"]["state"] == "ok"
    for link in ("a0-b0", "b1-c0", "d0-d1"):
        assert "hear each other" in found["", f"cable {link}"]["found"]
    assert found["b", "b0 native XDP"]["state"] == "ok"
    assert "copy mode only" in found["b", "b0 AF_XDP zero-copy"]["found"]
    assert "one kernel: one-way latencies" in found["", "clock of A and C"]["found"]
    assert "hash as here" in found["a", "xdpgen"]["found"]
    assert found["b", "Open vSwitch"]["found"].startswith("Open vSwitch 3.")
    for optional in (("b", "patched Open vSwitch"), ("b", "testpmd"), ("b", "VPP"), ("", "TRex")):
        assert found[optional]["state"] in ("ok", "optional")
    assert all(each["fix"] for each in found.values() if each["state"] != "ok")
    assert changes(ward.lab, ward.before) == []


def test_cables_that_are_not_as_the_file_says(ward: Ward) -> None:
    spec = ward.lab.spec()
    spec["ports"]["b0"]["ifname"], spec["ports"]["b1"]["ifname"] = "b1", "b0"
    code, found = ward.doctor(spec)
    assert code == 2
    crossed = found["", "cable a0-b0"]
    assert crossed["state"] == "missing"
    assert "a0 (a a0) reaches b1 (b b0)" in crossed["found"]
    assert "exchange the ifnames" in crossed["fix"]
    assert found["", "cable d0-d1"]["state"] == "ok"


def test_ports_that_are_not_as_the_file_says(ward: Ward) -> None:
    spec = ward.lab.spec()
    spec["queues"] = 4
    spec["ports"]["b0"].update(driver="ice", speed_mbps=25000)
    spec["ports"]["c0"]["ifname"] = "mgmt"
    code, found = ward.doctor(spec)
    assert code == 2
    assert "driver is veth, the file says ice; speed_mbps is 10000, the file says 25000" in found["b", "b0 b0"]["found"]
    assert found["c", "mgmt use"]["state"] == "missing"
    assert "has address" in found["c", "mgmt use"]["found"]
    assert found["c", "mgmt use"]["found"].endswith("carries the SSH connection")
    assert found["c", "mgmt use"]["fix"] == "give the testbed another interface"
    assert found["b", "b0 queues"]["fix"] == "ethtool -L b0 combined 4"
    assert found["", "links"]["state"] == "missing"
    spec["ports"]["c0"]["ifname"] = "c7"
    code, found = ward.doctor(spec)
    assert (code, found["", "ports"]["state"]) == (2, "missing")
    assert "no interface 'c7'" in found["", "ports"]["found"]


def test_a_host_that_cannot_be_reached_does_not_hide_the_others(ward: Ward) -> None:
    spec = ward.lab.spec()
    spec["hosts"]["c"]["port"] = 23
    ward.lab.known_hosts.open("a", encoding="ascii").write(ward.lab.known_host("C", ward.lab.address("C"), 23))
    code, found = ward.doctor(spec)
    assert (code, found["c", "ssh"]["state"]) == (2, "missing")
    assert "Connection refused" in found["c", "ssh"]["found"]
    assert found["a", "kernel"]["state"] == found["b", "kernel"]["state"] == "ok"
    assert ("", "cable a0-b0") not in found


def test_what_disturbs_is_named_with_what_stops_it(ward: Ward) -> None:
    fixes = {
        "irqbalance": "systemctl stop irqbalance",
        "tuned": "systemctl stop tuned",
        "NetworkManager": "nmcli device set b0 b1 managed no",
    }
    disturbing = []
    try:
        for name in fixes:
            fake = ward.lab.folder / name
            fake.write_bytes(Path("/bin/sleep").read_bytes())
            fake.chmod(0o755)
            disturbing.append(subprocess.Popen([str(fake), "60"]))
        code, found = ward.doctor(ward.lab.spec())
    finally:
        for process in disturbing:
            process.kill()
            process.wait()
    assert code == 0
    for name, fix in fixes.items():
        assert (found["b", name]["state"], found["b", name]["fix"]) == ("advice", fix)
    assert found["b", "thermald"]["state"] == "ok"


def test_a_program_that_is_missing_is_named_with_what_installs_it(ward: Ward) -> None:
    """Hidden behind an empty file that may not be run, on that host only."""
    hide = "touch /run/none; chmod 600 /run/none; mount --bind /run/none /usr/bin/taskset"
    ward.lab.on("B", "sh", "-ec", hide)
    try:
        code, found = ward.doctor(ward.lab.spec())
    finally:
        ward.lab.on("B", "umount", "/usr/bin/taskset")
    assert (code, found["b", "taskset"]["state"]) == (2, "missing")
    assert found["b", "taskset"]["fix"].startswith("apt-get install util-linux on that host, or everything with make")
    assert found["a", "taskset"]["state"] == "ok"


def test_a_testbed_in_use_is_left_alone(ward: Ward) -> None:
    env = environment({"XDPLAB_STATE": str(ward.state)})
    ward.lab.write_testbed()
    with held_up(ward.lab.testbed, env):
        code, found = ward.doctor(ward.lab.spec())
    assert (code, set(found)) == (2, {("", "testbed")})
    assert "in use by process" in found["", "testbed"]["found"]
