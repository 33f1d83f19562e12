# SPDX-License-Identifier: Apache-2.0
"""What a study may ask of method `rfc2544`."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from xdplab.model import MethodSpec, Model

PresetName = Literal["rfc2544", "tst009", "csit", "quick", "binary"]
Clause = Literal["throughput", "latency", "loss-curve", "back-to-back", "recovery", "reset"]


class EqualLoadSpec(Model):
    """What a repetition measures beside the clauses, at loads that are the same for all forwarders: it pairs."""

    #: Latency as in RFC 2544 §26.2, at this load and not at each forwarder's own throughput.
    latency_pps: float | None = Field(default=None, gt=0, le=100e6)
    #: Forwarding rate (RFC 2285 §3.6.1) in response to this offered load, above what any of them carries. At the
    #: tester's top rate, which bounds it, it is the rate at maximum offered load (FRMOL, §3.6.2).
    overload_pps: float | None = Field(default=None, gt=0, le=100e6)


class Rfc2544Spec(MethodSpec):
    """RFC 2544 §26.1 to §26.6: one clause by its name, or all with `name: rfc2544`."""

    name: Literal["rfc2544", "throughput", "loss-curve", "back-to-back", "recovery", "reset"]
    #: Clauses of `rfc2544`; each of the others is one clause, with the throughput in front where it is built upon.
    clauses: tuple[Clause, ...] = get_args(Clause)
    #: Of the searches: how long a trial is, when a load counts as good, how narrow the bounds are (docs/methods.md).
    preset: PresetName = "quick"
    #: Loss that is tolerated; for each the search finds a throughput.
    loss_ratios: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = Field(default=(0.0, 0.001, 0.005), min_length=1)
    #: Speed of the medium, in the place of `traffic.line_rate_bps`; where neither is known, the tester's calibrated top
    #: rate is the top load.
    line_rate_bps: float | None = Field(default=None, gt=0)
    #: Lowest load of a search, per direction.
    low_pps: float = Field(default=2000, gt=0)
    #: Traffic seconds of a search at the most (default: the preset's).
    budget_s: float | None = Field(default=None, gt=0)
    #: Wait for frames that are still on their way, at the most (§23: 2 s after the last one was sent).
    drain_s: float = Field(default=2.0, ge=0.01, le=10)
    #: What is measured beside the clauses.
    equal_load: EqualLoadSpec = EqualLoadSpec()

    @property
    def wanted(self) -> tuple[Clause, ...]:
        """Clauses to carry out, in the order of the RFC."""
        asked = set(self.clauses) if self.name == "rfc2544" else {self.name}
        if self.name in ("back-to-back", "recovery"):
            asked.add("throughput")
        return tuple(clause for clause in get_args(Clause) if clause in asked)
