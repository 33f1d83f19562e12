# SPDX-License-Identifier: Apache-2.0
"""Whether one forwarder is slower than another by more than is allowed: what `xdplab gate` ends with."""

from collections.abc import Iterable
from typing import Literal

from xdplab.analysis.compare import compare_points, hindrance_of
from xdplab.analysis.run import Run
from xdplab.measure.comparison import Comparison
from xdplab.measure.point import PointSummary
from xdplab.measure.registry import figure
from xdplab.model import InputError, Model
from xdplab.model.digits import percent, significant
from xdplab.stats.interval import CONFIDENCE

BASE, NEW = "base", "new"
#: Rounds after which a verdict is looked for. Whatever the true slowdown is, one of the two verdicts is right.
#: A look gives the other one in (1 - `CONFIDENCE`) / 2 = 0.5 % of gates at the most, all of them (Bonferroni) in 5 %.
LOOKS = (10, 15, 20, 30, 40, 60, 80, 110, 150, 200)
WRONG = len(LOOKS) * (1 - CONFIDENCE) / 2
#: `slower`: by more than is allowed. `broken`: it failed where the base did not, or gave a frame twice.
Verdict = Literal["pass", "slower", "broken", "undecided", "unsupported"]
#: What a script is told; undecided and unsupported are never green.
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "slower": 1, "broken": 1, "undecided": 3, "unsupported": 3}


class Side(Model):
    """One of the two."""

    #: As it was given.
    forwarder: str
    #: Median over the usable repetitions, in the unit of the figure's key.
    value: float | None
    #: The least and the greatest of a repetition.
    low: float | None
    high: float | None
    #: Frames that arrived once more.
    duplicated: int


class GateResult(Model):
    """The verdict, and what it stands on."""

    verdict: Verdict
    #: Key of the figure, with its unit: `p50_us`.
    metric: str
    #: As a ratio: 0.05 allows 5 %.
    max_slowdown: float
    base: Side
    new: Side
    #: How many times as slow the new one is (of a rate: the base's by its own), and the interval; None: not known.
    slowdown: float | None = None
    low: float | None = None
    high: float | None = None
    #: Of the interval.
    confidence: float = CONFIDENCE
    #: Chance of a wrong verdict over all looks, at the most.
    wrong: float = WRONG
    #: Pairs of repetitions, and those that the machine left undisturbed.
    rounds: int = 0
    clean: int = 0
    #: Why there is no verdict, or what is broken.
    reason: str = ""
    #: Folder of the run.
    run: str = ""

    @property
    def exit_code(self) -> int:
        """0 pass, 1 slower or broken, 3 nothing that may be green."""
        return EXIT_CODES[self.verdict]

    @property
    def sentence(self) -> str:
        """For a terminal, a log, a pull request."""
        name, allowed = figure(self.metric).name, percent(self.max_slowdown)
        if self.verdict == "unsupported":
            return f"unsupported: {self.reason}"
        if self.verdict == "broken":
            return f"broken: {self.reason}"
        found = self._found
        if self.verdict == "slower":
            return f"slower: the new one's {name} is worse by more than the {allowed} that are allowed ({found})"
        if self.verdict == "pass":
            return f"pass: the new one's {name} is not worse by more than {allowed} ({found})"
        return f"undecided after {self.rounds} rounds: {self.reason or f'worse than {allowed} or not: {found}'}"

    @property
    def so_far(self) -> str:
        """What is known before the last look."""
        return f"{figure(self.metric).name} {self._found}"

    @property
    def _found(self) -> str:
        if self.slowdown is None:
            return "nothing is known of it"
        low, high = (_change(end) if end is not None else "unknown" for end in (self.low, self.high))
        return f"{_change(self.slowdown)}, {100 * self.confidence:g} % interval {low} to {high}"


def _change(slowdown: float) -> str:
    return f"{100 * (slowdown - 1):+.1f} %"


