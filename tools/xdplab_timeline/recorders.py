# SPDX-License-Identifier: Apache-2.0
"""The three recorders of batches: the forwarder's own stamps, `bpf/ovsprobe`, and perf as the delay study used it.

The latter two record the static probes of a forwarding thread.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Literal

from xdplab.api import (
    Dut,
    PointFailed,
    ProbeTarget,
    Session,
    Stamping,
    Unsupported,
    XdplabError,
    bpf_program,
    probes_of,
    wait_until,
)
from xdplab_timeline import perf_probe
from xdplab_timeline.batches import ProbeRecords

Recorder = Literal["in-band", "bpf", "perf"]
#: What each is.
RECORDERS: dict[Recorder, str] = {
    "in-band": "time stamps that the forwarder itself takes, next to the departure in the frame",
    "bpf": "static probes (USDT), recorded by a BPF program",
    "perf": "static probes (USDT), recorded by perf",
}
#: Records that fit the ring of `bpf/ovsprobe`, which is read when all is over.
ROOM = 60_000
#: Name of each that is a program, and how long until it is ready and until it has ended: perf opens events, and reads
#: back all that it recorded.
_PROGRAMS = {"bpf": ("ovsprobe", 5.0, 10.0), "perf": ("perf_probe", 20.0, 60.0)}
#: Provider -> its probes of receive, transmit and end of kick, and which of their arguments is the frames, from 1.
_PROBES = {"netdev_afxdp": (("rx_batch", "tx_batch", "tx_kick_end"), 3), "xsk": (("rx", "tx", "kick_end"), 2)}


def one_in(rate_pps: float, seconds: float) -> int:
    """How thinly to record so that what both directions may bring fits."""
    return max(1, round(2 * rate_pps * seconds / ROOM))


def recording(session: Session, recorder: Recorder, every: int) -> AbstractContextManager[Callable[[], ProbeRecords]]:
    """The forwarder of a session while it is recorded, one batch in `every`; what ends that gives the records.

    Raises:
        Unsupported: it cannot be recorded so.
    """
    if recorder == "in-band":
        return stamped(session)
    return probed(session.dut, probes_of(session.forwarder, session.dut), recorder, every)


@contextmanager
def stamped(session: Session) -> Iterator[Callable[[], ProbeRecords]]:
    """Batches that the forwarder stamps.

    Raises:
        Unsupported: it does not.
    """
    forwarder = session.forwarder
    if not isinstance(forwarder, Stamping):
        raise Unsupported(f"{forwarder.name}: it does not stamp batches itself")
    forwarder.start_recording()
    ended: list[ProbeRecords] = []

    def end() -> ProbeRecords:
        ended.append(ProbeRecords.of(forwarder.end_recording()))
        return ended[-1]

    try:
        yield end
    finally:
        if not ended:
            with suppress(XdplabError):  # what ended the trial is reported, not what followed from it
                end()


@contextmanager
def probed(dut: Dut, target: ProbeTarget, recorder: Recorder, every: int) -> Iterator[Callable[[], ProbeRecords]]:
    """Batches that pass the probes of a thread; perf sees no XDP redirect.

    Raises:
        Unsupported: the program has no probes, this kernel does not take them, or perf is missing, in the words of the
            recorder.
        PointFailed: by what ends it: the recorder broke.
    """
    name, ready_s, end_s = _PROGRAMS[recorder]
    argv = _ovsprobe(dut, target, every) if recorder == "bpf" else _perf(dut, target, every)
    output = dut.rundir / f"{name}.out"
    running = dut.host.start(argv, log=dut.rundir / f"{name}.log", stdout=output, cpus=dut.layout.housekeeping)

    def printed() -> str:
        return dut.host.read(str(output)) if dut.host.exists(output) else ""

    def end() -> ProbeRecords:
        running.stop(end_s)
        try:
            return ProbeRecords.of(json.loads(printed().partition("\n")[2]))
        except (ValueError, KeyError, TypeError):
            words = " ".join(running.log_tail(1)) or "its output is not valid JSON"
            raise PointFailed(f"{name}: {words}") from None

    try:
        wait_until(lambda: bool(printed()) or running.poll() is not None, ready_s, f"{name}: its ready line")
        if running.poll() is not None:
            raise Unsupported((running.log_tail(1) or (f"{name} exited without a message",))[0])
        yield end
    finally:
        running.stop()


def _ovsprobe(dut: Dut, target: ProbeTarget, every: int) -> Sequence[str]:
    attachment = dut.host.xdp(target.ifname) if target.ifname else None
    given = {
        "--binary": target.program,
        "--pid": target.pid,
        "--tid": target.tid,
        "--every": every,
        "--provider": target.provider,
        **({"--prog-id": attachment.prog_id} if attachment else {}),
    }
    return [bpf_program("ovsprobe", dut.host), *(str(word) for option in given.items() for word in option)]


def _perf(dut: Dut, target: ProbeTarget, every: int) -> Sequence[str]:
    names, frames_argument = _PROBES[target.provider]
    script = [dut.host.python, dut.host.program(Path(perf_probe.__file__))]
    given = [target.program, str(target.tid), str(every), str(dut.rundir), str(frames_argument)]
    return [*script, *given, *(f"{target.provider}:{name}" for name in names)]
