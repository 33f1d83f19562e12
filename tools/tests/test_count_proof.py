# SPDX-License-Identifier: Apache-2.0
"""What a forwarder counts, against what was sent: to the frame, in each direction, and again where frames were lost."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter

from xdplab.model import PointFailed, TrialSpec
from xdplab.model.pipeline import PipelineText
from xdplab.runner.work_proof import prove_counts, prove_rules

#: Frames sent, and come out, of one direction.
Went = tuple[int, int]
WHOLE: Went = (1000, 1000)
PIPELINE: TypeAdapter[Any] = TypeAdapter(PipelineText)


class Bench:
    """A tester and a forwarder: trial for trial what went in each direction and what the rules counted of it."""

    def __init__(self, *trials: tuple[tuple[Went, ...], dict[str, int]]) -> None:
        self._trials = iter(trials)
        self._hits = dict.fromkeys(trials[0][1], 5000) if trials else {}
        self.rates: list[float | None] = []

    def rule_hits(self) -> dict[str, int]:
        return dict(self._hits)

    def send(self, spec: TrialSpec) -> Any:
        went, met = next(self._trials)
        assert [stream.count for stream in spec.streams] == [1000] * len(went)
        self.rates.append(spec.streams[0].pps)
        self._hits = {name: self._hits[name] + number for name, number in met.items()}
        reported: Iterator[Any] = (
            SimpleNamespace(direction=stream.direction, sent=sent, received=received)
            for stream, (sent, received) in zip(spec.streams, went, strict=True)
        )
        return SimpleNamespace(streams=tuple(reported))

    def prove(self, pipeline: str) -> None:
        prove_counts(self, PIPELINE.validate_python(pipeline), self.send)  # type: ignore[arg-type]


BOTH = (WHOLE, WHOLE)


@pytest.mark.parametrize(
    ("pipeline", "went", "met"),
    [
        ("route", BOTH, {"forth": 1000, "back": 1000}),
        ("meter", BOTH, {"forth": 1000, "back": 1000, "meter": 2000}),
        ("meter", BOTH, {"meter": 2000}),
        ("nat", (WHOLE,), {"forth": 1000, "back": 0}),
    ],
)
def test_each_frame_is_counted_once_in_its_direction(
    pipeline: str, went: tuple[Went, ...], met: dict[str, int]
) -> None:
    bench = Bench((went, met))
    bench.prove(pipeline)
    assert bench.rates == [10_000]
    for name in met:
        for by in (1, -1):
            with pytest.raises(PointFailed, match=f"^{pipeline}(:1)?: frames sent: .*matched by its rules: .*{name}"):
                Bench(*[(went, {**met, name: met[name] + by})] * (5 if by > 0 else 1)).prove(pipeline)
    stray = {name: number + 1 for name, number in met.items()}  # a frame of somebody else's comes once
    Bench((went, stray), (went, met)).prove(pipeline)


@pytest.mark.parametrize(
    ("went", "met"),
    [
        ((WHOLE, (1000, 0)), {"forth": 1000, "back": 0}),
        (((1000, 0), (1000, 0)), {"forth": 0, "back": 0}),
        (((0, 0), (0, 0)), {"forth": 0, "back": 0}),
        ((WHOLE, (1000, 999)), {"forth": 1000, "back": 1000}),
    ],
    ids=["no way back", "nothing came", "nothing sent", "one lost behind the rule"],
)
def test_what_is_lost_is_sent_again_more_slowly_and_then_is_a_fault(
    went: tuple[Went, ...], met: dict[str, int]
) -> None:
    bench = Bench((went, met), (BOTH, {"forth": 1000, "back": 1000}))
    bench.prove("acl:5")
    assert bench.rates == [10_000, 1000]
    bench = Bench(*[(went, met)] * 5)
    with pytest.raises(PointFailed, match=r"^acl:5: frames sent: forward [\d,]+, backward [\d,]+; came out: forward"):
        bench.prove("acl:5")
    assert bench.rates == [10_000, 1000, 1000, 1000, 1000]


def test_a_tester_that_leaves_frames_out_is_asked_again_and_then_those_decide_that_it_sent() -> None:
    went = ((160, 160), (99, 99))
    bench = Bench(*[(went, {"forth": 160, "back": 99})] * 5)
    bench.prove("acl:5")
    assert bench.rates == [10_000, 1000, 1000, 1000, 1000]
    bench = Bench((((160, 160), (100, 100)), {"forth": 160, "back": 100}))
    bench.prove("acl:5")
    assert bench.rates == [10_000]
    with pytest.raises(PointFailed, match=r"matched by its rules: forth 160, back 98$"):
        Bench((went, {"forth": 160, "back": 98})).prove("acl:5")


def test_one_that_counts_nothing_is_sent_nothing() -> None:
    Bench().prove("bridge")


@pytest.mark.parametrize("reported", [None, (200, 200), (199, 200), (201, 200)])
def test_rules_are_as_many_as_were_given(reported: tuple[int, int] | None) -> None:
    forwarder: Any = SimpleNamespace(name="ovs-afxdp", rule_count=lambda: reported)
    pipeline = PIPELINE.validate_python("acl:100x8")
    if reported in (None, (200, 200)):
        prove_rules(forwarder, pipeline)
        return
    with pytest.raises(PointFailed, match=r"^acl:100x8: ovs-afxdp has (199|201) rules of 200$"):
        prove_rules(forwarder, pipeline)
