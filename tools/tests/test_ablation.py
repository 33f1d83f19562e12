# SPDX-License-Identifier: Apache-2.0
"""Variants against a reference, and published figures next to ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done
from lab.reading import render
from lab.records import point, run_record, trial

from xdplab.analysis import answer, summarise
from xdplab.analysis.documents import beside, documents, reproduction
from xdplab.analysis.run import Run
from xdplab.app import prepare, with_forwarders
from xdplab.measure.point import PointSummary
from xdplab.methods.rfc2544.report import Ablation, ablation, per_frame
from xdplab.model import ForwarderSpec, InputError, Point, StudySpec, TrialRecord
from xdplab.model.published import published_figure

GUIDE = "intel-afxdp-guide"
METHOD = {"name": "throughput", "preset": "quick", "equal_load": {"latency_pps": 20_000, "overload_pps": 400_000}}


def named(label: str, **knobs: Any) -> Point:
    return point().model_copy(update={"forwarder": ForwarderSpec(name="fake", label=label), "knobs": knobs})


def records(at: Point, ndrs: list[float], p50s_ns: list[int]) -> list[TrialRecord]:
    """One throughput and one latency trial for each repetition."""
    found = []
    for repetition, (ndr, p50) in enumerate(zip(ndrs, p50s_ns, strict=True)):
        bound = {"loss_ratio": 0.0, "throughput_pps": ndr, "lower_pps": ndr, "upper_pps": ndr * 1.01}
        figures = {
            "preset": "quick",
            "bounds": [{**bound, "limited_by": "forwarder"}],
            "steps": [],
            "traffic_s": 9.0,
            "directions": 1,
            "top_load_pps": 5e6,
            "line_rate_bps": None,
        }
        found.append(trial(at, repetition, [p50] * 900 + [p50 + n for n in range(100)]))
        found.append(
            TrialRecord(
                point_id=at.id,
                repetition=repetition,
                purpose="figures",
                status="ok",
                started="2026-01-02T03:04:05.678+00:00",
                clause="RFC 2544 26.1",
                figures=figures,
            )
        )
    return found


STOCK, SAME, MORE, SLOW, STEP = (named(label) for label in ("stock", "same", "more", "slow", "step"))
MEASURED = [
    *records(STOCK, [1.00e6, 1.01e6, 0.99e6, 1.00e6], [2000, 2020, 1990, 2010]),
    *records(SAME, [1.01e6, 1.00e6, 1.00e6, 0.99e6], [2010, 2000, 2000, 2005]),
    *records(MORE, [1.30e6, 1.31e6, 1.30e6, 1.29e6], [2010, 2000, 2000, 2005]),
    *records(SLOW, [0.80e6, 0.81e6, 0.79e6, 0.80e6], [4000, 4020, 3990, 4010]),
    *records(STEP, [1.005e6, 1.015e6, 0.995e6, 1.005e6], [2010, 2000, 2000, 2005]),
]


def ablated(**study: Any) -> Ablation:
    run = run_record(STOCK, SAME, MORE, SLOW, STEP, study={"answer": ["same", "stock"], "method": METHOD, **study})
    found = ablation(run, summarise(run, MEASURED))
    assert found is not None
    return found


def test_every_variant_is_compared_with_the_reference_in_all_metrics() -> None:
    found = ablated(notes={"more": "Because."})
    assert found.reference.forwarder == "stock"
    by_name = {variant.summary.forwarder: variant for variant in found.variants}
    assert set(by_name) == {"same", "more", "slow", "step"}
    assert all(variant.comparisons["forwarding_rate_pps"] is None for variant in found.variants)  # nobody measured it
    more = by_name["more"].comparisons["ndr_pps"]
    assert more is not None
    assert more.interval.ratio == pytest.approx(1.30, abs=0.005)
    assert by_name["more"].verdict() == "forwards 30 % more"
    assert by_name["more"].note == "Because."
    # 2 µs became 4 µs: the ratio of 0.5 is no "50 % higher"
    assert by_name["slow"].verdict().startswith("forwards 20 % less; p50 99.8 % higher")


def test_a_latency_of_a_third_is_67_percent_lower() -> None:
    quick = named("quick")
    trials = [*MEASURED, *records(quick, [9.0e6, 9.1e6, 9.0e6, 8.9e6], [667, 673, 663, 670])]
    run = run_record(STOCK, quick, study={"answer": ["quick", "stock"], "method": METHOD})
    found = ablation(run, summarise(run, trials))
    assert found
    assert found.variants[0].verdict().startswith("forwards 9 times as much; p50 66.7 % lower")


def test_a_gain_in_latency_is_said_with_the_loss() -> None:
    """ "p50 50 % lower" stood alone, of a variant that lost 40 % of the frames."""
    lossy = named("lossy")
    lost = [
        trial(lossy, n, [each] * 600, sent=1000) if one.result else one
        for n, each in enumerate([1000, 1010, 995, 1005])
        for one in records(lossy, [1e6] * 4, [1000] * 4)
        if one.repetition == n
    ]
    run = run_record(STOCK, lossy, study={"answer": ["lossy", "stock"], "method": METHOD})
    found = ablation(run, summarise(run, [*MEASURED, *lost]))
    assert found
    (variant,) = found.variants
    assert variant.verdict().startswith("p50 50 % lower (lossy lost 40 %, counted as infinitely late)")


def test_a_variant_that_lost_frames_at_any_load_stays_in_the_ablation() -> None:
    broken = named("broken")
    lost = []
    for one in records(broken, [0.0] * 4, [2000] * 4):
        if one.purpose == "figures":
            (bound,) = one.figures["bounds"]
            step = {"load_pps": 2000.0, "offered_pps": 1999.0, "duration_s": 0.5, "sent": 1000, "lost": 10}
            below = {**bound, "throughput_pps": None, "lower_pps": None, "limited_by": "below-minimum"}
            figures = {**one.figures, "bounds": [below], "steps": [step]}
            one = one.model_copy(update={"figures": figures})
        lost.append(one)
    run = run_record(STOCK, broken, study={"answer": ["broken", "stock"], "method": METHOD})
    found = ablation(run, summarise(run, [*MEASURED, *lost]))
    assert found
    (variant,) = found.variants
    assert variant.verdict().startswith("forwards at least 99.")
    page = render(run, [*(one for one in MEASURED if one.point_id == STOCK.id), *lost])
    assert "<b>below 2</b>" in page


def test_a_doubted_throughput_is_no_bar_beside_the_published_one() -> None:
    """It stood in the table in bold, as did a lower limit that the tester set."""
    ours, theirs = named("ovs-afxdp"), named("ovs-afpacket")
    by_tester = {"limited_by": "tester", "upper_pps": None}
    limited = [
        one
        if one.purpose == "measure"
        else one.model_copy(update={"figures": {**one.figures, "bounds": [{**one.figures["bounds"][0], **by_tester}]}})
        for one in records(ours, [1e6] * 3, [2000] * 3)
    ]
    trials = [*limited, *records(theirs, [2e5] * 3, [9000] * 3)]
    run = run_record(ours, theirs, study={"method": METHOD})
    (row,) = reproduction(*published_figure(f"{GUIDE}/figure-2"), run, summarise(run, trials)).rows
    assert (row.mpps, row.missing) == ({"ovs-afpacket": 0.2}, {"ovs-afxdp": "at least 1"})


def test_no_difference_that_was_seen_is_said_with_what_would_have_shown() -> None:
    by_name = {variant.summary.forwarder: variant for variant in ablated().variants}
    same = by_name["same"].verdict()
    assert same.startswith("no difference seen in NDR, p50 and p99; what would have shown: NDR ")
    assert (
        by_name["step"].verdict().startswith("no difference seen")
    )  # each pair by the same half a percent: less than can be seen


def test_rounds_that_lie_orders_of_magnitude_apart_are_undecided() -> None:
    """One round of three that is a hundred times as long: "p50 over 10²⁰ times would have shown" says nothing."""
    same = next(variant for variant in ablated().variants if variant.summary.forwarder == "same")
    wide = {
        metric: found.model_copy(update={"interval": found.interval.model_copy(update={"low": 1e-9, "high": 1e9})})
        for metric, found in same.comparisons.items()
        if found is not None and found.interval is not None
    }
    reason = "its rounds lie too far apart: raise --repetitions"
    assert same.model_copy(update={"comparisons": wide}).verdict() == f"undecided: {reason}"
    one = {**same.comparisons, "p50_us": wide["p50_us"]}
    said = same.model_copy(update={"comparisons": one}).verdict()
    assert said.endswith(f"undecided: p50 ({reason})")
    assert " p50 " not in said.partition("what would have shown")[2].partition("; undecided")[0]


def test_two_repetitions_say_nothing() -> None:
    few = [record for record in MEASURED if record.repetition < 2]
    run = run_record(STOCK, MORE, study={"answer": ["more", "stock"], "method": METHOD})
    found = ablation(run, summarise(run, few))
    assert found is not None
    (said,) = [variant.verdict() for variant in found.variants]
    assert said.startswith("undecided: 2 of the 3 rounds that an interval needs: raise --repetitions")


def test_without_a_reference_there_is_no_ablation() -> None:
    run = run_record(STOCK, MORE, study={"method": METHOD})
    assert ablation(run, summarise(run, MEASURED)) is None
    latency_only = [record for record in MEASURED if record.purpose == "measure"]
    asked = run_record(STOCK, MORE, study={"answer": ["more", "stock"]})
    assert ablation(asked, summarise(asked, latency_only)) is None


def summaries(*given: tuple[Point, list[float]]) -> list[PointSummary]:
    run = run_record(*(at for at, _ in given), study={"method": METHOD})
    return summarise(run, [one for at, ndrs in given for one in records(at, ndrs, [2000] * len(ndrs))])


def test_ours_stand_beside_the_published_figure_at_each_layout() -> None:
    found = reproduction(
        *published_figure(f"{GUIDE}/figure-2"),
        run_record(described={"cpu_layout": {"inline": "on veth the receive half is on the sender's core"}}),
        summaries(
            (named("ovs-afxdp", cpu_layout="inline"), [1.0e6, 1.1e6, 1.0e6]),
            (named("ovs-afpacket", cpu_layout="inline"), [2.5e5, 2.6e5, 2.5e5]),
            (named("ovs-afxdp", cpu_layout="1C1T"), [4e5, 4e5, 4.1e5]),
            (named("other", cpu_layout="1C1T"), [4e5]),
        ),
    )
    assert [row.setting for row in found.rows] == ["inline", "1C1T"]
    inline, alone = found.rows
    assert inline.mpps == {"ovs-afxdp": 1.0, "ovs-afpacket": 0.25}
    assert "sender's core" in inline.detail
    assert inline.ratios[0].comparison is not None
    assert inline.ratios[0].comparison.interval.ratio == pytest.approx(4.0, rel=0.03)
    assert inline.ratios[0].published.ratio == (3, 5)
    assert (alone.mpps, alone.ratios[0].comparison) == ({"ovs-afxdp": 0.4}, None)


def test_a_document_s_figure_stands_beside_ours_and_another_document_s_does_not() -> None:
    xdp, packet = named("ovs-afxdp", cpu_layout="inline"), named("ovs-afpacket", cpu_layout="inline")
    trials = [*records(xdp, [1.0e6, 1.1e6, 1.0e6], [2000] * 3), *records(packet, [2.5e5, 2.6e5, 2.5e5], [2000] * 3)]
    record = run_record(xdp, packet, study={"method": METHOD, "reproduces": [f"{GUIDE}/figure-2"]})
    run = Run(Path("nowhere"), record, trials)
    rows = {row.what: row for row in beside(documents()[GUIDE], run)}
    ours = next(row for what, row in rows.items() if what.endswith("AF_XDP, inline"))
    assert (ours.published, ours.here) == ("3.69 to 7.07 Mpps", "1 Mpps")
    ratio = rows["ovs-afxdp over ovs-afpacket, inline"]
    assert ratio.published == "3 to 5 times"
    assert "4" in ratio.here
    assert list(beside(documents()["parola-conext21"], run)) == []


def test_what_was_not_measured_is_reported_with_its_reason() -> None:
    points = [named("ovs-afxdp", cpu_layout="2C2T"), named("ovs-afpacket", cpu_layout="2C2T")]
    run = run_record(*points, unsupported={at.id: "needs three CPUs" for at in points})
    found = reproduction(*published_figure(f"{GUIDE}/figure-2"), run, summarise(run, []))
    assert found.rows[0].missing == {"ovs-afxdp": "needs three CPUs", "ovs-afpacket": "needs three CPUs"}


def test_the_guides_figures_are_the_published_ones() -> None:
    _, second = published_figure(f"{GUIDE}/figure-2")
    _, third = published_figure(f"{GUIDE}/figure-3")
    assert second.series[0].mpps == (3.69, 7.07)
    assert (second.ratios[0].of, second.ratios[0].to, second.ratios[0].ratio) == ("ovs-afxdp", "ovs-afpacket", (3, 5))
    assert third.series[0].mpps == (4.34, 8.66)
    assert third.ratios[0].ratio == (1.2, 1.2)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("nobody/figure-1", "no published document of that name; there are .*intel-afxdp-guide"),
        (f"{GUIDE}/figure-9", "no such figure; there are intel-afxdp-guide/figure-2, intel-afxdp-guide/figure-3"),
        ("", "no published document"),
    ],
)
def test_an_unknown_published_figure_is_refused_before_anything_runs(reference: str, words: str) -> None:
    study = StudySpec.model_validate(
        {"name": "x", "testbed": "fake", "tester": "fake", "forwarders": ["fake"], "reproduces": [reference]}
    )
    with pytest.raises(InputError, match=words):
        prepare(study)


def test_some_forwarders_of_a_study_can_be_asked_for_by_title() -> None:
    study = StudySpec.model_validate({"name": "x", "forwarders": ["fake", "fake:seed=1", "xdp"]})
    assert [one.title for one in with_forwarders(study, ["xdp", "fake"]).forwarders] == ["xdp", "fake"]
    with pytest.raises(InputError, match="study x: no forwarder 'ovs'; there are fake, fake:seed=1, xdp"):
        with_forwarders(study, ["ovs"])


def test_the_report_holds_both_sections() -> None:
    points = [named("ovs-afxdp"), named("ovs-afpacket")]
    trials = [*records(points[0], [1e6, 1.1e6, 1e6], [2000] * 3), *records(points[1], [2e5, 2.1e5, 2e5], [9000] * 3)]
    study = {"method": METHOD, "answer": ["ovs-afxdp", "ovs-afpacket"], "reproduces": [f"{GUIDE}/figure-2"]}
    html = render(run_record(*points, study=study), trials)
    for words in ("Beside a published figure", "3.69 to 7.07", "What each variant contributes", "forwards 5.08 times"):
        assert words in html
    assert html.index("Beside a published figure") < html.index("Throughput (RFC 2544")


def counted(at: Point, repetition: int, number: int, frames: int, calls: int) -> TrialRecord:
    """A trial after which b1 has sent `frames` with `calls`; b0 has sent the proof's 20."""
    b1 = {"tx_pkts": frames, "xsk_queue_0_tx_kick": calls, "xsk_queue_0_rx_wakeup": 0}
    b0 = {"tx_pkts": 20, "xsk_queue_0_tx_kick": 20, "xsk_queue_0_rx_wakeup": 3}
    copied = {"xsk_queue_0_tx_copy_bytes": 60 * frames}
    return trial(
        at, repetition, trial=number, counters={"b0": {**b0, **copied}, "b1": {**b1, **copied}, "coverage": {}}
    )


