# SPDX-License-Identifier: Apache-2.0
"""A run that is read: what each command, the report, Robot and `xdplab.api` read it through."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdplab.analysis.answers.answer import answer
from xdplab.analysis.answers.ranking import Advice, advice
from xdplab.analysis.columns import rows_of
from xdplab.analysis.summary import summarise
from xdplab.measure import Method, make_method
from xdplab.measure.comparison import Answer
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, TrialRecord
from xdplab.results import RunFolder, find_run, trials_by_point

if TYPE_CHECKING:
    from xdplab.analysis.sweep import SweepAnalysis
    from xdplab.runner import RunOutcome


@dataclass(frozen=True)
class Run:
    """A run as typed objects; it is summarised and answered once, when first asked."""

    #: Where it lies.
    folder: Path
    record: RunRecord
    trials: Sequence[TrialRecord]
    #: How it ended, of one that was made here.
    outcome: "RunOutcome | None" = None

    @classmethod
    def of(cls, folder: RunFolder, outcome: "RunOutcome | None" = None) -> "Run":
        """A run folder.

        Raises:
            InputError: it cannot be read, or another version wrote it.
        """
        return cls(folder.path, outcome.record if outcome else folder.load(), folder.trials(), outcome)

    @classmethod
    def named(cls, name: str, results: Path) -> "Run":
        """The same by its path, or by its name in the results folder."""
        return cls.of(find_run(name, results))

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def testbed(self) -> str:
        return self.record.testbed.name

    @cached_property
    def method(self) -> Method[Any]:
        return make_method(self.record.study.method)

    @cached_property
    def points(self) -> list[PointSummary]:
        """A summary of each point, in the study's order."""
        return summarise(self.record, self.trials)

    @cached_property
    def sweeps(self) -> "list[SweepAnalysis]":
        """Which settings matter, one analysis for each path and traffic profile; none of a study that is no sweep."""
        from xdplab.analysis.sweep import analyse_sweep, is_sweep

        return analyse_sweep(self.record, self.trials) if is_sweep(self.record.study) else []

    @cached_property
    def answer(self) -> Answer:
        """The first sentence of its report."""
        return answer(self.record, self.points, self.trials, self.sweeps)

    @cached_property
    def advice(self) -> list[Advice]:
        """Which forwarder to use, by what a reader wants."""
        return [] if self.sweeps else advice(self.record, self.method, self.points)

    @cached_property
    def findings(self) -> list[str]:
        """What its method says besides, a line each; and rules that only some of its datapaths met."""
        differences = (
            rule_differences(self.record, self.trials) if any(p.pipeline != "cross" for p in self.points) else []
        )
        return [*self.method.findings(self.record, self.points), *differences]

    @cached_property
    def put_back(self) -> list[str]:
        """What forwarders and testers had left changed on ports, a line each."""
        often = Counter(sentence for trial in self.trials for sentence in trial.put_back)
        repeated = [f"{sentence}{f' ({count} times)' * (count > 1)}" for sentence, count in often.items()]
        return [*repeated, *dict.fromkeys(self.record.put_back)]

    @cached_property
    def by_point(self) -> Mapping[str, Sequence[TrialRecord]]:
        """Point id -> its trials in their order; of points without any, nothing."""
        return trials_by_point(self.trials)

    def count(self, status: str) -> int:
        return sum(point.status == status for point in self.points)

    def rows(self) -> list[dict[str, Any]]:
        """What `xdplab show --json` prints."""
        return rows_of(self.method, self.points)

    def frame(self, make: Callable[[list[dict[str, Any]]], Any]) -> Any:
        """The same as a table of your library: `run.frame(pandas.DataFrame)`, `run.frame(polars.DataFrame)`.

        Nested values are left out: what is in a cell is a number, a text, or nothing.
        """
        plain = (bool, int, float, str, type(None))
        return make([{key: value for key, value in row.items() if isinstance(value, plain)} for row in self.rows()])


# Rules of a node that the same frames met with one forwarder and not with another: where their datapaths differ.

#: Of each pair; what one datapath does otherwise, all tables behind it do.
_MOST = 6


def rule_differences(run: RunRecord, trials: Iterable[TrialRecord]) -> list[str]:
    """A sentence for each rule, of the first forwarder of a setting against each other one."""
    met: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for trial in trials:
        point = run.points.get(trial.point_id)
        rules = trial.mode.get("rules") if trial.mode else None
        if point is not None and isinstance(rules, dict) and "met" in rules:
            title = run.plain_names.get(point.forwarder.title, point.forwarder.title)
            place = met.setdefault((str(point.pipeline), point.setting), {}).setdefault(title, {})
            place.update(dict.fromkeys(map(str, rules["met"])))
    found: list[str] = []
    for (pipeline, _), by_forwarder in met.items():
        (first, ours), *others = by_forwarder.items()
        for other, theirs in others:
            found += _between(pipeline, (first, ours), (other, theirs))
    return list(dict.fromkeys(found))


def _between(pipeline: str, one: tuple[str, dict[str, None]], two: tuple[str, dict[str, None]]) -> list[str]:
    lines = [
        f"Pipeline {pipeline}: frames met this rule with {here}, and not with {there}: {rule}"
        for (here, ours), (there, theirs) in ((one, two), (two, one))
        for rule in ours
        if rule not in theirs
    ]
    more = len(lines) - _MOST
    return lines[:_MOST] + ([f"Pipeline {pipeline}: and {more} rules more between these two."] if more > 0 else [])
