# SPDX-License-Identifier: Apache-2.0
"""The lab as it runs: build/lab has its state, keys, disks and consoles; /tmp the ends of its cables."""

import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labbox.image import accelerator, disk_of, first_files, parts
from labbox.machines import MACHINES, MGMT, SSH_PORT, Machine, command, mgmt_mac
from nic.artefact import Artefact
from nic.boot import STUCK
from nic.errors import Hang, MissingPart
from nic.qemu import environment
from private_apt import apt_mirror
from xdplab.tools import project_root

FOLDER = project_root() / "build" / "lab"
_STATE, _KEY, _KNOWN_HOSTS = FOLDER / "lab.json", FOLDER / "root", FOLDER / "known_hosts"
#: Three guests at once take a minute or two in software on two cores, and many times that on busy ones.
_BOOT_S = 600.0
_SSHD = "HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin prohibit-password\nUseDNS no\n"


@dataclass(frozen=True)
class State:
    """Of the lab that was started last.

    Attributes:
        b: Debian's suite on B.
        accel: How its CPUs run, and why.
        wires: Folder of the ends of the cables.
        password: Of user `lab` on each machine.
        pids: QEMU of each machine.
    """

    b: str
    accel: str
    wires: str
    password: str
    pids: dict[str, int]


def read_state() -> State | None:
    """None when there is no lab."""
    return State(**json.loads(_STATE.read_text(encoding="utf-8"))) if _STATE.exists() else None


def require_none() -> None:
    """Of this checkout.

    Raises:
        MissingPart: A lab runs.
    """
    if any(map(running, MACHINES)):
        raise MissingPart("a lab runs: `make lab-down` ends it")


def up(b: str, say: Callable[[str], None]) -> None:
    """Start the three machines and wait until each one's sshd answers.

    Args:
        b: Debian's suite on B: A and C have 12.
        say: Called with each line of progress.

    Raises:
        MissingPart: QEMU, packages or the addresses are not to be had, or another lab runs.
        Hang: A machine does not come up.
    """
    require_none()
    for machine in MACHINES:
        for port in (SSH_PORT, *machine.forwards):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((machine.address, port))
                except OSError as error:
                    raise MissingPart(f"{machine.address}:{port}, of {machine.name}: {error.strerror}") from None
    artefact = parts(say)
    accel, why = accelerator(artefact)
    say(f"CPUs: {accel} ({why})")
    disks = {suite: disk_of(artefact, suite, accel, say) for suite in dict.fromkeys(("bookworm", b))}
    down()
    FOLDER.mkdir(parents=True, exist_ok=True)
    FOLDER.chmod(0o700)
    wires = Path(tempfile.mkdtemp(prefix="xdplab-lab-"))
    if os.geteuid() == 0:
        os.chown(wires, pwd.getpwnam("nobody").pw_uid, -1)
    state = State(b, f"{accel} ({why})", str(wires), secrets.token_hex(8), {})
    _make_key(_KEY)
    for machine in MACHINES:
        suite = b if machine.role == "B" else "bookworm"
        disk, archive = FOLDER / f"{machine.name}.ext4", FOLDER / f"{machine.name}.cpio"
        _run("cp", "--sparse=always", "--reflink=auto", str(disks[suite]), str(disk))
        archive.write_bytes(first_files(artefact, _files(machine, suite, state.password)))
        _start(artefact, machine, command(artefact, machine, archive, disk, wires, accel), state)
    began = time.monotonic()
    for machine in MACHINES:
        again = False
        while not answers(machine):
            console_of = FOLDER / f"{machine.name}.log"
            if not again and STUCK in console_of.read_text(encoding="utf-8", errors="replace"):
                say(f"{machine.name}: its kernel hung at boot; it is booted again")
                again = True
                _end(state.pids[machine.name], machine)
                archive, disk = FOLDER / f"{machine.name}.cpio", FOLDER / f"{machine.name}.ext4"
                _start(artefact, machine, command(artefact, machine, archive, disk, wires, accel), state)
            if not running(machine) or time.monotonic() > began + _BOOT_S:
                raise Hang(
                    f"{machine.name}: no sshd after {time.monotonic() - began:.0f} s; its console is {console_of}"
                )
            time.sleep(0.5)
        say(f"{machine.name} is up after {time.monotonic() - began:.0f} s")