def judge(run: Run, names: tuple[str, str], metric: str, max_slowdown: float, *, last: bool) -> GateResult:
    """The verdict by what has been measured so far, of a run whose forwarders are labelled `base` and `new`.

    Args:
        run: With both.
        names: What the two are, as they were given.
        metric: Key of a figure of its method.
        max_slowdown: As a ratio.
        last: No more will be measured: why nothing is decided is said.

    Raises:
        InputError: the method has no such figure.
    """
    keys = [each.key for each in run.method.figures]
    if metric not in keys:
        raise InputError(f"gate: figure {metric}: method {run.method.name} has {', '.join(keys)}")
    base, new = (_point(run, label) for label in (BASE, NEW))
    sides = [_side(point, name, metric) for point, name in zip((base, new), names, strict=True)]
    found = GateResult(
        verdict="undecided", metric=metric, max_slowdown=max_slowdown, base=sides[0], new=sides[1], run=str(run.folder)
    )
    for point, name in ((base, names[0]), (new, names[1])):
        if point.status == "unsupported":
            return found.model_copy(update={"verdict": "unsupported", "reason": f"{name}: {point.reason}"})
    if base.failed or base.duplicated:
        return found.model_copy(update={"reason": f"the base itself is broken: {_fault(base, names[0])}"})
    if new.failed or new.duplicated:
        return found.model_copy(update={"verdict": "broken", "reason": _fault(new, names[1])})
    compared = compare_points(new, base, metric)
    if compared is None:
        reason = hindrance_of(new, metric) or hindrance_of(base, metric)
        return found.model_copy(update={"reason": reason if last else ""})
    return _by_interval(found, compared, last=last)


def _by_interval(found: GateResult, compared: Comparison, *, last: bool) -> GateResult:
    """A ratio above 1 says that the new one is better: its slowdown is the inverse, and so are the ends."""
    known = compared.interval
    found = found.model_copy(update={"rounds": compared.repetitions, "clean": compared.clean})
    if compared.hindrances or known is None:
        return found.model_copy(update={"reason": next(iter(compared.hindrances), "") if last else ""})
    low = 1 / known.high if known.high and compared.sense != "at least" else None
    high = 1 / known.low if known.low and compared.sense != "at most" else None
    found = found.model_copy(update={"slowdown": 1 / known.ratio, "low": low, "high": high})
    limit = 1 + found.max_slowdown
    if high is not None and high <= limit:
        return found.model_copy(update={"verdict": "pass"})
    if low is not None and low > limit:
        return found.model_copy(update={"verdict": "slower"})
    return found


def _point(run: Run, label: str) -> PointSummary:
    return next(point for point in run.points if point.forwarder == label)


def _side(point: PointSummary, name: str, metric: str) -> Side:
    known = point.measured.get(metric)
    values = [value for one in point.by_repetition if (value := one.value(metric)) is not None]
    return Side(
        forwarder=name,
        value=known.value if known else None,
        low=min(values, default=None),
        high=max(values, default=None),
        duplicated=point.duplicated,
    )


def _fault(point: PointSummary, name: str) -> str:
    if point.failed:
        return f"{name} failed in {point.failed} of {point.begun} repetitions: {point.reason}"
    return f"{name} gave {point.duplicated} frames twice"


def markdown(found: GateResult) -> str:
    """A summary for a pull request."""
    name = f"{figure(found.metric).name} ({found.metric})"
    rows = "".join(
        f"| {label} | `{side.forwarder}` | {_cell(side.value)} | {_cell(side.low)} to {_cell(side.high)} |\n"
        for label, side in ((BASE, found.base), (NEW, found.new))
    )
    return (
        f"**xdplab gate: {found.sentence}**\n\n"
        f"| | forwarder | {name} | repetitions |\n| --- | --- | --- | --- |\n{rows}\n"
        f"{found.rounds} interleaved rounds, {found.clean} of them undisturbed; "
        f"a wrong verdict has a chance of at most {percent(found.wrong)}.\n"
    )


def _cell(value: float | None) -> str:
    return "-" if value is None else significant(value)


def bencher(found: GateResult) -> dict[str, dict[str, dict[str, float]]]:
    """Bencher's metric format: benchmark -> measure -> value with its bounds.

    A repetition's least and greatest bound a value; the interval bounds the slowdown, a ratio.
    """
    sides = {
        f"xdplab gate {label}": {found.metric: _metric(side.value, side.low, side.high)}
        for label, side in ((BASE, found.base), (NEW, found.new))
        if side.value is not None
    }
    if found.slowdown is not None:
        sides[f"xdplab gate {NEW}"]["slowdown"] = _metric(found.slowdown, found.low, found.high)
    return sides


def _metric(value: float, low: float | None, high: float | None) -> dict[str, float]:
    ends = {"lower_value": low, "upper_value": high}
    return {"value": value, **{name: end for name, end in ends.items() if end is not None}}


def otava(found: GateResult, time: str, commit: str) -> tuple[list[str], list[str]]:
    """Head and row of a CSV file that Apache Otava reads, one row for each gate; `time` in ISO 8601."""
    cells: Iterable[tuple[str, object]] = (
        ("time", time),
        ("commit", commit),
        ("verdict", found.verdict),
        (found.metric, found.new.value),
        (f"base_{found.metric}", found.base.value),
        ("slowdown", found.slowdown),
    )
    pairs = [(name, "" if value is None else str(value)) for name, value in cells]
    return [name for name, _ in pairs], [value for _, value in pairs]
