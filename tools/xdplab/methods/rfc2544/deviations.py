# SPDX-License-Identifier: Apache-2.0
"""What of RFC 2544 a study does not keep to, clause by clause, from its own parameters."""

from collections.abc import Iterator
from typing import get_args

from xdplab.methods.rfc2544.search import PRESETS
from xdplab.methods.rfc2544.spec import FULL, Clause, Rfc2544Spec, scale_of
from xdplab.model import StudySpec

#: §9.1: frame sizes of Ethernet, with FCS.
SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
_SECTIONS: dict[Clause, str] = {
    "throughput": "§26.1",
    "latency": "§26.2",
    "loss-curve": "§26.3",
    "back-to-back": "§26.4",
    "recovery": "§26.5",
    "reset": "§26.6",
}


def deviations(spec: Rfc2544Spec, study: StudySpec) -> list[str]:
    """A sentence for each, in the order of the RFC."""
    return [*_of_traffic(study), *_of_waiting(spec), *_of_clauses(spec)]


def _of_traffic(study: StudySpec) -> Iterator[str]:
    sizes = study.frame_bytes or (study.traffic.frame_bytes,)
    missing = [size for size in SIZES if size not in sizes]
    if missing:
        yield f"§9.1: not all frame sizes of Ethernet: without {', '.join(map(str, missing))} bytes"
    yield "§11: no broadcast frames, management frames, routing updates or filters among the test frames"
    pairs = study.traffic.src_addresses * study.traffic.dst_addresses
    if pairs < 256:
        yield f"§12: {pairs} pair{'s' * (pairs > 1)} of addresses, and not one drawn from 256 networks as well"
    if not study.traffic.bidirectional:
        yield "§14: one direction only"


def _of_waiting(spec: Rfc2544Spec) -> Iterator[str]:
    idle_s = scale_of(spec).drain_idle_s
    if spec.drain_s < 2 or idle_s is not None:
        until = f"until none has come for {idle_s:g} s" if idle_s is not None else f"for {spec.drain_s:g} s"
        yield f"§23: late frames are waited for {until}, not for 2 s"
    yield "§23: no rest of 5 s before the next trial"


def _of_clauses(spec: Rfc2544Spec) -> Iterator[str]:
    scale, wanted = scale_of(spec), spec.wanted
    left_out = [_SECTIONS[each] for each in get_args(Clause) if each not in wanted]
    if left_out:
        yield f"{', '.join(left_out)}: not asked for"
    per_clause: dict[Clause, list[str]] = {
        "throughput": list(PRESETS[spec.preset].deviations),
        "latency": [
            "every probe frame is time-stamped, not one of each stream",
            *_shorter("trials", scale.at_load_s, FULL.at_load_s),
            *_fewer("repetitions", scale.at_load_repeats, FULL.at_load_repeats),
        ],
        "loss-curve": _shorter("trials", scale.loss_trial_s, FULL.loss_trial_s),
        "back-to-back": [
            *_shorter("the longest burst", scale.longest_burst_s, FULL.longest_burst_s),
            *_fewer("searches", scale.burst_repeats, FULL.burst_repeats),
        ],
        "recovery": _shorter("the overload", scale.recovery_s, FULL.recovery_s),
        "reset": ["a reset of software; no hardware or power reset is made"],
    }
    if spec.loss_ratios and min(spec.loss_ratios) > 0:
        per_clause["throughput"].append("no search was without tolerated loss")
    for clause in wanted:
        if found := per_clause[clause]:
            yield f"{_SECTIONS[clause]}: {'; '.join(found)}"


def _shorter(what: str, is_s: float, asked_s: float) -> list[str]:
    return [f"{what}: {is_s:g} s instead of {asked_s:g} s"] if is_s < asked_s else []


def _fewer(what: str, count: int, asked: int) -> list[str]:
    return [f"{count} {what} instead of {asked}"] if count < asked else []
