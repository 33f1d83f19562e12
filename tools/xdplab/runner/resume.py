# SPDX-License-Identifier: Apache-2.0
"""A run goes on where it was begun: figures of two machines, kernels or programs must not become one pair."""

import hashlib
from collections import Counter
from collections.abc import Iterable

from xdplab.model import InputError, RunRecord, TrialRecord
from xdplab.model.base import flat
from xdplab.model.run import Resumption
from xdplab.runner.plan import Plan
from xdplab.runner.turns import instances_of

#: Parts of the environment that may differ between the parts of a run, and why; all else in it can change a number.
IGNORED_ON_RESUME = {
    "memory_kib": "what the kernel keeps for itself differs from boot to boot",
    "git_revision": "the programs that measure and forward have versions of their own",
    "versions.robotframework": "starts runs",
    "versions.numpy": "reads what was measured, and is not part of measuring it",
    "versions.scipy": "reads what was measured",
    "versions.pydantic": "writes what was measured",
}
_ABSENT = "absent"


def completed(trials: Iterable[TrialRecord], plan: Plan) -> frozenset[tuple[str, int]]:
    """Point and number of each repetition that a run which goes on does not make again."""
    ends = Counter((trial.point_id, trial.repetition) for trial in trials if trial.purpose == "end")
    starts = {point.id: instances_of(plan, point) for point in plan.points}
    return frozenset(each for each, count in ends.items() if count >= starts.get(each[0], 1))


def resumed(earlier: RunRecord, now: RunRecord) -> RunRecord:
    """The head of a run that goes on: the environment of its beginning, and what differs from it today.

    Raises:
        InputError: something differs that can change a number.
    """
    before, after = _facts(earlier), _facts(now)
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    changed = {key: _differing(before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in keys}
    matter = [key for key in keys if key not in IGNORED_ON_RESUME]
    if matter:
        first, more = matter[0], matter[1:]
        was, became = changed[first]
        others = f"; so do {', '.join(more)}" if more else ""
        raise InputError(
            f"run {earlier.run_id}: it cannot be resumed: on testbed {now.testbed.name} {first} differs: {was!r} when "
            f"it began, {became!r} now{others}; put that back as it was, or start a new run"
        )
    part = Resumption(started=now.started, differences=changed)
    first_part = {"started": earlier.started, "environment": earlier.environment, "wall_s": earlier.wall_s}
    return now.model_copy(update={**first_part, "resumed": (*earlier.resumed, part)})


def _facts(run: RunRecord) -> dict[str, str]:
    """Dotted key -> value, of everything that says where and with what a run measures."""
    described = run.model_dump(mode="json", include={"testbed", "layout", "rx_program"})
    digest = hashlib.sha256(" ".join(sorted(run.points)).encode()).hexdigest()
    facts = {**run.environment.facts(), **flat(described), "points": f"{len(run.points)} with digest {digest[:12]}"}
    return {key: str(value) for key, value in facts.items()}


def _differing(was: str, became: str) -> tuple[str, str]:
    """The two values; of texts of several lines the first line that is not the same."""
    one, two = was.splitlines(), became.splitlines()
    if len(one) <= 1 and len(two) <= 1:
        return was, became
    pairs = zip(one + [_ABSENT] * len(two), two + [_ABSENT] * len(one), strict=False)
    return next((pair for pair in pairs if pair[0] != pair[1]), (was, became))
