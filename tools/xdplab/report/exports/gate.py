# SPDX-License-Identifier: Apache-2.0
"""The verdict of a gate, for pull requests and for programs that follow benchmarks."""

from xdplab.analysis.gate import BASE, NEW, GateResult
from xdplab.model.digits import percent, significant
from xdplab.report.exports.bencher import metric
from xdplab.report.exports.junit import one_case

#: Verdict -> what JUnit calls it.
_JUNIT = {"pass": "", "slower": "failure", "broken": "failure", "undecided": "error", "unsupported": "skipped"}


def junit(found: GateResult) -> str:
    """JUnit XML: a suite of one test."""
    name = f"{found.new.forwarder} against {found.base.forwarder}"
    return one_case("xdplab gate", name, _JUNIT[found.verdict], found.sentence)


def markdown(found: GateResult) -> str:
    """A summary for a pull request."""
    name = f"{found.figure} ({found.metric})"
    shown = _counted if found.seeds else _measured
    rows = "".join(
        f"| {label} | `{side.forwarder}` | {shown(side.value)} | {shown(side.low)} to {shown(side.high)} |\n"
        for label, side in ((BASE, found.base), (NEW, found.new))
    )
    return (
        f"**xdplab gate: {found.sentence}**\n\n"
        f"| | forwarder | {name} | repetitions |\n| --- | --- | --- | --- |\n{rows}\n"
        f"{_basis(found)}\n{_changes(found)}"
    )


def _changes(found: GateResult) -> str:
    """Where a difference of instructions lies; with the rest it is a page of at most 20 lines."""
    if not found.changes:
        return ""
    rows = "".join(
        f"| {each.layer} | {each.change:+,.1f} | {', '.join(_function(*item) for item in each.functions.items())} |\n"
        for each in found.changes
    )
    return f"\n| layer | instructions per frame, {NEW} less {BASE} | most of it |\n| --- | --- | --- |\n{rows}"


def _function(name: str, change: float) -> str:
    return f"`{name}` {change:+,.0f}"


def ktap(found: GateResult) -> str:
    """KTAP (linux/Documentation/dev-tools/ktap.rst), which CI of the kernel reads: one test."""
    name = f"xdplab gate {found.new.forwarder} against {found.base.forwarder}".replace("#", "")
    outcome = {"pass": f"ok 1 {name}", "unsupported": f"ok 1 {name} # SKIP"}.get(found.verdict, f"not ok 1 {name}")
    more = "".join(f"# {each.layer} {each.change:+,.1f}\n" for each in found.changes)
    return f"KTAP version 1\n1..1\n# {found.sentence}\n{more}{outcome}\n"


def _basis(found: GateResult) -> str:
    if found.seeds:
        return f"{found.seeds} emulated guests of each, whose clock counts instructions: no time, and no noise."
    rounds = f"{found.rounds} rounds in turns"
    return f"{rounds}; a wrong verdict by the figure has a chance of at most {percent(found.wrong)}."


def _measured(value: float | None) -> str:
    return "-" if value is None else significant(value)


def _counted(value: float | None) -> str:
    """Not rounded to a change that is found."""
    return "-" if value is None else f"{value:,.1f}"


def bencher(found: GateResult) -> dict[str, dict[str, dict[str, float]]]:
    """Bencher's metric format: benchmark -> measure -> value with its bounds.

    A repetition's least and greatest bound a value; the interval bounds the slowdown, a ratio.
    """
    sides = {
        f"xdplab gate {label}": {found.metric: metric(side.value, side.low, side.high)}
        for label, side in ((BASE, found.base), (NEW, found.new))
        if side.value is not None
    }
    if found.slowdown is not None:
        sides[f"xdplab gate {NEW}"]["slowdown"] = metric(found.slowdown, found.low, found.high)
    return sides
