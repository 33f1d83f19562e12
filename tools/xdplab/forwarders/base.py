# SPDX-License-Identifier: Apache-2.0
"""What a forwarder is: one class with options, start, read-back and stop, and what else it may be able to do.

The abilities are protocols: a forwarder has one when it has its methods. Who needs one asks by `isinstance`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

from xdplab.forwarders.options import raw_names
from xdplab.hosts import Host, NetnsHost
from xdplab.hosts.waiting import run_parallel
from xdplab.model import CpuLayout, ForwarderSpec, InputError, Model, Path, Pipeline, Unsupported, plugins, validated
from xdplab.model.design import as_written
from xdplab.model.study import OnePortRole
from xdplab.testbed import Port

CROSS = Pipeline()
#: Of a mode: names of options that nothing shows to be in force.
UNPROVEN = "unproven"
#: Options of forwarders that say how many threads forward.
THREADS = ("pmd_cores", "workers")


@dataclass(frozen=True)
class Dut:
    """What a forwarder works with: the middle host, its ports (one on `hairpin`), its CPUs, a folder of its own."""

    host: Host
    ports: tuple[Port, ...]
    path: Path
    layout: CpuLayout
    #: Exists on `host`, which may be another machine: reach it by `host.read`, `host.exists`.
    rundir: FilePath
    #: False when the tester's CPUs are another machine's.
    tester_here: bool = True
    #: The other ends of `ports`.
    peers: tuple[Port, ...] = ()
    #: What it has to do with frames.
    pipeline: Pipeline = CROSS
    #: Containers on `host` that frames can pass.
    pods: tuple[NetnsHost, ...] = ()
    #: Of each port, by the testbed file.
    queues: int = 1

    @property
    def hairpin(self) -> bool:
        """True when frames leave by the port they came in."""
        return self.path is Path.HAIRPIN


@dataclass(frozen=True)
class ProbeTarget:
    """A thread with user-space probes: its program and its ids."""

    program: str
    pid: int
    tid: int
    #: Where its frames come in; None when their XDP redirects look like those of frames that pass no probe.
    ifname: str | None
    #: Whose probes, as `bpf/ovsprobe` knows it.
    provider: Literal["netdev_afxdp", "xsk"] = "netdev_afxdp"


class NoOptions(Model):
    """Options of a forwarder that has none."""


OptionsT = TypeVar("OptionsT", bound=Model)


class Forwarder(ABC, Generic[OptionsT]):
    """Base of all forwarders. An object serves one repetition of a point: it is started once and stopped once."""

    #: Name in studies and on command lines.
    name: ClassVar[str]
    #: What readers call it who do not know our names: `OVS on AF_XDP`.
    plain: ClassVar[str] = ""
    #: Options that `name:option=value` may carry; unknown ones are refused before a run starts.
    options_model: ClassVar[type[Model]] = NoOptions
    #: True when it transmits by XDP redirect, which a veth peer accepts only with NAPI on.
    redirects: bool = False
    #: True when that is not known before a run has looked (`runner/ports.py`).
    redirects_unknown: bool = False
    #: True when it forwards from A to C only.
    one_way: bool = False
    #: True when a driver of its own has its ports: the run takes these from the kernel, and gives them back.
    takes_ports: bool = False
    #: How long after its start it may let no frame through.
    silent_s: float = 5.0
    #: Links it makes on its host: it takes no host that has one of somebody else, and a killed one's are removed.
    own_links: ClassVar[tuple[str, ...]] = ()
    #: Pipelines that it can do. None: it forwards nothing, A and C are on the testbed's direct link, and B has no port.
    pipelines: ClassVar[tuple[str, ...]] = (CROSS.kind,)
    #: True when it only exists on the fake testbed.
    simulated: ClassVar[bool] = False
    #: True of a device that is not started here: it stands between a0 and c0 of a testbed file without b0 and b1.
    external: ClassVar[bool] = False
    #: RFC 2544 clauses it has no figures for, and why.
    cannot: ClassVar[Mapping[str, str]] = {}
    #: MAC addresses that frames from A and from C are sent to, of a device that routes; None: each to the other's.
    routers: tuple[str, str] | None = None

    def __init__(self, options: OptionsT) -> None:
        self.options = options

    def unsupported(self, dut: Dut) -> str | None:
        """None, or the reason why this machine cannot run it as asked."""
        return None

    def one_buffer(self) -> str:
        """Why no frame may have more than one buffer, as those of more than `ONE_BUFFER_BYTES` have; "": they may."""
        return ""

    def describe(self) -> str:
        """A sentence for the report on what its figures are of; "": nothing next to its name."""
        return ""

    def in_words(self) -> tuple[str, frozenset[str]]:
        """What it is in plain words, and the options that these cover already."""
        return self.plain or self.name, frozenset()

    def make(self, note: Callable[[str], None]) -> None:
        """Make what its options name and this machine does not have yet; before a run, never of a dry run.

        Raises:
            InputError: it cannot be made.
        """

    def required_knobs(self) -> dict[str, int]:
        """Knobs that must have a value for this forwarder to run as asked; the run sets and restores them."""
        return {}

    @abstractmethod
    def start(self, dut: Dut) -> None:
        """Start forwarding between the ports of `dut`.

        Raises:
            PointFailed: it did not start; the message holds its own words.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop and remove everything `start` made; safe to call twice and after a crash."""

    def ineffective(self) -> str | None:
        """Asked once frames come through: None, or which option was accepted silently and is not in force, and why.

        Such a point is `unsupported`: it must not be measured under a name that is not true.
        """
        return None

    def unproven(self) -> tuple[str, ...]:
        """Names of its raw options that nothing shows to be in force: each row that has one says so."""
        return raw_names(self.options)

    def crashed(self) -> str | None:
        """None while it is well, or a sentence saying which process ended how."""
        return None

    def pids(self) -> tuple[int, ...]:
        """Processes that hold its sockets."""
        return ()

    def forwarding_threads(self) -> dict[int, int]:
        """Thread id -> process id of the threads that move frames; none where the kernel's softirqs do."""
        return {}

    def mode(self) -> dict[str, Any]:
        """The mode in use, as the program reports it; the kernel's view is added by `mode_in_use`."""
        return {}

    def log_tail(self) -> tuple[str, ...]:
        """The last lines of its log."""
        return ()

    def versions(self, host: Host) -> Mapping[str, str]:
        """Program -> version of those that its options choose, or why one is missing."""
        return {}


