# SPDX-License-Identifier: Apache-2.0
"""Any program that forwards between two ports, or receives or sends at one: docs/own-programs.md."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from xdplab.forwarders.base import Dut, Forwarder, no_role
from xdplab.forwarders.process import InstanceForwarder, Process
from xdplab.forwarders.xsk.xdpsock import frames_redirected, why_not_counted
from xdplab.hosts import Host
from xdplab.hosts.kernel import thread_ids
from xdplab.hosts.waiting import last_words
from xdplab.model import Model, NamesProgram, NotThere, PointFailed
from xdplab.model.study import OnePortRole

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
#: What stands for what in an argument: the second port is the first one on path `hairpin`.
_KNOWN = ("port_a", "port_b", "mac_a", "mac_b", "tester_mac_a", "tester_mac_c", "cpu", "folder")
#: A file system for pins of its own over /sys/fs/bpf, in a mount namespace that goes with it: nothing stays pinned.
_WITH_BPFFS = ("unshare", "--mount", "--", "sh", "-c", 'mount -t bpf bpf /sys/fs/bpf && exec "$@"', "sh")


_Arguments = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: tuple(shlex.split(value)) if isinstance(value, str) else value)
]


class CommandOptions(Model):
    """Of a program of the user's."""

    #: Program and arguments; in them `{port_a}`, `{port_b}`, their MAC addresses `{mac_a}`, `{mac_b}`, those of the
    #: tester's ports `{tester_mac_a}`, `{tester_mac_c}`, `{cpu}` (the forwarder's), `{folder}` (for its files) are
    #: replaced. It is found on PATH of the middle host, or at its path there.
    argv: Annotated[_Arguments, NamesProgram(), Field(min_length=1)]
    #: How long after its start it may let no frame through.
    ready_s: float = Field(default=10.0, gt=0, le=300)
    #: Whether it sends by XDP redirect, for which peers of veth ports are given NAPI. None: the run starts it once
    #: before it measures, and looks.
    redirects: bool | None = None
    #: It forwards from port A to port B only.
    one_way: bool = False
    #: `own`: /sys/fs/bpf is a file system of its own, which is empty and goes with it; `host`: it is the host's.
    bpffs: Literal["own", "host"] = "own"
    #: Of one that receives and sends nothing on (method `micro`, workload `rxdrop`): program and arguments, as in
    #: `argv`, that print how many frames it has received. Empty: by the kernel's count of frames that XDP gave to
    #: its sockets, which veth has.
    counter: Annotated[_Arguments, NamesProgram()] = ()
    #: Where the number is in what `counter` prints: the first group, or the whole; several matches, such as one per
    #: thread, are added. By default it prints nothing else.
    counter_pattern: str = r"\A\s*(\d+)\s*\Z"

    @field_validator("counter_pattern")
    @classmethod
    def _regular(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as exc:
            raise ValueError(f"{pattern}: no regular expression: {exc}") from None
        return pattern

    @model_validator(mode="after")
    def _placeholders(self) -> "CommandOptions":
        for option, given in (("argv", self.argv), ("counter", self.counter)):
            for name in (name for each in given for name in _PLACEHOLDER.findall(each)):
                if name not in _KNOWN:
                    known = ", ".join(f"{{{each}}}" for each in _KNOWN)
                    raise ValueError(f"{option}: {{{name}}}: there is only {known}")
            if given and _PLACEHOLDER.search(given[0]):
                raise ValueError(f"{option}: its first word is the program, in full")
        return self

    @staticmethod
    def with_values(given: Sequence[str], known: Mapping[str, object]) -> list[str]:
        """`argv` or `counter` with each of `_KNOWN` replaced."""
        return [_PLACEHOLDER.sub(lambda match: str(known[match[1]]), each) for each in given]


def _known(dut: Dut) -> dict[str, object]:
    first, last = dut.ports[0], dut.ports[-1]
    peers = dut.peers or dut.ports
    return {
        "port_a": first.ifname,
        "port_b": last.ifname,
        "mac_a": first.mac,
        "mac_b": last.mac,
        "tester_mac_a": peers[0].mac,
        "tester_mac_c": peers[-1].mac,
        "cpu": dut.layout.forwarder,
        "folder": dut.rundir,
    }


class CommandForwarder(InstanceForwarder[CommandOptions, Process]):
    """The program, on the forwarder's CPU; SIGTERM ends it, and what it has attached is detached."""

    name: ClassVar[str] = "command"
    options_model: ClassVar[type[Model]] = CommandOptions

    def __init__(self, options: CommandOptions) -> None:
        super().__init__(options)
        self.redirects = bool(options.redirects)
        self.redirects_unknown = options.redirects is None
        self.one_way = options.one_way
        self.silent_s = options.ready_s

    @property
    def _program(self) -> str:
        return self.options.argv[0]

    def in_role(self, role: OnePortRole, frame_bytes: int) -> Forwarder[Any]:
        """What a program does is its own; that it does what was asked is seen before it is measured."""
        if role == "stages":
            raise no_role(self, role)
        program = CommandSink(self.options) if role == "rxdrop" else CommandForwarder(self.options)
        program.redirects_unknown = role == "l2fwd" and self.redirects_unknown
        return program

    def unsupported(self, dut: Dut) -> str | None:
        """Raises InputError where the program is not there."""
        for option, given in (("argv", self.options.argv), ("counter", self.options.counter)):
            if given and dut.host.run(["which", "--", given[0]], check=False).returncode:
                raise NotThere(f"command: {option}={given[0]}: no such program on {dut.host.name}: correct it")
        return None

    def in_words(self) -> tuple[str, frozenset[str]]:
        return f"program {PurePath(self.options.argv[0]).name}", frozenset(CommandOptions.model_fields)

    def describe(self) -> str:
        return f"A program of the user's own: {shlex.join(self.options.argv)}."

    def start(self, dut: Dut) -> None:
        """Start it: that frames come through, which the run waits for, says that it is ready."""
        own = _WITH_BPFFS if self.options.bpffs == "own" else ()
        running = dut.host.start(
            [*own, *self.options.with_values(self.options.argv, _known(dut))],
            log=dut.rundir / "log",
            cpus=[dut.layout.forwarder],
            env={"LIBXDP_SKIP_DISPATCHER": "1"},
        )
        self.instance = Process(self.name, Path(self._program).name, dut, running)

    def forwarding_threads(self) -> dict[int, int]:
        """All of its threads: which of them forward, only it knows."""
        return {tid: pid for pid in self.pids() for tid in thread_ids(self.instance.dut.host, pid)}

    def versions(self, host: Host) -> Mapping[str, str]:
        found = host.run(["which", "--", self._program], check=False).stdout.strip()
        if not found:
            return {self._program: "not installed"}
        return {self._program: f"sha256 {host.run(['sha256sum', '--', found]).stdout[:16]}"}

    def mode(self) -> dict[str, Any]:
        return {"argv": list(self.options.argv)}


class CommandSink(CommandForwarder):
    """The program with one port, where frames end: an intrusion detection system, a capture."""

    def unsupported(self, dut: Dut) -> str | None:
        """What it receives must be counted by itself or by the kernel."""
        super().unsupported(dut)
        why = None if self.options.counter else why_not_counted(dut, "rxdrop")
        return f"{why}; set option `counter` to a program that prints its count" if why else None

    def frames_received(self) -> int:
        """By what `counter` prints, or by the kernel's count of frames that XDP gave to its sockets.

        Raises:
            PointFailed: `counter` failed, or printed no number.
        """
        dut, counter = self.instance.dut, self.options.counter
        if not counter:
            return frames_redirected(dut)
        done = dut.host.run(self.options.with_values(counter, _known(dut)), check=False)
        pattern = re.compile(self.options.counter_pattern)
        found = [match[1 if pattern.groups else 0] or "" for match in pattern.finditer(done.stdout)]
        if done.returncode or not found or not all(map(str.isdecimal, found)):
            wrong = f"exit code {done.returncode}" if done.returncode else f"no number by {pattern.pattern!r}"
            printed = last_words((done.stderr or done.stdout).splitlines()) or "nothing"
            raise PointFailed(f"command: counter={counter[0]}: {wrong}; it printed {printed}")
        return sum(map(int, found))
