# SPDX-License-Identifier: Apache-2.0
"""Stages of a frame's way: of one trial, and over all repetitions, merged exactly."""

from collections.abc import Sequence

from pydantic import Field

from xdplab.measure.distribution import Distribution, carried_by
from xdplab.measure.figure import CountedFigures, PointFigures
from xdplab.methods.shared.counting import counting_trials
from xdplab.model import Model, TrialRecord
from xdplab.model.base import Count
from xdplab.model.histogram import Histogram
from xdplab.model.published import Stage
from xdplab.results import trials_by_point

STAGES: tuple[Stage, ...] = ("driver", "stack", "complete")


class StageSummary(Model):
    """One stage of one trial."""

    #: Frames.
    count: int = Field(ge=1)
    #: The shortest.
    min_ns: int
    #: The longest.
    max_ns: int
    #: Arithmetic mean.
    mean_ns: float
    #: Root mean square of what they differ from it.
    rms_ns: float
    #: All of them, as in `LatencySummary`.
    hdr: Histogram


class StageSummaries(Model):
    """Each stage, from the departure to its end."""

    #: In the driver.
    driver: StageSummary
    #: In the stack, up to the application.
    stack: StageSummary
    #: The whole way.
    complete: StageSummary


class Stamps(Model):
    """How many frames were stamped by whom."""

    #: By the card, at their arrival.
    hardware: Count
    #: By the tester, at their departure.
    software: Count
    #: By nobody: these are not in the stages.
    unstamped: Count


class StagesRecord(CountedFigures):
    """Of a trial: when its frames were where."""

    #: Each.
    stages: StageSummaries
    #: Frames by who took their time.
    stamps: Stamps


class StageRow(Model):
    """Over all repetitions: extremes, and count-weighted mean and RMS about it, in us."""

    #: Frames.
    count: int
    #: The shortest.
    min_us: float
    #: The longest.
    max_us: float
    #: `max_us` less `min_us`.
    peak_to_peak_us: float
    #: Mean over all frames.
    mean_us: float
    #: Root mean square of what they differ from it.
    rms_us: float
    #: Median of all frames; None where there are none.
    p50_us: float | None
    #: 99th percentile of all frames; None where fewer than ten independent ones lie above it.
    p99_us: float | None


class StagesFigures(PointFigures):
    """Each stage, and whose time stamps they are of."""

    #: Stage -> its figures.
    stages: dict[Stage, StageRow] = {}
    #: `hardware` (the card's), `software` (of the departure, in the frame), or both.
    stamps: str = ""


def of_trial(trial: TrialRecord, stage: Stage) -> StageSummary:
    found: StageSummary = getattr(StagesRecord.of(trial).stages, stage)
    return found


def stage_distribution(trials: Sequence[TrialRecord], point_id: str, stage: Stage) -> Distribution:
    own = counting_trials(trials_by_point(trials).get(point_id, ()))
    return Distribution.merged(of_trial(trial, stage).hdr for trial in own)


def stage_rows(trials: Sequence[TrialRecord]) -> dict[Stage, StageRow]:
    """Of the trials of one point."""
    return {stage: _row([(of_trial(trial, stage), _stamped_pps(trial)) for trial in trials]) for stage in STAGES}


def _stamped_pps(trial: TrialRecord) -> float:
    return sum(stream.achieved_pps for stream in trial.result.streams) if trial.result else 0.0


def _row(pairs: Sequence[tuple[StageSummary, float]]) -> StageRow:
    found = [stage for stage, _ in pairs]
    count = sum(stage.count for stage in found)
    mean = sum(stage.mean_ns * stage.count for stage in found) / count
    # the variance about the common mean, from each trial's own mean and RMS
    variance = sum((stage.rms_ns**2 + (stage.mean_ns - mean) ** 2) * stage.count for stage in found) / count
    low, high = min(stage.min_ns for stage in found), max(stage.max_ns for stage in found)
    whole = Distribution.merged(stage.hdr for stage in found)
    parts = [(Distribution.merged([stage.hdr]), pps) for stage, pps in pairs]
    return StageRow(
        count=count,
        min_us=low / 1000,
        max_us=high / 1000,
        peak_to_peak_us=(high - low) / 1000,
        mean_us=mean / 1000,
        rms_us=variance**0.5 / 1000,
        p50_us=whole.percentile_us(50),
        p99_us=carried_by(parts, 99, whole.percentile_us(99)),
    )
