# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.1 to §26.6 at a point: each clause is a module, the throughput found first serves the others."""

from typing import ClassVar

from xdplab.methods.base import Method, Session
from xdplab.methods.rfc2544.at_load import latency_at_load
from xdplab.methods.rfc2544.back_to_back import back_to_back
from xdplab.methods.rfc2544.disruption import recovery, reset
from xdplab.methods.rfc2544.equal_load import at_equal_load, durations
from xdplab.methods.rfc2544.loss_curve import loss_curve
from xdplab.methods.rfc2544.scale import scale_of
from xdplab.methods.rfc2544.throughput import throughput
from xdplab.methods.search import PRESETS, Bound, LimitedBy
from xdplab.model import Rfc2544Spec, TrafficSpec
from xdplab.model.study import Clause

__all__ = ["Rfc2544"]


class Rfc2544(Method):
    """The clauses of a spec, in the order of the RFC."""

    name: ClassVar[str] = "rfc2544"

    def __init__(self, spec: Rfc2544Spec) -> None:
        self.spec = spec

    def trials(self, traffic: TrafficSpec) -> list[float]:
        """A guess: a search takes some 20 trials, of which half lose frames and drain in full."""
        scale = scale_of(self.spec)
        preset = PRESETS[self.spec.preset]
        per_clause = {
            "throughput": [preset.final_trial_s + self.spec.drain_s / 2] * 20,
            "latency": [scale.at_load_s] * (5 * scale.at_load_repeats),
            "loss-curve": [scale.loss_trial_s] * 8,
            "back-to-back": [0.1 + self.spec.drain_s / 2] * (16 * scale.burst_repeats),
            "recovery": [scale.recovery_s * 2],
            "reset": [scale.reset_s],
        }
        return [*durations(self.spec), *(seconds for clause in self.spec.wanted for seconds in per_clause[clause])]

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """The latency at a load that is the same for all; searches end at the tester's top rate."""
        return (self.spec.equal_load.latency_pps or 0.0) * len(traffic.directions)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Carry the clauses out; one that needs what is not there is journaled with the reason, the others go on."""
        at_equal_load(session, self.spec, traffic)
        best: Bound | None = None
        for clause in self.spec.wanted:
            session.progress(f"RFC 2544 {clause}")
            reason = session.cannot.get(clause) or _lacking(clause, best)
            if reason:
                session.found(_HEADINGS[clause], {"unsupported": reason})
                continue
            ndr = (best and best.throughput_pps) or 0.0
            match clause:
                case "throughput":
                    best = throughput(session, self.spec, traffic).bounds[0]
                case "latency":
                    latency_at_load(session, self.spec, traffic, ndr)
                case "loss-curve":
                    loss_curve(session, self.spec, traffic)
                case "back-to-back" if best:
                    back_to_back(session, self.spec, traffic, best)
                case "recovery":
                    recovery(session, self.spec, traffic, ndr)
                case "reset":
                    reset(session, self.spec, traffic, ndr)


#: The clause that each name stands for, as it is journaled.
_HEADINGS: dict[Clause, str] = {
    "throughput": "RFC 2544 26.1",
    "latency": "RFC 2544 26.2",
    "loss-curve": "RFC 2544 26.3",
    "back-to-back": "RFC 2544 26.4",
    "recovery": "RFC 2544 26.5",
    "reset": "RFC 2544 26.6",
}


#: Clauses that are at shares of the throughput, or are read with it.
_BUILT_UPON_THROUGHPUT: tuple[Clause, ...] = ("latency", "back-to-back", "recovery")


def _lacking(clause: Clause, best: Bound | None) -> str:
    """Why a clause cannot be measured without the throughput; "" where it can."""
    if clause not in _BUILT_UPON_THROUGHPUT or (best and best.throughput_pps):
        return ""
    if best is None:
        return "it needs the throughput, which was not measured"
    return f"it needs a throughput above zero; {_NONE_FOUND[best.limited_by]}"


_NONE_FOUND: dict[LimitedBy, str] = {
    "below-minimum": "the forwarder lost frames at the lowest load",
    "tester": "the tester offered no load as it was asked to",
    "budget": "the search's time ran out before one was found",
    "forwarder": "none was found",
}