def test_system_calls_per_frame_are_of_the_time_between_first_and_last_trial() -> None:
    records = [counted(STOCK, n, k, 1000 + 100_000 * k, 900 + 5000 * k) for n in range(3) for k in range(4)]
    found = per_frame(records)
    assert found is not None
    assert (found.send_calls, found.receive_calls, found.copied_bytes) == (0.05, 0.0, 120.0)  # both ports copied


def test_ports_without_such_counters_and_restarted_ones_say_nothing() -> None:
    assert per_frame([trial(STOCK, 0, counters={"b0": {"tx_pkts": n}}) for n in (1, 2)]) is None
    assert per_frame([counted(STOCK, 0, 0, 900, 9), counted(STOCK, 0, 1, 100, 1)]) is None
    assert per_frame([]) is None


def test_without_a_search_the_answer_is_the_rate_at_overload() -> None:
    def rates(at: Point, *pps: float) -> list[TrialRecord]:
        figures = {"intended_pps": 2e6, "offered_pps": 2e6, "rates_pps": [], "overloaded": True}
        return [
            trial(at, n, [1000]).model_copy(
                update={
                    "purpose": "figures",
                    "clause": "RFC 2285 3.6.1",
                    "result": None,
                    "figures": {**figures, "forwarding_rate_pps": rate},
                }
            )
            for n, rate in enumerate(pps)
        ]

    method = {"name": "rfc2544", "clauses": [], "equal_load": {"overload_pps": 2_000_000}}
    run = run_record(MORE, STOCK, study={"answer": ["more", "stock"], "method": method})
    found = summarise(run, [*rates(MORE, 1.3e6, 1.31e6, 1.29e6, 1.3e6), *rates(STOCK, 1.0e6, 1.01e6, 0.99e6, 1.0e6)])
    assert found[0].model_dump()["figures"]["forwarding_rate"]["forwarding_rate_pps"]["median"] == 1.3e6
    reported = answer(run, found)
    assert reported.sentence.startswith("more forwards 1.3 times as much as stock (99 % interval 1.29 to 1.31)")
    assert reported.details[0].startswith("Forwarding rate at overload")


def test_the_latency_at_an_equal_load_is_of_turns(cli: Callable[..., Done], results: Path, tmp_path: Path) -> None:
    """Of which each is compared with the same of the others: a machine that changes its speed in between does both."""
    assert cli("run", studies.study_file(tmp_path, method={**METHOD, "budget_s": 2}, repetitions=3)).code == 0
    trials = studies.only_run(results).trials()
    timed = [each for each in trials if each.purpose == "measure" and each.result]
    turns = [each.turn for each in timed if (each.point_id, each.repetition) == (timed[0].point_id, 0)]
    assert turns == list(range(8))
    assert {each.asked.duration_s for each in timed if each.asked} == {0.1}
    assert {each.turn for each in trials if each.purpose == "search"} == {None}
    found = summarise(studies.only_run(results).load(), trials)
    assert all(set(each.turns["p50_us"]) == set(range(8)) for each in found[0].by_repetition)
