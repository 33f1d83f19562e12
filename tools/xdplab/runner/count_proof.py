# SPDX-License-Identifier: Apache-2.0
"""Proof of a pipeline by what its forwarder counts: it has all rules, and each frame of the traffic has met its own."""

from collections.abc import Callable
from typing import Any, Literal

from xdplab.forwarders import Forwarder
from xdplab.model import Pipeline, PointFailed, StreamSpec, TrialResult, TrialSpec

#: Frames for each direction.
_FRAMES = 1000
#: How many a second, and the fewest that decide, for a tester leaves out what it is late for: at first, and again where
#: one was lost or too few were sent.
_TRIES = ((10_000, 100), (1_000, 100), (1_000, 100), (1_000, 100), (1_000, 1))
_FRAME_BYTES = 100
Direction = Literal["forward", "backward"]


def prove_rules(forwarder: Forwarder[Any], pipeline: Pipeline) -> None:
    """None is missing, and there is no other.

    Raises:
        PointFailed: how many there are.
    """
    told = forwarder.rule_count()
    if told is not None and told[0] != told[1]:
        raise PointFailed(f"{pipeline}: {forwarder.name} has {told[0]:,} rules of {told[1]:,}")


def prove_counts(forwarder: Forwarder[Any], pipeline: Pipeline, send: Callable[[TrialSpec], TrialResult]) -> None:
    """Frames go both ways, where the pipeline lets them; all come out, and as many have met the rules.

    Raises:
        PointFailed: the counts differ; or frames were lost each time, also at the lowest rate.
    """
    before = forwarder.rule_hits()
    if not before:
        return
    ways: tuple[Direction, ...] = ("forward",) if pipeline.one_way else ("forward", "backward")
    for pps, fewest in _TRIES:
        streams = tuple(
            StreamSpec(kind="load", pps=pps, frame_bytes=_FRAME_BYTES, count=_FRAMES, direction=way) for way in ways
        )
        told = send(TrialSpec(streams=streams, duration_s=2 * _FRAMES / pps)).streams
        after = forwarder.rule_hits()
        met = {name: after[name] - before[name] for name in after}
        sent: dict[str, int] = {stream.direction: stream.sent for stream in told}
        came: dict[str, int] = {stream.direction: stream.received for stream in told}
        asked = {"forth": sent["forward"], "back": sent.get("backward", 0), "meter": sum(sent.values())}
        if sent == came and any(met[name] < asked[name] for name in met):
            break
        # more than were sent: a frame of somebody else's, such as LLDP of a card, which does not come each time
        if sent == came and met == {name: asked[name] for name in met} and min(sent.values()) >= fewest:
            return
        before = after
    raise PointFailed(
        f"{pipeline}: of frames sent ({_words(sent)}) came out {_words(came)}; its rules met {_words(met)}"
    )


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())