def _start(artefact: Artefact, machine: Machine, argv: Sequence[str], state: State) -> None:
    with (FOLDER / f"{machine.name}.log").open("wb") as console:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env={**os.environ, **environment(artefact)},
            start_new_session=True, umask=0o077 if os.geteuid() else 0,
        )  # fmt: skip
    state.pids[machine.name] = process.pid
    _STATE.write_text(json.dumps(vars(state), indent=2) + "\n", encoding="utf-8")


def _files(machine: Machine, suite: str, password: str) -> dict[str, str]:
    """What `init` finds in /lab; `files/` is put onto the disk.

    apt of a machine uses the mirror and the proxy of this one, whatever they are.
    """
    host_key = FOLDER / f"{machine.name}_key"
    _make_key(host_key)
    public = host_key.with_suffix(".pub").read_text(encoding="ascii")
    with _KNOWN_HOSTS.open("a", encoding="ascii") as known:
        known.write(f"[{machine.address}]:{SSH_PORT} {public}")
    cards = {MGMT: mgmt_mac(machine)} | {card.ifname: card.mac for card in machine.cards}
    mirror = apt_mirror()
    dumped = _run("apt-config", "dump", "Acquire").splitlines(keepends=True)
    fetching = "".join(line for line in dumped if "::IndexTargets" not in line)  # what is to be fetched, and not how
    on_disk = {
        "etc/hostname": f"{machine.name}\n",
        "etc/machine-id": f"{secrets.token_hex(16)}\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {machine.name}\n",
        "etc/resolv.conf": "nameserver 10.0.2.3\n",
        "etc/apt/sources.list": "".join(f"deb {mirror} {each} main\n" for each in (suite, f"{suite}-updates")),
        "etc/apt/apt.conf.d/90lab": fetching,
        "etc/ssh/sshd_config.d/lab.conf": _SSHD,
        "etc/ssh/ssh_host_ed25519_key": host_key.read_text(encoding="ascii"),
        "etc/ssh/ssh_host_ed25519_key.pub": public,
        "root/.ssh/authorized_keys": _KEY.with_suffix(".pub").read_text(encoding="ascii"),
    }
    return {
        "settings": f"NONCE={secrets.token_hex(8)}\nMGMT={MGMT}\n",
        "cards": "".join(f"{ifname} {mac}\n" for ifname, mac in cards.items()),
        "passwords": f"lab:{password}\n",
        **{f"files/{path}": text for path, text in on_disk.items()},
    }


def _make_key(path: Path) -> None:
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"xdplab-{path.name}", "-f", str(path))


def _run(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MissingPart(f"{argv[0]} is not here") from None
    if done.returncode:
        raise MissingPart(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def running(machine: Machine) -> bool:
    """Its QEMU is there; a process that has only its number is not."""
    state = read_state()
    if state is None or machine.name not in state.pids:
        return False
    with contextlib.suppress(OSError):
        return (
            str(FOLDER / f"{machine.name}.cpio").encode()
            in Path(f"/proc/{state.pids[machine.name]}/cmdline").read_bytes()
        )
    return False


def answers(machine: Machine) -> bool:
    """Its sshd does."""
    with contextlib.suppress(OSError), socket.create_connection((machine.address, SSH_PORT), 2) as connection:
        connection.settimeout(2)
        return connection.recv(4) == b"SSH-"
    return False


def ssh(machine: Machine, *argv: str) -> list[str]:
    """The argv that runs a command as root there, with the lab's own key."""
    options = (f"UserKnownHostsFile={_KNOWN_HOSTS}", "BatchMode=yes", "LogLevel=ERROR")
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-F", "none", "-i", str(_KEY), *words, "-p", str(SSH_PORT), f"root@{machine.address}", *argv]


def down() -> None:
    """End the machines and remove the lab; consoles and the log of `follow` stay until the next one."""
    state = read_state()
    for machine in MACHINES if state else ():
        if running(machine):
            assert state
            _end(state.pids[machine.name], machine)
    if state:
        shutil.rmtree(state.wires, ignore_errors=True)
    for path in FOLDER.glob("*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix != ".log":
            path.unlink()


def _end(pid: int, machine: Machine) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sent)
        deadline = time.monotonic() + 10
        while running(machine) and time.monotonic() < deadline:
            time.sleep(0.05)
