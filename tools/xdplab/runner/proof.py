# SPDX-License-Identifier: Apache-2.0
"""Proof of the path: before anything is measured, frames must come through in every direction."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from xdplab.forwarders import Forwarder
from xdplab.forwarders.base import Explaining
from xdplab.hosts.kernel import link_counters
from xdplab.hosts.queue_frames import moved, queue_frames
from xdplab.model import (
    LinkLost,
    Path,
    Point,
    PointFailed,
    StreamSpec,
    TrialResult,
    TrialSpec,
    Unsupported,
    XdplabError,
)
from xdplab.testbed import Port

#: Of the proof's trials on cards, one after another: a link may be down for a while after a tester's sockets and
#: programs have come (igb: 0.4 s), which each trial brings again.
_PROOF_WARMUPS_S = (0.0, 1.0, 2.0)
#: For how long frames are sent before it is asked what is in force, one after another until it is: an offload takes
#: flows, which the first frames make, and ports that can send for XDP, which a veth can while the tester's program is
#: at its peer. Open vSwitch has to notice both, which takes seconds on a slow machine.
_PROOFS_S = (0.02, 0.02, 0.2, 1.0, 3.0)


def prove(
    point: Point,
    forwarder: Forwarder[Any],
    send: Callable[[TrialSpec], TrialResult],
    *,
    lasting: bool,
    ports: Sequence[Port] = (),
    queues: int = 1,
) -> None:
    """Frames come through and options are in force, some of them only once there were frames.

    Raises:
        PointFailed: see `prove_path`.
        Unsupported: an option is not in force.
    """
    for duration_s in _PROOFS_S:
        prove_path(point, forwarder, send, lasting=lasting, duration_s=duration_s, ports=ports, queues=queues)
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
    lasting: bool,
    duration_s: float = _PROOFS_S[0],
    ports: Sequence[Port] = (),
    queues: int = 1,
) -> None:
    """`lasting`: its ports are cards, or others that are there after the run; `duration_s`: of each trial.

    `ports`: of the path; their counters say how far frames came. `queues`: of the forwarder's, by the testbed file.

    Raises:
        PointFailed: no frame came, in some direction; with what the forwarder knows of it.
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
    warmups_s = _PROOF_WARMUPS_S if lasting else (0.0,)
    for warmup_s in itertools.chain(warmups_s, itertools.repeat(warmups_s[-1])):
        spec = TrialSpec(streams=streams, duration_s=duration_s, drain_s=0.05, warmup_s=warmup_s)
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
            why = forwarder.why_silent() if isinstance(forwarder, Explaining) else ""
            try:
                counted = _counted([port for port in ports if port.in_kernel], queues, partial(send, spec))
            except LinkLost:
                raise
            except XdplabError as exc:
                counted = f"; its ports do not say how far frames came: {exc}"
            raise PointFailed(
                f"{forwarder.name}: no frame came through {' or '.join(silent)} within {forwarder.silent_s:g} s{why}"
                f"{counted}"
            )


def _counted(ports: Sequence[Port], queues: int, once_more: Callable[[], object]) -> str:
    """What the ports, and of each its queues, count in one more trial."""
    if not ports:
        return ""
    before = [(link_counters(port.host, port.ifname), queue_frames(port.host, port.ifname)) for port in ports]
    once_more()
    said = []
    for port, (links, of_queues) in zip(ports, before, strict=True):
        now, more = link_counters(port.host, port.ifname), moved(of_queues, queue_frames(port.host, port.ifname))
        came, went = (now[way]["packets"] - links[way]["packets"] for way in ("rx", "tx"))
        beyond = port.role.startswith("b") and any(queue >= queues for queue in more.get("rx", ()))
        hint = f"; queues: {queues} in the testbed file" if beyond else ""
        said.append(
            f"{port.role} received {came}{_in_words(more.get('rx'), hint)} and sent {went}{_in_words(more.get('tx'))}"
        )
    return f"; frames of one more trial: {', '.join(said)}"


def _in_words(frames: Mapping[int, int] | None, hint: str = "") -> str:
    """By queue; nothing where the driver does not count them."""
    if frames is None:
        return ""
    return f" ({', '.join(f'queue {queue}: {count}' for queue, count in sorted(frames.items())) or 'no queue'}{hint})"
