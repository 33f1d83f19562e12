# SPDX-License-Identifier: Apache-2.0
"""A sweep as a table: one row per configuration, one column per setting that varies, latency statistics next to them.

Rows of one table share path, pipeline and traffic: a one-way latency and a round trip, or two loads, never meet.
"""

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdplab.analysis.summary import loss_of, trials_used
from xdplab.measure import Method, make_method
from xdplab.measure.distribution import Distribution, distribution, if_enough_samples
from xdplab.model import Model, Pipeline, Point, RunRecord, TrialRecord
from xdplab.model.design import TESTER, same_level
from xdplab.model.digits import percent
from xdplab.model.study import RATES, Scalar, unusual
from xdplab.model.trial import REPORTED_LOSS
from xdplab.results import trials_by_point

#: Level of a setting that a configuration has not got: an option of another forwarder.
ABSENT = "-"
#: Relative width of a bucket of a histogram of three digits.
RESOLUTION = 0.002
#: Fewest cells of a group that tell what it shares, and how often the median is taken out of rows and blocks.
_MIN_BLOCK, _POLISHES = 6, 10
#: Statistics that clusters are made of; the study found that minimum and maximum spoil the grouping.
FEATURES = ("mean_us", "median_us", "std_us", "q1_us", "q3_us")

_TAILS = {"99": 99.0, "999": 99.9}


class Statistics(Model):
    """Of the latencies of a configuration, or of one repetition of it, from the merged histogram."""

    mean_us: float
    median_us: float
    std_us: float
    q1_us: float
    q3_us: float
    min_us: float
    max_us: float
    #: None where too many frames were lost; of a configuration also where fewer than ten independent samples lie above.
    p99_us: float | None
    p999_us: float | None
    samples: int

    @classmethod
    def of(cls, found: Distribution, loss_ratio: float = 0.0) -> "Statistics | None":
        """None without samples. Percentiles are ranks of what was sent: a lost frame has infinite latency."""
        mean, std = found.mean_us, found.std_us
        if mean is None or std is None:
            return None
        ranks = [percent / max(1e-9, 1 - loss_ratio) for percent in (25, 50, 75, 99, 99.9)]
        q1, median, q3 = (found.percentile_us(min(rank, 100.0)) or 0.0 for rank in ranks[:3])
        p99, p999 = (found.percentile_us(rank) if rank <= 100 else None for rank in ranks[3:])
        return cls(
            mean_us=mean,
            median_us=median,
            std_us=std,
            q1_us=q1,
            q3_us=q3,
            min_us=float(found.values_ns[0]) / 1000,
            max_us=float(found.values_ns[-1]) / 1000,
            p99_us=p99,
            p999_us=p999,
            samples=found.count,
        )

    @property
    def features(self) -> list[float]:
        """The five statistics of `FEATURES`, in us."""
        return [getattr(self, name) for name in FEATURES]


class Factor(Model):
    """A setting that varies, its levels (numbers ascending), and the level it has by default."""

    name: str
    levels: tuple[Scalar, ...]
    default: Scalar

    @property
    def numeric(self) -> bool:
        """True when all levels are numbers, so that "at least" means something."""
        return all(isinstance(level, int | float) and not isinstance(level, bool) for level in self.levels)


class Configuration(Model):
    """One configuration that was measured."""

    point_id: str
    title: str
    levels: dict[str, Scalar]
    statistics: Statistics
    by_repetition: dict[int, Statistics]
    #: Repetition -> number of the group that it stood in side by side with others, where it did.
    groups: dict[int, int] = {}
    loss_ratio: float
    #: Frames, over all repetitions.
    sent: int = 0


