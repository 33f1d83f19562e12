# SPDX-License-Identifier: Apache-2.0
"""Whether one forwarder is slower than another by more than is allowed: what `xdplab gate` ends with."""

import math
from typing import Any, Literal

from xdplab.analysis.compare import blocker_of, compare_points, loss_difference
from xdplab.analysis.run import Run
from xdplab.measure import Method
from xdplab.measure.comparison import Comparison
from xdplab.measure.method import figure
from xdplab.measure.point import PointSummary
from xdplab.model import InputError, Model
from xdplab.model.digits import percent
from xdplab.model.trial import REPORTED_LOSS
from xdplab.stats import Difference, at_confidence

BASE, NEW = "base", "new"
#: Rounds after which a verdict is looked for. Whatever the true slowdown is, one of the two verdicts is right.
#: Their intervals have this confidence: a look gives the other one in 0.75 % of gates at the most, and all looks, of
#: which each has the rounds of those before it, in less than 5 % with normal noise (`test_gate` simulates it).
LOOKS = (10, 15, 20, 30, 40, 60, 80, 110, 150, 200)
LOOK_CONFIDENCE = 0.985
WRONG = 0.05
#: `slower`: by more than is allowed, or it lost more of its frames than the base, by more than `REPORTED_LOSS`.
#: `broken`: it failed where the base did not, or delivered a frame twice, damaged, or from before it was started.
Verdict = Literal["pass", "slower", "broken", "undecided", "unsupported"]
#: For scripts; undecided and unsupported are never green.
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "slower": 1, "broken": 1, "undecided": 125, "unsupported": 125}


class Side(Model):
    """One of the two forwarders that a gate compares, with its figure."""

    #: As it was given.
    forwarder: str
    #: Median over the repetitions, in the unit of the figure's key.
    value: float | None = None
    #: The least and the greatest of a repetition.
    low: float | None = None
    high: float | None = None


class LayerChange(Model):
    """Of a gate by `--cost`: what a layer takes more or less."""

    #: As `xdplab cost` names layers.
    layer: str
    #: Instructions per frame, NEW less BASE.
    change: float
    #: `WHERE:FUNCTION` -> likewise, of the layer's functions that changed most.
    functions: dict[str, float] = {}


class GateResult(Model):
    """The verdict, and what it stands on."""

    verdict: Verdict
    #: Key of the figure, with its unit: `p50_us`; `instructions` of a gate by `--cost`.
    metric: str
    #: What a sentence calls it.
    figure: str = ""
    #: As a ratio: 0.05 allows 5 %.
    max_slowdown: float
    base: Side
    new: Side
    #: How many times as slow the new one is (of a rate: the base's by its own), and the interval; None: not known.
    slowdown: float | None = None
    low: float | None = None
    high: float | None = None
    #: Of the interval.
    confidence: float = LOOK_CONFIDENCE
    #: Chance of a wrong verdict by the figure over all looks, at the most; that by loss is not in it.
    wrong: float = WRONG
    #: Rounds in which both were measured.
    rounds: int = 0
    #: Of a gate by `--cost`, which counts instead of measuring: guests of each, with other random numbers.
    seeds: int = 0
    #: Likewise: layers that changed, the largest first.
    changes: tuple[LayerChange, ...] = ()
    #: What has to be said next to the figures: who lost frames.
    remarks: tuple[str, ...] = ()
    #: Why there is no verdict, what is broken, or how many more frames were lost.
    reason: str = ""
    #: Folder of the run.
    run: str = ""

    @property
    def exit_code(self) -> int:
        """0 pass, 1 slower or broken, 125 (`git bisect run` goes past it) nothing that may be green."""
        return EXIT_CODES[self.verdict]

    @property
    def sentence(self) -> str:
        """For a terminal, a log, a pull request."""
        if self.reason:
            return f"{self.verdict}: {self.reason}"
        name, allowed = self.figure, percent(self.max_slowdown)
        says = {
            "slower": f"the new one's {name} is worse by more than the allowed {allowed}",
            "pass": f"the new one's {name} is not worse by more than {allowed}",
        }
        said = says.get(self.verdict, f"whether it is worse by over {allowed}")
        return f"{self.verdict}: {said} ({'; '.join((self._interval, *self.remarks))})"

    @property
    def _interval(self) -> str:
        if self.slowdown is None:
            return "no repetition of both yet"
        digits = 2 if self.seeds else 1  # an instruction of some thousand
        change = _change(self.slowdown, digits)
        low, high = (_change(end, digits) if end is not None else "unknown" for end in (self.low, self.high))
        if self.seeds:
            return f"{change}, {low} to {high} over {self.seeds} seeds of each"
        return f"{change}, {100 * self.confidence:g} % interval {low} to {high}, {self.rounds} rounds"


def _change(slowdown: float, digits: int) -> str:
    return f"{100 * (slowdown - 1):+.{digits}f} %"


