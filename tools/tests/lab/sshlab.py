#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three hosts that are reached over SSH, on one machine: network namespaces, each with a real sshd and its own keys.

    sshlab.py up FOLDER              builds them, and writes FOLDER/testbed.yaml
    sshlab.py down FOLDER            removes them
    sshlab.py run COMMAND [ARG...]   builds them in a temporary folder, runs COMMAND with `{testbed}` replaced by the
                                     path of the testbed file, and removes them

Each host has a mount namespace too, with a /run of its own: a program that looks for a host's files here does not find
them. What is written to /etc, /usr, /var and the other folders of a machine stays on the host (overlays on a tmpfs),
and the pools of hugepages are files of its own there, all memory on NUMA node 0: users, packages and settings of this
machine are never changed. The cabling is that of the embedded testbed; a fourth interface, `mgmt`, carries SSH.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

SSHD = "/usr/sbin/sshd"
LINKS = (("a0", "b0"), ("b1", "c0"), ("d0", "d1"))
HOME = {"a0": "A", "d0": "A", "b0": "B", "b1": "B", "c0": "C", "d1": "C"}
#: What a host's init does: folders of its own, a root without this machine's shell set-up, a /dev/null that all may
#: write to, and staying there for sshd to be started in its namespaces.
_INIT = """
mount -t tmpfs -o mode=755 xdplab-lab /run
mkdir -m 755 /run/sshd
for folder in boot etc home opt root usr var; do
  mkdir -p /run/.own/$folder /run/.work/$folder
  mount -t overlay -o lowerdir=/$folder,upperdir=/run/.own/$folder,workdir=/run/.work/$folder xdplab-lab /$folder
done
mknod -m 666 /run/.own/null c 1 3
mount --bind /run/.own/null /dev/null
rm -f /root/.bash* /root/.profile
echo 0 > /run/.own/nr_hugepages
mount --bind /run/.own/nr_hugepages /proc/sys/vm/nr_hugepages
for node in /sys/devices/system/node/node*/hugepages /sys/kernel/mm/hugepages; do
  own=/run/.own/hugepages
  case $node in */node0/* | */mm/*) ;; *) own=/run/.own/no-memory ;; esac
  for size in hugepages-2048kB hugepages-1048576kB; do
    mkdir -p $own/$size
    for count in nr free resv; do echo 0 > $own/$size/${count}_hugepages; done
  done
  mount --bind $own $node
done
echo up
exec sleep infinity
"""


