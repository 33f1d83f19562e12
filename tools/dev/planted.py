# SPDX-License-Identifier: Apache-2.0
"""Sweeps with one dominating setting, one middle one and three idle ones, for judging what is said of settings."""

import itertools
from collections.abc import Mapping

import numpy as np

from dev.simulate import a_point, a_run, a_trial, lognormal
from xdplab.model import RunRecord, TrialRecord

DOMINATING, MIDDLE, IDLE = "dominating", "middle", ("idle_a", "idle_b", "idle_c")
#: How many times slower the default level, 0, of each is; the others do nothing.
EFFECTS = {DOMINATING: 30.0, MIDDLE: 1.5}
_FASTEST_US = 10.0
#: Standard deviation of the logarithm: between configurations, between their repetitions, between samples.
_CONFIGURATION, _REPETITION, _SAMPLE = 0.02, 0.03, 0.2


def planted(
    seed: int, *, outliers_above_us: float | None = None, slow_noise: float = 0.0, noise: float = 0.0,
    repetitions: int = 3, effects: Mapping[str, float] = EFFECTS,
) -> tuple[RunRecord, list[TrialRecord]]:  # fmt: skip
    """A run over all 32 combinations.

    Args:
        seed: of everything random.
        outliers_above_us: the study's outlier rule; the default configuration lies above 200.
        slow_noise: more noise between the repetitions of what the dominating setting makes slow.
        noise: more noise between all repetitions, as a standard deviation of the logarithm.
        repetitions: of each configuration.
        effects: as `EFFECTS`.
    """
    rng = np.random.default_rng(seed)
    names = (DOMINATING, MIDDLE, *IDLE)
    points, trials = [], []
    for values in itertools.product((0, 1), repeat=len(names)):
        levels = dict(zip(names, values, strict=True))
        point = a_point(levels)
        points.append(point)
        own = np.log(_FASTEST_US) + sum(np.log(times) for name, times in effects.items() if not levels[name])
        own += _CONFIGURATION * rng.normal()
        spread = np.hypot(_REPETITION, np.hypot(noise, 0.0 if levels[DOMINATING] else slow_noise))
        for repetition in range(repetitions):
            median_us = float(np.exp(own + spread * rng.normal()))
            values_us = lognormal(rng, median_us, _SAMPLE * median_us, 100)
            trials.append(a_trial(point, repetition, values_us))
    sweep = {} if outliers_above_us is None else {"outliers_above_us": outliers_above_us}
    title = "One dominating setting, one middle, three idle"
    return a_run(f"planted-{seed}", title, names, points, repetitions, sweep), trials
