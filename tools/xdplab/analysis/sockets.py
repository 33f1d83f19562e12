# SPDX-License-Identifier: Apache-2.0
"""One row per cell of a socket study: medians over repetitions, all of them kept; stages merged exactly."""

from collections.abc import Sequence
from statistics import median

from xdplab.analysis.distribution import Distribution
from xdplab.analysis.levels import two_levels
from xdplab.forwarders.base import mode_name
from xdplab.model import Model, Shown
from xdplab.model.functions import NfPoint
from xdplab.model.sockets import SocketStudy, SocketTrial, Stage, StageSummary, Workload

#: From this many on, ranges that do not overlap are a difference: of two that do not differ, four repetitions each give
#: such ranges in 2 of 70 studies, three each in 2 of 20 (two of the C(2n, n) orders).
MIN_REPETITIONS = 4
#: A case that took this share of what the tester sent might have taken more.
TOOK_ALL = 0.99
STAGES: tuple[Stage, ...] = ("driver", "stack", "complete")

#: Workloads whose figure is a share of what the tester sends.
_LIMITED: frozenset[Workload] = frozenset({"rxdrop", "l2fwd", "dropped", "pass-through", "mixed"})


class StageRow(Model):
    """Over all repetitions: extremes, and count-weighted mean and RMS about it, in us."""

    count: int
    min_us: float
    max_us: float
    peak_to_peak_us: float
    mean_us: float
    rms_us: float
    p50_us: float | None
    p99_us: float | None


class SocketRow(Model):
    """A cell."""

    workload: Workload
    case: Shown
    rate_pps: float | None
    status: str
    reason: Shown
    mode: Shown
    repetitions: int
    disturbed: int
    mpps: float | None
    mpps_range: tuple[float, float] | None
    #: Where the repetitions fall into two groups (`analysis.levels`), in words.
    two_levels_mpps: str
    figure: float | None
    figure_range: tuple[float, float] | None
    unit: Shown
    stages: dict[Stage, StageRow]
    stamps: str
    #: The figure of each repetition that cases are compared by, and its unit.
    values: tuple[float, ...]
    compared_in: Shown
    more_is_better: bool
    #: In most repetitions it took what the tester sent and might have taken more.
    took_all: bool
    #: Of a case of network functions.
    function: NfPoint | None = None

    @property
    def mostly_disturbed(self) -> bool:
        """True when more than half of the repetitions are."""
        return 2 * self.disturbed > self.repetitions


def socket_rows(study: SocketStudy, trials: Sequence[SocketTrial]) -> list[SocketRow]:
    """In the study's order."""
    cases = study.all_cases()
    titles = [case.title for case in cases]
    functions = {case.title: case.function for case in cases}
    groups: dict[tuple[Workload, str, float | None], list[SocketTrial]] = {}
    for trial in trials:
        groups.setdefault((trial.workload, trial.case, trial.rate_pps), []).append(trial)
    order = sorted(groups, key=lambda key: (study.workloads.index(key[0]), titles.index(key[1]), key[2] or 0))
    return [_row(*key, groups[key]).model_copy(update={"function": functions[key[1]]}) for key in order]


def stage_distribution(trials: Sequence[SocketTrial], stage: Stage) -> Distribution:
    """All samples of a stage."""
    return Distribution.merged(trial.stages[stage].hdr for trial in trials if stage in trial.stages)


def figure_of(trial: SocketTrial) -> float | None:
    """What a trial is compared by: its figure, the median of the whole way in us, or Mpps; None without."""
    if trial.figure is not None:
        return trial.figure
    if trial.stages:
        return Distribution.merged([trial.stages["complete"].hdr]).percentile_us(50)
    return None if trial.pps is None else trial.pps / 1e6


def more_is_better(workload: Workload) -> bool:
    """Of frames and requests; not of latencies, nor of the seconds that a job takes for a round."""
    return workload not in ("stages", "job")


def _row(workload: Workload, case: str, rate: float | None, trials: list[SocketTrial]) -> SocketRow:
    measured = [trial for trial in trials if trial.pps is not None or trial.figure is not None]
    figures = [trial.figure for trial in measured if trial.figure is not None]
    rates = [trial.pps / 1e6 for trial in measured if trial.pps is not None]
    levels = two_levels(rates)
    bad = [trial for trial in trials if trial.status in ("failed", "unsupported")]
    status = bad[0].status if bad and not measured else "partial" if bad else "ok"
    stamped = {name: sum(trial.stamps.get(name, 0) for trial in measured) for name in ("hardware", "software")}
    full = [trial.pps / trial.sent_pps >= TOOK_ALL for trial in measured if trial.pps and trial.sent_pps]
    unit = measured[-1].unit if measured else ""
    return SocketRow(
        workload=workload,
        case=case,
        rate_pps=rate,
        status=status,
        reason=bad[0].reason if bad else "",
        mode=mode_name(measured[-1].mode) if measured else "",
        repetitions=len(measured),
        disturbed=sum(trial.status == "disturbed" for trial in measured),
        mpps=median(rates) if rates and workload != "stages" else None,
        mpps_range=(min(rates), max(rates)) if rates and workload != "stages" else None,
        two_levels_mpps=levels.text() if levels and workload != "stages" else "",
        figure=median(figures) if figures else None,
        unit=unit,
        figure_range=(min(figures), max(figures)) if figures else None,
        stages={name: _stage(name, measured) for name in STAGES} if any(trial.stages for trial in measured) else {},
        values=tuple(value for value in map(figure_of, measured) if value),
        compared_in="µs, p50" if workload == "stages" else unit or "Mpps",
        more_is_better=more_is_better(workload),
        took_all=workload in _LIMITED and 2 * sum(full) > len(full),
        stamps=", ".join(name for name, count in stamped.items() if count),
    )


def _stage(name: Stage, trials: Sequence[SocketTrial]) -> StageRow:
    found: list[StageSummary] = [trial.stages[name] for trial in trials if name in trial.stages]
    count = sum(stage.count for stage in found)
    mean = sum(stage.mean_ns * stage.count for stage in found) / count
    # the variance about the common mean, from each trial's own mean and RMS
    variance = sum((stage.rms_ns**2 + (stage.mean_ns - mean) ** 2) * stage.count for stage in found) / count
    low, high = min(stage.min_ns for stage in found), max(stage.max_ns for stage in found)
    whole = stage_distribution(trials, name)
    return StageRow(
        count=count,
        min_us=low / 1000,
        max_us=high / 1000,
        peak_to_peak_us=(high - low) / 1000,
        mean_us=mean / 1000,
        rms_us=variance**0.5 / 1000,
        p50_us=whole.percentile_us(50),
        p99_us=whole.percentile_us(99),
    )