@runtime_checkable
class Counting(Protocol):
    """It has counters of its own."""

    def counters(self) -> dict[str, Any]:
        """All of them, for the record."""

    def monotonic(self, counters: dict[str, Any]) -> dict[str, Any]:
        """What of `counters` only grows, by name at any depth: the record also has what each trial added to it."""
        return counters


@runtime_checkable
class Pooled(Protocol):
    """It has buffer pools of its own."""

    def free_buffers(self) -> int | None:
        """Buffers that hold no frame and are in no ring, of all pools; None: not reported."""


@runtime_checkable
class RuleCounting(Protocol):
    """It tells how many rules it has."""

    def rule_count(self) -> tuple[int, int] | None:
        """Rules that it has now, and those that its pipeline takes; None: this pipeline has none."""


@runtime_checkable
class RuleHits(Protocol):
    """It counts what its rules match."""

    def rule_hits(self) -> dict[str, int]:
        """Frames of the traffic that matched its pipeline's rules, up to now: `forth`, `back`, and both by `meter`."""


@runtime_checkable
class NewFlows(Protocol):
    """It counts flows that are new to it."""

    def flows_met(self) -> int | None:
        """Flows that were new to it, up to now; None: this pipeline looks at none."""


@runtime_checkable
class Explaining(Protocol):
    """It knows why no frame comes through."""

    def why_silent(self) -> str:
        """Asked when no frame came through: what it knows of the cause, in a few words; "": nothing."""


@runtime_checkable
class Losing(Protocol):
    """It counts frames that it does not send on, under other names than its `counters`."""

    def frames_lost(self) -> dict[str, int]:
        """Those so far, by rule, table, node or reason."""


@runtime_checkable
class Probed(Protocol):
    """A forwarder whose program has user-space probes (USDT or uprobes)."""

    def probes(self, dut: Dut) -> ProbeTarget:
        """Where they are.

        Raises:
            Unsupported: this set-up cannot be followed by them.
        """


@runtime_checkable
class Stamping(Protocol):
    """It stamps batches by its own means."""

    def start_recording(self) -> None:
        """Begin to stamp batches."""

    def end_recording(self) -> dict[str, Any]:
        """End it; what was recorded, as `bpf/ovsprobe` prints it."""


@runtime_checkable
class OnePort(Protocol):
    """The same program runs with one port, for a micro-benchmark."""

    def in_role(self, role: OnePortRole, frame_bytes: int) -> Forwarder[Any]:
        """That program.

        Raises:
            InputError: it cannot do that.
        """


@runtime_checkable
class Receiving(Protocol):
    """A program with one port that counts what it receives."""

    def frames_received(self) -> int:
        """By its own count, up to now."""


def in_role(forwarder: Forwarder[Any], role: OnePortRole, frame_bytes: int) -> Forwarder[Any]:
    """A forwarder's program with one port.

    Raises:
        InputError: it has none for that.
    """
    if isinstance(forwarder, OnePort):
        return forwarder.in_role(role, frame_bytes)
    raise no_role(forwarder, role)


def frames_received(program: Forwarder[Any]) -> int:
    """Of a program with one port, by its own count.

    Raises:
        Unsupported: it has none.
    """
    if isinstance(program, Receiving):
        return program.frames_received()
    raise Unsupported(f"{program.name}: it does not count what it receives")