class SshLab:
    """Hosts A, B, C; `folder` keeps their keys, configurations and logs."""

    def __init__(self, folder: Path, tag: str | None = None) -> None:
        self.folder = folder
        self.tag = tag or secrets.token_hex(2)
        self.name = f"sshlab-{self.tag}"
        self.testbed = folder / "testbed.yaml"
        self.key = folder / "client"
        self.known_hosts = folder / "known_hosts"
        self.inits: dict[str, int] = {}

    def address(self, host: str, end: int = 2) -> str:
        """Address of a host (`end` 1: ours on its link), from the shared address space of RFC 6598."""
        first, second = bytes.fromhex(self.tag)
        return f"100.{64 + first % 64}.{second}.{'ABC'.index(host) * 4 + end}"

    def netns(self, host: str) -> str:
        """Name of a host's network namespace."""
        return f"xdplab-{self.name}-{host}"

    def up(self) -> None:
        """Build everything and wait until each sshd answers."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / "lab.json").write_text(json.dumps({"tag": self.tag}), encoding="utf-8")
        _make_key(self.key)
        for host in "ABC":
            self._add_host(host)
        for left, right in LINKS:
            _run("ip", "link", "add", left, "netns", self.netns(HOME[left]), "type", "veth", "peer", "name", right,
                 "netns", self.netns(HOME[right]))  # fmt: skip
            for port in (left, right):
                _run("ip", "-n", self.netns(HOME[port]), "link", "set", port, "up")
        for host in "ABC":
            self.put(host, "/etc/ssh/xdplab-lab.pub", self.key.with_suffix(".pub").read_text(encoding="ascii"))
            self.start_sshd(host)
        self._settle()
        self.known_hosts.write_text("".join(self.known_host(host, self.address(host)) for host in "ABC"))
        self.write_testbed()

    def _settle(self) -> None:
        """Wait until links are up and addresses are no longer tentative: what is looked at later is then as now."""
        deadline = time.monotonic() + 10
        for host in "ABC":
            ip = ["ip", "-n", self.netns(host)]
            while _run(*ip, "-6", "address", "show", "tentative") or "state DOWN" in _run(*ip, "link", "show"):
                assert time.monotonic() < deadline, _run(*ip, "address")
                time.sleep(0.05)

    def _add_host(self, host: str) -> None:
        netns, ours = self.netns(host), f"xl{host}-{self.tag}"
        _run("ip", "netns", "add", netns)
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", "mgmt", "netns", netns)
        for where, ifname, end in (((), ours, 1), (("-n", netns), "mgmt", 2)):
            _run("ip", *where, "address", "add", f"{self.address(host, end)}/30", "dev", ifname)
            _run("ip", *where, "link", "set", ifname, "up")
        _run("ip", "-n", netns, "link", "set", "lo", "up")
        _make_key(self.folder / f"host{host}")
        argv = ["ip", "netns", "exec", netns, "sh", "-ec", _INIT]
        init = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        assert init.stdout
        said = init.stdout.readline()
        init.stdout.close()
        assert said == b"up\n", f"host {host}: its init ended"
        self.inits[host] = init.pid

    def command(self, host: str, *argv: str) -> list[str]:
        """The argument list that runs `argv` as root on a host, without SSH."""
        return ["nsenter", "-t", str(self.inits[host]), "-m", "-n", "-r", *argv]

    def on(self, host: str, *argv: str) -> str:
        """Run a command as root on a host; its output."""
        return _run(*self.command(host, *argv))

    def put(self, host: str, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file on a host."""
        subprocess.run(self.command(host, "tee", path), input=text.encode(), capture_output=True, check=True)
        self.on(host, "chmod", f"{mode:o}", path)

    def start_sshd(self, host: str) -> None:
        """Start a host's sshd; also after it was killed."""
        config = self.folder / f"sshd{host}.conf"
        settings = {
            "ListenAddress": self.address(host),
            "HostKey": self.folder / f"host{host}",
            "AuthorizedKeysFile": "/etc/ssh/xdplab-lab.pub",
            "PidFile": "none",
            "PermitRootLogin": "prohibit-password",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "StrictModes": "no",
            "UsePAM": "no",
            "UseDNS": "no",
            "PrintMotd": "no",
            "MaxStartups": "100",
            "ClientAliveInterval": "5",
            "Subsystem": "sftp internal-sftp",
        }
        config.write_text("".join(f"{key} {value}\n" for key, value in settings.items()), encoding="utf-8")
        log = (self.folder / f"sshd{host}.log").open("ab")
        with log:
            argv = self.command(host, SSHD, "-D", "-e", "-f", str(config))
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 10
        listening = ["ip", "netns", "exec", self.netns(host), "ss", "-Hltn", "src", self.address(host)]
        while not subprocess.run(listening, capture_output=True, text=True, check=False).stdout:
            assert time.monotonic() < deadline, f"sshd of {host}: {(self.folder / f'sshd{host}.log').read_text()}"
            time.sleep(0.05)

    def stop_sshd(self, host: str) -> None:
        """End a host's sshd and every login; what its agent runs goes on."""
        self._end(host, lambda pid: Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith("sshd"))

    def known_host(self, host: str, address: str, port: int = 22) -> str:
        name = address if port == 22 else f"[{address}]:{port}"
        return f"{name} {(self.folder / f'host{host}.pub').read_text(encoding='ascii')}"

    def spec(self) -> dict[str, Any]:
        """The testbed file as a mapping."""
        common = {
            "user": "root",
            "key": str(self.key),
            "known_hosts": str(self.known_hosts),
            "deploy": "/run/xdplab-programs",
        }
        return {
            "schema": 1,
            "name": self.name,
            "kind": "hosts",
            "hosts": {host.lower(): {"address": self.address(host), **common} for host in "ABC"},
            "ports": {role: {"host": host.lower(), "ifname": role} for role, host in HOME.items()},
        }

    def write_testbed(self, **hosts: dict[str, Any]) -> None:
        """Write the testbed file; `hosts` changes keys of single hosts."""
        spec = self.spec()
        for name, changes in hosts.items():
            spec["hosts"][name].update(changes)
        text = "# SPDX-License-Identifier: Apache-2.0\n" + yaml.safe_dump(spec, sort_keys=False)
        self.testbed.write_text(text, encoding="utf-8")

    def processes(self, host: str) -> list[int]:
        """Everything that runs on a host."""
        found = subprocess.run(["ip", "netns", "pids", self.netns(host)], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def down(self) -> None:
        """Remove everything; safe to call twice."""
        for host in "ABC":
            self._end(host, lambda _: True)
            if Path("/run/netns", self.netns(host)).exists():
                _run("ip", "netns", "delete", self.netns(host))
        for host in "ABC":
            ours = f"xl{host}-{self.tag}"
            if Path("/sys/class/net", ours).exists():  # the kernel removes it with the namespace, but later
                subprocess.run(["ip", "link", "delete", ours], capture_output=True, check=False)

    def _end(self, host: str, whose: Callable[[int], bool]) -> None:
        """Kill processes of a host until none is there: while they are listed, one that lives begins another."""
        for _ in range(100):
            found = 0
            for pid in self.processes(host):
                with suppress(OSError):  # it has ended
                    if whose(pid):
                        os.kill(pid, signal.SIGKILL)
                        found += 1
            if not found:
                return
            time.sleep(0.02)
        raise AssertionError(f"what runs on host {host} does not end")


def _make_key(path: Path) -> None:
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path))


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def main(argv: Sequence[str]) -> int:
    """The commands of the module's docstring."""
    if len(argv) == 2 and argv[0] == "up":
        lab = SshLab(Path(argv[1]).resolve())
        try:
            lab.up()
        except BaseException:
            lab.down()
            raise
        print(lab.testbed)
        return 0
    if len(argv) == 2 and argv[0] == "down":
        folder = Path(argv[1]).resolve()
        SshLab(folder, json.loads((folder / "lab.json").read_text(encoding="utf-8"))["tag"]).down()
        shutil.rmtree(folder)
        return 0
    if len(argv) >= 2 and argv[0] == "run":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # `timeout` sends it: the lab goes all the same
        with tempfile.TemporaryDirectory(prefix="xdplab-sshlab-") as folder:
            lab = SshLab(Path(folder))
            try:
                lab.up()
                command = [item.replace("{testbed}", str(lab.testbed)) for item in argv[1:]]
                return subprocess.run(command, check=False).returncode
            finally:
                lab.down()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
