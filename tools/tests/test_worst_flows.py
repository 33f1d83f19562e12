# SPDX-License-Identifier: Apache-2.0
"""Figures by flow, and frames that the tester's own card dropped: from xdpgen's answer to what `xdplab show` says."""

import json
from typing import Any

import pytest
from lab.records import point, result, run_record, stream, trial
from pydantic import ValidationError

from xdplab.analysis import summarise
from xdplab.analysis.doubts import doubts_of_one
from xdplab.cli.tables import summary_table
from xdplab.measure import make_method
from xdplab.measure.point import SHOWN, PointSummary
from xdplab.model import FlowFigures, InputError, StreamResult, StreamSpec, TrialRecord
from xdplab.model.study import default_method
from xdplab.model.trial import MAX_FLOWS
from xdplab.testers.base import make_tester
from xdplab.testers.stream_json import stream_result
from xdplab.testers.xdpgen import Xdpgen

A = point("fake", flows=20)
#: What xdpgen tells of a load stream.
TOLD: dict[str, Any] = {
    "frame_bytes": 64, "offered_pps": None, "intended": 12, "sent": 9, "skipped": 0, "redirect_errors": 0,
    "tx_drops": 3, "received": 8, "lost": 1, "duplicated": 0, "damaged": 0, "out_of_order": 0,
    "late_beyond_window": 0, "achieved_pps": 9.0,
    "rx_pps": 8.0, "latency": None, "lateness": None, "gaps": {"last_lost": None, "longest_ns": 0, "trailing": 0},
    "flow_figures": {"sent": [6, 6], "received": [5, 3], "lost": [1, 3], "min_ns": [None] * 2, "mean_ns": [None] * 2,
                     "max_ns": [None] * 2},
}  # fmt: skip


def figures(lost: dict[int, int], slow: dict[int, int], flows: int = 20, sent: int = 10) -> FlowFigures:
    """Flows of 10 frames each at 1000 ns, but for what is lost, and one frame of each that is slow."""
    received = [sent - lost.get(flow, 0) for flow in range(flows)]
    highest = [slow.get(flow, 1000) if received[flow] else None for flow in range(flows)]
    return FlowFigures(
        sent=(sent,) * flows,
        received=tuple(received),
        lost=tuple(lost.get(flow, 0) for flow in range(flows)),
        min_ns=tuple(1000 if got else None for got in received),
        mean_ns=tuple(high and 1000 + (high - 1000) // received[flow] for flow, high in enumerate(highest)),
        max_ns=tuple(highest),
    )


def row(*trials: TrialRecord) -> PointSummary:
    (found,) = summarise(run_record(A), trials)
    return found


def measured(repetition: int, flows: FlowFigures, load: FlowFigures | None = None) -> TrialRecord:
    probe = stream([1000] * 200, flow_figures=flows)
    streams = [probe, stream(kind="load", sent=10, flow_figures=load)] if load else [probe]
    return trial(A, repetition, result=result(*streams))


def test_a_flow_that_is_lost_is_the_worst_and_a_late_one_the_next() -> None:
    found = row(measured(0, figures({3: 10}, {7: 9000})), measured(1, figures({3: 9, 5: 1}, {7: 5000})))
    assert found.flows == 20
    assert [flow.flow for flow in found.worst_flows[:3]] == [3, 5, 7]
    assert len(found.worst_flows) == SHOWN < 20
    lost, once, late = found.worst_flows[:3]
    assert (lost.sent, lost.received, lost.lost, lost.loss_ratio) == (20, 1, 19, 0.95)
    assert (once.lost, late.lost) == (1, 0)
    assert (late.min_us, late.mean_us, late.max_us) == (1.0, pytest.approx(1.6), 9.0)
    assert "flow 3 (latency): lost 19 of 20 (95 %), 1 / 1 / 1 us" in lost.text()


def test_show_has_the_worst_of_as_many_flows_as_there_may_be() -> None:
    found = row(measured(0, figures({9999: 10}, {}, MAX_FLOWS), figures({2: 1}, {}, 3)))
    text = summary_table(make_method(default_method()), [found])
    assert "fake, 64 bytes: the worst of 10003 flows" in text
    assert text.count("  flow ") == SHOWN
    assert "flow 9999 (latency): lost 10 of 10 (100 %)" in text.splitlines()[-SHOWN]
    assert len(json.dumps(found.model_dump(mode="json"))) < 20_000
    assert len(measured(0, figures({}, {}, MAX_FLOWS)).model_dump_json()) < 500_000


def test_nothing_is_said_of_flows_that_were_not_counted() -> None:
    found = row(trial(A, 0))
    assert (found.flows, found.worst_flows, found.tx_drops) == (0, (), 0)
    assert "flow" not in summary_table(make_method(default_method()), [found])


def test_a_record_of_more_flows_or_of_columns_that_do_not_fit_is_refused() -> None:
    good = figures({}, {}, 3).model_dump()
    for bad in ({"sent": (1,) * 2}, {"sent": (-1, 0, 0)}, dict.fromkeys(good, (1,) * (MAX_FLOWS + 1))):
        with pytest.raises(ValidationError):
            FlowFigures(**{**good, **bad})


def test_the_answer_of_xdpgen() -> None:
    asked = StreamSpec(kind="load", pps=None, frame_bytes=64, flows=2)
    found = stream_result(asked, TOLD)
    assert (found.tx_drops, found.lost) == (3, 1)
    assert found.flow_figures
    assert found.flow_figures.received == (5, 3)
    older = stream_result(asked, {key: value for key, value in TOLD.items() if key not in ("tx_drops", "flow_figures")})
    assert (older.tx_drops, older.flow_figures) == (None, None)


def test_the_option() -> None:
    asked, plain = make_tester("xdpgen:flow_figures=true"), make_tester("xdpgen")
    assert isinstance(asked, Xdpgen)
    assert isinstance(plain, Xdpgen)
    assert (asked.options.flow_figures, plain.options.flow_figures) == (True, False)
    with pytest.raises(InputError, match="flow_figures"):
        make_tester("xdpgen:flow_figures=perhaps")


def dropped(drops: int | None) -> StreamResult:
    """A stream of 10,000 of which the card dropped some, and the forwarder none."""
    sent = 10_000 - (drops or 0)
    return stream([1000] * sent, intended=10_000, tx_drops=drops)


def test_what_the_testers_card_dropped_is_the_testers() -> None:
    """However few: the card was asked for more than it takes, and the forwarder lost nothing."""
    found = row(trial(A, 0, result=result(dropped(3), dropped(None))))
    assert (found.tx_drops, found.loss_ratio, found.tester_limited) == (3, 0, True)
    assert found.by_repetition[0].figures["p50_us"].limited_by == "tester"
    assert any("the tester left out frames" in doubt for doubt in doubts_of_one(found, "p50_us"))
    assert "the tester's own card dropped 3 frames" in summary_table(make_method(default_method()), [found])
    whole = row(trial(A, 0, result=result(dropped(0))))
    assert (whole.tx_drops, whole.tester_limited) == (0, False)
    assert "card" not in summary_table(make_method(default_method()), [whole])