@dataclass(frozen=True)
class Table:
    """Configurations of one path, pipeline and traffic, and the settings in which they differ."""

    title: str
    quantity: str
    #: Time between two probes, in us.
    interval_us: float
    factors: tuple[Factor, ...]
    rows: tuple[Configuration, ...]
    #: The statistic that stands for a configuration: `mean`, `median` or `p99`.
    statistic: str = "median"
    #: Configurations that are left out, for too few samples lie above their p99.
    unknown: int = 0

    def value_us(self, of: Configuration | Statistics) -> float:
        """That statistic of a configuration or of a repetition, in us, at least 1 ns; NaN where it is not known."""
        found = of.statistics if isinstance(of, Configuration) else of
        value = getattr(found, f"{self.statistic}_us")
        return math.nan if value is None else max(float(value), 1e-3)

    @property
    def logs(self) -> np.ndarray:
        """Logarithm of that statistic, shape (rows, repetitions); NaN where it is not known."""
        missing = np.full((len(self.rows), len(self.repetitions)), math.nan)
        for number, row in enumerate(self.rows):
            for at, repetition in enumerate(self.repetitions):
                if repetition in row.by_repetition:
                    missing[number, at] = math.log(self.value_us(row.by_repetition[repetition]))
        return missing

    @property
    def blocks(self) -> list[np.ndarray]:
        """Which cells of `logs` were measured side by side: of each group a mask of their shape."""
        cells = np.array([[row.groups.get(number, -1) for number in self.repetitions] for row in self.rows])
        return [cells == group for group in sorted({g for row in self.rows for g in row.groups.values()})]

    @property
    def shared(self) -> np.ndarray:
        """What a repetition has, or in its place a group: a machine that drifts, a slow minute; shape as `logs`.

        Median polish (Tukey 1977): what they have in the median that their rows have not in other repetitions. A group
        of few cells takes the value of its repetition, because its own median would be mostly noise.
        """
        logs, blocks = self.logs, self.blocks
        found = np.zeros_like(logs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a row, or a repetition, that is nowhere known
            for _ in range(_POLISHES):
                left = logs - np.nanmedian(logs - found, axis=1, keepdims=True)
                found = np.broadcast_to(np.nanmedian(left, axis=0), logs.shape).copy()
                for block in blocks:
                    if np.isfinite(left[block]).sum() >= _MIN_BLOCK:
                        found[block] = np.nanmedian(left[block])
        return found

    @property
    def levelled(self) -> np.ndarray:
        """Logarithms of the figures (points), without what each group shares."""
        return np.asarray(self.logs - self.shared)

    @property
    def of_groups(self) -> frozenset[str]:
        """Settings of which each group has one level, and groups have several: those of the whole machine."""
        groups = [np.flatnonzero(block.any(axis=1)) for block in self.blocks]
        found = set()
        for factor in self.factors:
            levels = [{_key(self.rows[at].levels[factor.name]) for at in rows} for rows in groups]
            if all(len(each) == 1 for each in levels) and len(set().union(*levels)) > 1:
                found.add(factor.name)
        return frozenset(found)

    @property
    def repetitions(self) -> tuple[int, ...]:
        return tuple(sorted({number for row in self.rows for number in row.by_repetition}))

    def only(self, keep: Sequence[bool]) -> "Table":
        """The rows that are kept, and the settings that still vary among them."""
        rows = tuple(row for row, kept in zip(self.rows, keep, strict=True) if kept)
        return Table(self.title, self.quantity, self.interval_us, _factors(rows, self.factors), rows, self.statistic)


def log_features(statistics: Iterable[Statistics]) -> np.ndarray:
    """Natural logarithms of `FEATURES`, shape (n, 5); 0 counts as 1 ns."""
    found = np.array([each.features for each in statistics], dtype=float).reshape(-1, 5)
    return np.asarray(np.log(np.maximum(found, 1e-3)))


def tables(run: RunRecord, trials: Iterable[TrialRecord]) -> list[Table]:
    """One table for each path, pipeline and traffic profile of a run, of the configurations that were measured."""
    method = make_method(run.study.method)
    by_point = trials_by_point(trials)
    groups: dict[str, list[Point]] = defaultdict(list)
    for point in run.points.values():
        groups[_group(point)].append(point)
    found = []
    for title, points in groups.items():
        names = {point.forwarder.name for point in points}
        settings = {point.id: _settings(point, len(names) > 1) for point in points}
        # what varies is asked of all that was planned: a level that failed everywhere still is one
        planned = _varying(settings)
        rows = []
        for point in points:
            levels = {name: settings[point.id].get(name, ABSENT) for name in planned}
            row = _row(method, point, levels, by_point.get(point.id, ()))
            if row is not None:
                rows.append(row)
        factors = tuple(
            Factor(name=name, levels=_ordered(levels), default=_default(run, name, levels))
            for name, levels in planned.items()
        )
        first = points[0]
        interval_us = 1e6 / run.traffic(first).probes_per_s
        statistic = run.study.sweep.statistic if run.study.sweep else "median"
        kept = tuple(row for row in rows if _known(row, f"{statistic}_us"))
        unknown = len(rows) - len(kept)
        found.append(Table(title, first.path.quantity, interval_us, _factors(kept, factors), kept, statistic, unknown))
    return [table for table in found if table.rows or table.unknown]


def _known(row: Configuration, name: str) -> bool:
    return all(
        any(getattr(each, name) is not None for each in found)
        for found in ([row.statistics], row.by_repetition.values())
    )


def _group(point: Point) -> str:
    traffic = point.traffic
    load = traffic.load_share and f", load {traffic.load_share:.0%}"
    stated = traffic.stated_load_pps
    load = load or (f", load {stated:,.10g} pps" if stated else "")
    by = "" if point.tester_options or not point.tester else f", by {point.tester}"
    work = {} if point.pipeline == Pipeline() else {"pipeline": point.pipeline}
    more = "".join(f", {name}={value}" for name, value in {**work, **unusual(traffic, *RATES)}.items())
    return f"path {point.path.value}, {traffic.frame_bytes} bytes, probes {traffic.probes_text}{load}{more}{by}"


def _settings(point: Point, several: bool) -> dict[str, Scalar]:
    """Everything about a configuration that may vary: forwarder, its options, those of the tester, knobs."""
    name = point.forwarder.name
    prefix = f"{name}." if several else ""
    options = {f"{prefix}{key}": value for key, value in point.forwarder.options.items()}
    tester = {f"{TESTER}.{key}": value for key, value in point.tester_options.items()}
    return {"forwarder": name, **options, **tester, **point.knobs}


def _varying(settings: dict[str, dict[str, Scalar]]) -> dict[str, list[Scalar]]:
    """Setting -> its levels in the order of the plan, for those that have more than one."""
    levels: dict[str, list[Scalar]] = {}
    names = list(dict.fromkeys(name for values in settings.values() for name in values))
    for name in names:
        seen = [values.get(name, ABSENT) for values in settings.values()]
        levels[name] = list({_key(level): level for level in seen}.values())
    return {name: values for name, values in levels.items() if len(values) > 1}


def _key(level: Scalar) -> tuple[str, Scalar]:
    """True and 1 are two levels."""
    return type(level).__name__, level


def _ordered(levels: Sequence[Scalar]) -> tuple[Scalar, ...]:
    numbers = [level for level in levels if isinstance(level, int | float) and not isinstance(level, bool)]
    return tuple(sorted(numbers)) if len(numbers) == len(levels) else tuple(levels)


def _default(run: RunRecord, name: str, levels: Sequence[Scalar]) -> Scalar:
    """As the study says, else the level that the study lists first: a design may begin with another one."""
    study = run.study
    owner, _, bare = name.rpartition(".")
    defaults = study.sweep.defaults if study.sweep else {}
    wanted: list[Scalar] = [level for key, level in defaults.items() if key == name or key.rpartition(".")[2] == bare]
    options = [each for forwarder, each in study.options.items() if owner in ("", forwarder)]
    for listed in [study.tester_options] if owner == TESTER else [*options, study.knobs]:
        wanted += listed.get(bare, ())
    wanted += [forwarder.name for forwarder in study.forwarders] if name == "forwarder" else []
    found = (level for want in wanted for level in levels if same_level(level, want))
    return next(found, next(level for level in levels if level != ABSENT))


def _factors(rows: Sequence[Configuration], factors: Sequence[Factor]) -> tuple[Factor, ...]:
    found = []
    for factor in factors:
        seen = [level for level in factor.levels if any(row.levels[factor.name] == level for row in rows)]
        there = [level for level in seen if level != ABSENT]
        if len(there) > 1:
            default = factor.default if factor.default in there else there[0]
            found.append(Factor(name=factor.name, levels=tuple(seen), default=default))
    return tuple(found)


def _row(
    method: Method[Any], point: Point, levels: dict[str, Scalar], trials: Sequence[TrialRecord]
) -> Configuration | None:
    chosen = trials_used(method, trials)
    loss_ratio = loss_of(chosen) or 0.0
    merged = Statistics.of(distribution(chosen), loss_ratio)
    if merged is None:
        return None
    tails = {
        f"p{name}_us": if_enough_samples(chosen, at, getattr(merged, f"p{name}_us")) for name, at in _TAILS.items()
    }
    by_number: dict[int, list[TrialRecord]] = defaultdict(list)
    for trial in chosen:
        by_number[trial.repetition].append(trial)
    repetitions = {number: Statistics.of(distribution(own), loss_of(own) or 0.0) for number, own in by_number.items()}
    tester = {f"{TESTER}.{key}": value for key, value in point.tester_options.items()}
    knobs = " ".join(f"{name}={value}" for name, value in {**tester, **point.knobs}.items())
    return Configuration(
        point_id=point.id,
        title=f"{point.forwarder.title} {knobs}".strip(),
        levels=levels,
        statistics=merged.model_copy(update=tails),
        by_repetition={number: found for number, found in repetitions.items() if found is not None},
        groups={trial.repetition: trial.group for trial in chosen if trial.group is not None},
        loss_ratio=loss_ratio,
        sent=sum(trial.result.sent for trial in chosen if trial.result),
    )


# Configurations that lost frames: a setting that loses the slow ones is no faster for it.

#: Of all configurations together: one that lost more frames than the default by chance is one of them.
_CHANCE = 0.01


def lossy(table: Table) -> dict[str, str]:
    """Point id -> why: it lost more than one frame of a thousand, or more than the default by more than chance."""
    defaults = {factor.name: factor.default for factor in table.factors}
    default = next((row for row in table.rows if row.levels == defaults), None)
    found = {}
    for row in table.rows:
        if row.loss_ratio > REPORTED_LOSS:
            found[row.point_id] = f"lost more than {percent(REPORTED_LOSS)} of the frames"
        elif default and _loses_more(row, default, _CHANCE / len(table.rows)):
            found[row.point_id] = "lost more frames than the default configuration"
    return found


def _loses_more(row: Configuration, default: Configuration, chance: float) -> bool:
    """Whether the frames that both lost are shared out more unevenly than those that they sent."""
    from scipy.special import bdtrc

    lost, others = (round(each.loss_ratio * each.sent) for each in (row, default))
    if row is default or not lost:
        return False
    return float(bdtrc(lost - 1, lost + others, row.sent / (row.sent + default.sent))) < chance