def check_figure(method: Method[Any], metric: str) -> None:
    """Before anything is measured.

    Raises:
        InputError: the method has no such figure.
    """
    keys = [each.key for each in method.figures]
    if metric not in keys:
        raise InputError(f"gate: figure {metric}: method {method.name} has {', '.join(keys)}")


def judge_gate(run: Run, names: tuple[str, str], metric: str, max_slowdown: float) -> GateResult:
    """The verdict by what has been measured so far, of a run whose forwarders are labelled `base` and `new`.

    Args:
        run: With both.
        names: What the two are, as they were given.
        metric: Key of a figure of its method.
        max_slowdown: As a ratio.
    """
    base, new = (_point(run, label) for label in (BASE, NEW))
    sides = [_side(point, name, metric) for point, name in zip((base, new), names, strict=True)]
    found = GateResult(
        verdict="undecided",
        metric=metric,
        figure=figure(metric).name,
        max_slowdown=max_slowdown,
        base=sides[0],
        new=sides[1],
        run=str(run.folder),
    )
    for point, name in ((base, names[0]), (new, names[1])):
        if point.status == "unsupported":
            return found.model_copy(update={"verdict": "unsupported", "reason": f"{name}: {point.reason}"})
    if fault := _fault(base, names[0]):
        return found.model_copy(update={"reason": f"the base failed: {fault}"})
    if fault := _fault(new, names[1]):
        return found.model_copy(update={"verdict": "broken", "reason": fault})
    compared = compare_points(new, base, metric)
    if compared is None:
        return found.model_copy(update={"reason": blocker_of(new, metric) or blocker_of(base, metric)})
    return _by_loss(_by_interval(found, compared), loss_difference(new, base, metric))


def not_measured(names: tuple[str, str], metric: str, max_slowdown: float, reason: str) -> GateResult:
    """The verdict where this machine can measure neither of the two, so that there is no run."""
    base, new = (Side(forwarder=name) for name in names)
    return GateResult(
        verdict="unsupported",
        metric=metric,
        figure=figure(metric).name,
        max_slowdown=max_slowdown,
        base=base,
        new=new,
        reason=reason,
    )


def _by_interval(found: GateResult, compared: Comparison) -> GateResult:
    """A ratio above 1 says that the new one is better: its slowdown is the inverse, and so are the ends."""
    known = compared.interval
    found = found.model_copy(update={"rounds": compared.rounds, "remarks": compared.remarks})
    if compared.blockers or known is None:
        after = f"after {compared.rounds} rounds: " + next(iter(compared.blockers), "no interval")
        return found.model_copy(update={"reason": after})
    known = at_confidence(known, LOOK_CONFIDENCE)
    low = 1 / known.high if known.high and compared.sense != "at least" else None
    high = 1 / known.low if known.low and compared.sense != "at most" else None
    found = found.model_copy(update={"slowdown": 1 / known.ratio, "low": low, "high": high})
    return found.model_copy(update={"verdict": verdict_of(low, high, found.max_slowdown)})


def _by_loss(found: GateResult, lost: Difference | None) -> GateResult:
    """A latency is of the frames that came through: who loses more of them does not pass by what is left."""
    if found.verdict == "slower" or lost is None or lost.low is None or lost.high is None:
        return found
    if lost.low <= 0 or lost.mean <= REPORTED_LOSS:
        return found
    ends = f"{100 * lost.confidence:g} % interval {percent(lost.low)} to {percent(lost.high)}, {lost.rounds} rounds"
    return found.model_copy(
        update={
            "verdict": "slower" if lost.low > REPORTED_LOSS else "undecided",
            "reason": f"of its frames the new one lost {percent(lost.mean)} more than the base ({ends})",
        }
    )


def verdict_of(low: float | None, high: float | None, max_slowdown: float) -> Verdict:
    """By the two ends of how many times as slow the new one is; an end that is not known decides nothing."""
    if high is not None and high <= 1 + max_slowdown:
        return "pass"
    return "slower" if low is not None and low > 1 + max_slowdown else "undecided"


def _point(run: Run, label: str) -> PointSummary:
    return next(point for point in run.points if point.forwarder == label)


def _side(point: PointSummary, name: str, metric: str) -> Side:
    """Infinite values are left out: most frames of that repetition were lost, and JSON has no number for it."""
    known = point.measured.get(metric)
    value = known.value if known else None
    values = [each for one in point.by_repetition if (each := one.value(metric)) is not None and math.isfinite(each)]
    return Side(
        forwarder=name,
        value=value if value is not None and math.isfinite(value) else None,
        low=min(values, default=None),
        high=max(values, default=None),
    )


def _fault(point: PointSummary, name: str) -> str:
    """What a forwarder must never do; "": it did not."""
    if point.failed:
        return f"{name} failed in {point.failed} of {point.begun} repetitions: {point.reason}"
    return f"{name} {point.fault}" if point.faults else ""