def probes_of(forwarder: Forwarder[Any], dut: Dut) -> ProbeTarget:
    """Where a forwarder's own probes are.

    Raises:
        Unsupported: it has none, or this set-up cannot be followed by them.
    """
    if isinstance(forwarder, Probed):
        return forwarder.probes(dut)
    raise Unsupported(f"{forwarder.name}: it has no probes that tell where a frame's time goes")


def no_role(forwarder: Forwarder[Any], role: OnePortRole) -> InputError:
    """The error of a program that has no such role."""
    return InputError(f"forwarder {forwarder.name}: it cannot do {role}: it has no such part with one port")


def mode_in_use(forwarder: Forwarder[Any], dut: Dut) -> dict[str, Any]:
    """What the kernel says: XDP attach mode per port and every AF_XDP socket, next to the program's own words."""
    ports = [port for port in dut.ports if port.in_kernel]
    *attached, mode = run_parallel(*(partial(dut.host.xdp, port.ifname) for port in ports), forwarder.mode)
    xdp = {
        port.role: {"mode": one.mode, "program": one.prog_name} if one else {"mode": "none"}
        for port, one in zip(ports, attached, strict=True)
    }
    found = {**mode, "xdp": xdp, "xsk": sockets_in_use(forwarder, dut)}
    unproven = forwarder.unproven()
    return {**found, UNPROVEN: list(unproven)} if unproven else found


def sockets_in_use(forwarder: Forwarder[Any], dut: Dut) -> list[dict[str, Any]]:
    """What the kernel says of every AF_XDP socket of a forwarder, with its statistics as of now."""
    return [sock for pid in forwarder.pids() for sock in dut.host.xsk_sockets(pid)]


def mode_name(mode: Mapping[str, Any]) -> str:
    """One word for tables: `native copy`, `generic copy`, `zero-copy`, `native`, `af_packet`, `bridge` ...

    Behind it the options that were passed on and that nothing proves.
    """
    unproven = mode.get(UNPROVEN, ())
    return "; unproven: ".join(filter(None, [_plain_mode(mode), ", ".join(unproven)]))


def _plain_mode(mode: Mapping[str, Any]) -> str:
    if "label" in mode:
        return str(mode["label"])
    beside = " + XDP flows" if any(mode.get("xdp_flows", {}).values()) else ""
    attached = {str(port.get("mode")) for port in mode.get("xdp", {}).values()} - {"none"}
    sockets = mode.get("xsk", [])
    if not sockets:
        return "/".join(sorted(attached)) or "none"
    copying = "zero-copy" if all(sock.get("zero_copy") for sock in sockets) else "copy"
    if not attached:  # of a socket that only sends, or nothing is known of the ports
        return f"{copying}, no XDP program" if mode.get("xdp") else copying
    return f"{'/'.join(sorted(attached))} {copying}{beside}"


GROUP = "xdplab.forwarders"


def forwarder_class(name: str) -> type[Forwarder[Any]]:
    """The class behind a name.

    Raises:
        InputError: no such forwarder.
    """
    found: type[Forwarder[Any]] = plugins.find(GROUP, "forwarder", name)
    return found


def forwarder_spec(text: str) -> ForwarderSpec:
    """Of `name[:option=value,...]`, as a command line has it.

    Raises:
        InputError: it is not that; whether there is such a forwarder is not looked at.
    """
    try:
        given = ForwarderSpec.parse(text)
    except ValueError as exc:
        raise InputError(str(exc)) from None
    return validated(ForwarderSpec, given, f"forwarder {text}")


def make_forwarder(spec: ForwarderSpec) -> Forwarder[Any]:
    """A forwarder ready to start.

    Raises:
        InputError: unknown name, unknown option or a value of the wrong type.
    """
    cls = forwarder_class(spec.name)
    return cls(validated(cls.options_model, spec.options, f"forwarder {spec.name}"))


def is_direct(spec: ForwarderSpec) -> bool:
    """Whether A and C are on the testbed's direct link, with nothing in between.

    Raises:
        InputError: no such forwarder.
    """
    return not forwarder_class(spec.name).pipelines


def plain_name(spec: ForwarderSpec) -> str:
    """Its label, or what it is in plain words: options that these do not cover stand in parentheses.

    Raises:
        InputError: as `make_forwarder`.
    """
    if spec.label:
        return spec.label
    words, covered = make_forwarder(spec).in_words()
    options = ", ".join(_option_words(key, value) for key, value in spec.options.items() if key not in covered)
    return f"{words} ({options})" if options else words


def _option_words(key: str, value: Any) -> str:
    """`patched` for a build, `burst=8` for others."""
    return str(value) if key == "build" else f"{key}={as_written(value)}"
