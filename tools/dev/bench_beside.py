# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev bench-beside`: whether a forwarder that takes turns beside others is slower than one of its own.

Within one start of it, so that neither starts nor machines differ: turns while it is the only one, turns between those
of the others, and turns one after another while the others stand beside it asleep. In every second round the order is
the opposite one, the others end before it, and the turns of its own come last.
"""

import contextlib
import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from xdplab import app
from xdplab.model import InputError, Model, TrialRecord
from xdplab.runner import Listener, StudyRun
from xdplab.runner.plan import Repetition
from xdplab.runner.run import _start_together
from xdplab.runner.session import PointSession
from xdplab.runner.turns import has_system_setting
from xdplab.stats import ratio_interval

KINDS = ("alone", "between", "asleep beside")


class Row(Model):
    """p50 at one load, over that of the same start while it was the only one."""

    load: str
    kind: str
    #: In us, median over rounds of the median over turns.
    p50_us: float
    #: Geometric mean over rounds, with its 99 % interval; None with fewer than three rounds.
    ratio: float
    low: float | None
    high: float | None


def bench_beside(forwarders: Sequence[str], rounds: int, turns: int, listener: Listener) -> list[Row]:
    """The first of `forwarders` beside the others, in a study like `latency`.

    Raises:
        InputError: fewer than two, or one that cannot be measured here.
    """
    if len(forwarders) < 2:
        raise InputError("bench-beside: name two forwarders or more, the one that is looked at first")
    changes = {"forwarders": list(forwarders), "answer": None, "repetitions": rounds, "method.turns": 3 * turns}
    study = app.read_study(app.find_study("latency"), changes)
    prepared = app.prepare(study)
    refused = app.survey(prepared, listener)
    if refused:
        why = refused if isinstance(refused, str) else "; ".join(sorted(set(refused.values())))
        raise InputError(f"bench-beside: {why}")
    if has_system_setting(prepared.plan, prepared.plan.points):
        raise InputError("bench-beside: a forwarder has a setting of the whole machine, so it stands alone")
    with tempfile.TemporaryDirectory(prefix="xdplab-bench-") as place, patch.object(app, "StudyRun", _Beside):
        folder, outcome = app.run_study(prepared, listener, Path(place))
        if wrong := outcome.error or outcome.interrupted:
            raise wrong
        return _rows(folder.trials(), next(iter(outcome.record.points)), turns)


def _rows(trials: Sequence[TrialRecord], point_id: str, turns: int) -> list[Row]:
    figures: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for each in trials:
        if each.point_id != point_id or each.turn is None or each.result is None or each.purpose != "measure":
            continue
        kind = order_of(each.repetition)[each.turn // turns]
        latency = each.result.streams[0].latency
        if latency is not None:
            figures[each.clause or "load", each.repetition, kind].append(latency.percentile_ns(50) / 1e3)
    medians = {key: statistics.median(values) for key, values in figures.items()}
    rows = []
    for load in dict.fromkeys(load for load, _, _ in medians):
        whole = [n for n in sorted({n for _, n, _ in medians}) if all((load, n, kind) in medians for kind in KINDS)]
        for kind in KINDS:
            own = [medians[load, number, kind] for number in whole]
            found = ratio_interval([us / medians[load, n, KINDS[0]] for us, n in zip(own, whole, strict=True)])
            if found is not None:
                p50_us = statistics.median(own)
                rows.append(Row(load=load, kind=kind, p50_us=p50_us, ratio=found.ratio, low=found.low, high=found.high))
    return rows


def order_of(number: int) -> tuple[str, ...]:
    """Of a round."""
    return KINDS if number % 2 == 0 else KINDS[::-1]


class _Beside(StudyRun):
    """A run whose rounds are those of the module."""

    def _take_turns(self, repetitions: Sequence[Repetition], number: int, of: int, left_s: float) -> None:
        first = next(each for each in repetitions if each.point.id == self._plan.points[0].id)
        rest = [each for each in repetitions if each is not first]
        chance = random.Random(f"{first.number}:beside")  # noqa: S311 - an order
        turns = self._plan.method.turns // len(KINDS)
        with contextlib.ExitStack() as stack:
            others_end = stack.enter_context(contextlib.ExitStack())
            [mine] = self._started(stack, [first], repetitions)
            others: list[PointSession] = []
            for kind in order_of(first.number):
                self._listener.progress(f"round {first.number + 1}: {kind}   [left {left_s:.0f} s]")
                if kind == KINDS[0]:
                    others_end.close()
                elif not others:
                    others = self._started(others_end, rest, repetitions)
                    for other in others:
                        others_end.callback(other.abandon)  # with turns left
                for _ in range(turns):
                    if kind == "between":
                        for other in chance.sample(others, len(others)):
                            other.step()
                    mine.step()

    def _started(
        self, stack: contextlib.ExitStack, wanted: Sequence[Repetition], group: Sequence[Repetition]
    ) -> list[PointSession]:
        sessions = []
        for repetition in wanted:
            for session in self._beside(repetition, group):
                stack.callback(session.end)
                session.prepare()
                sessions.append(session)
        _start_together(sessions)
        return sessions


def text(rows: Sequence[Row]) -> str:
    """A line for each."""
    return "\n".join(
        f"{row.load:12} {row.kind:14} {row.p50_us:7.2f} us   {row.ratio:.3f} times"
        + (f" ({row.low:.3f} to {row.high:.3f})" if row.low is not None else "")
        for row in rows
    )
