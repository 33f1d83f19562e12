# SPDX-License-Identifier: Apache-2.0
"""Proof of the path: before anything is measured, frames must come through in every direction."""

import itertools
import time
from collections.abc import Callable
from typing import Any, Literal

from xdplab.forwarders import Dut, Forwarder
from xdplab.model import Path, Point, PointFailed, StreamSpec, TrialResult, TrialSpec, Unsupported
from xdplab.runner.frame_ends import FRAMES, FRAMES_PPS, where_frames_end
from xdplab.testbed import TesterPorts

#: Of the proof's trials on cards, one after another: a link may be down for a while after a tester's sockets and
#: programs have come (igb: 0.4 s), which each trial brings again.
_PROOF_WARMUPS_S = (0.0, 1.0, 2.0)
#: For how long frames are sent before it is asked what is in force, one after another until it is: an offload takes
#: flows, which the first frames make, and ports that can send for XDP, which a veth can while the tester's program is
#: at its peer. Open vSwitch has to notice both, which takes seconds on a slow machine.
_PROOFS_S = (0.02, 0.02, 0.2, 1.0, 3.0)
#: How long frames are waited for: at first, and where a program that gets little CPU holds them, of which none may be
#: among those of the other direction. Guests whose CPUs are emulated take 0.1 s for a frame.
_THROUGH_S, _ALL_THROUGH_S = 0.05, 0.5


def prove(
    point: Point,
    forwarder: Forwarder[Any],
    send: Callable[[TrialSpec], TrialResult],
    *,
    dut: Dut,
    tester: TesterPorts,
    lasting: bool,
) -> None:
    """Frames come through and options are in force, some of them only once there were frames.

    Raises:
        PointFailed: see `prove_path`.
        Unsupported: an option is not in force.
    """
    for duration_s in _PROOFS_S:
        prove_path(point, forwarder, send, dut=dut, tester=tester, lasting=lasting, duration_s=duration_s)
        idle = forwarder.ineffective()
        if idle is None:
            return
    raise Unsupported(idle)


def _directions(point: Point, forwarder: Forwarder[Any]) -> tuple[Literal["forward", "backward"], ...]:
    both = point.path is Path.THROUGH and not point.pipeline.one_way and not forwarder.one_way
    return ("forward", "backward") if both else ("forward",)


def prove_path(
    point: Point,
    forwarder: Forwarder[Any],
    send: Callable[[TrialSpec], TrialResult],
    *,
    dut: Dut,
    tester: TesterPorts,
    lasting: bool,
    duration_s: float = _PROOFS_S[0],
) -> None:
    """`lasting`: its ports are cards, or others that are there after the run; `duration_s`: of each trial.

    Raises:
        PointFailed: no frame came, in some direction; with where frames ended.
    """
    traffic = point.traffic
    streams = tuple(
        StreamSpec(
            kind="load",
            pps=1000,
            frame_bytes=traffic.smallest,
            direction=direction,
            **{**traffic.headers, "flows": 1},
        )
        for direction in _directions(point, forwarder)
    )
    deadline: float | None = None  # from the first trial on: some testers start a program with it
    again = False
    warmups_s = _PROOF_WARMUPS_S if lasting else (0.0,)
    for warmup_s in itertools.chain(warmups_s, itertools.repeat(warmups_s[-1])):
        drain_s = _ALL_THROUGH_S if deadline else _THROUGH_S
        spec = TrialSpec(streams=streams, duration_s=duration_s, drain_s=drain_s, warmup_s=warmup_s)
        result = send(spec)
        deadline = deadline or time.monotonic() + forwarder.silent_s
        silent = [stream.direction for stream in result.streams if not stream.received]
        if not silent:
            return
        ended = forwarder.crashed()
        tried = warmup_s == warmups_s[-1]
        if ended or (tried and time.monotonic() > deadline):
            if ended:
                raise PointFailed(ended)
            marked = {"pps": FRAMES_PPS, "count": FRAMES}
            asked = [stream.model_copy(update=marked) for stream in streams if stream.direction in silent]
            once = {"streams": tuple(asked), "duration_s": 1.1 * FRAMES / FRAMES_PPS, "drain_s": _ALL_THROUGH_S}
            once_more = spec.model_copy(update=once)
            why = where_frames_end(forwarder, dut, tester, send, once_more)
            if not why and not again:  # all of these came through
                again = True
                continue
            raise PointFailed(
                f"{forwarder.name}: no frame came through {' or '.join(silent)} within {forwarder.silent_s:g} s"
                f"{f'; {why}' if why else ''}"
            )
