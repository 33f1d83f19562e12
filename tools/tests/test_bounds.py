# SPDX-License-Identifier: Apache-2.0
"""A disturbed trial is a bound: what it may say, what it may not, and where nothing was shown (docs/claims.md)."""

import itertools
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from lab.claims import LATENCY, OURS, RATE, THEIRS, asked, measured, ratio, searched, two
from lab.reading import a_run
from lab.records import encoded, point, run_record, trial
from robot.api import SkipExecution

from xdplab.analysis import compare_points, summarise
from xdplab.analysis.compare import compare_apart
from xdplab.analysis.doubts import loss_above
from xdplab.analysis.runs.trend import stretches
from xdplab.analysis.tables.columns import rows_of
from xdplab.analysis.words import verdict
from xdplab.measure import make_method
from xdplab.measure.comparison import MAX_WORDS, Comparison
from xdplab.measure.distribution import Distribution
from xdplab.methods.rfc2544.figures import rfc2544_figures
from xdplab.methods.rfc2544.report import Variant
from xdplab.model import Point, TrialRecord
from xdplab.model.digits import percent
from xdplab.report.exports import FORMS
from xdplab.report.page import latency_plots
from xdplab.robot import XdplabLibrary
from xdplab.stats.contamination import contaminated, ranks

#: A trial whose values lie within a tenth of its median.
SPREAD = [round(1000 * (0.9 + 0.2 * n / 999)) for n in range(1000)]


def spread(at: Point, us: float, shares: Sequence[float | None], **fields: Any) -> list[TrialRecord]:
    """A trial for each share that the machine disturbed (0: none of it), a percent or two apart."""
    noise = itertools.cycle((1.0, 1.012, 0.991, 1.02, 0.985))
    return [
        trial(at, n, [round(us * each * times) for each in SPREAD], share=share or None, **fields)
        for n, (share, times) in enumerate(zip(shares, noise, strict=False))
    ]


def compared(ours: Sequence[TrialRecord], theirs: Sequence[TrialRecord], metric: str = "p50_us") -> Comparison:
    _, (one, other) = asked(*ours, *theirs)
    found = compare_points(one, other, metric)
    assert found
    return found


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]), st.data())
def test_whatever_samples_were_disturbed_the_others_quantile_lies_between_the_ranks(
    values: list[int], quantile: float, data: st.DataObject
) -> None:
    share = data.draw(st.floats(0, 1))
    disturbed, ordered = contaminated(len(values), share), sorted(values)
    low, high = ranks(len(values), quantile, share)
    assert 1 <= low <= high <= len(values)
    assert disturbed >= min(share * len(values), len(values) - 1) - 1e-6
    reached = set()
    for left in itertools.combinations(ordered, len(values) - disturbed):
        true = left[max(1, math.ceil(quantile * len(left) - 1e-6)) - 1]
        assert ordered[low - 1] <= true <= ordered[high - 1]
        reached.add(true)
    assert {ordered[low - 1], ordered[high - 1]} <= reached  # and no narrower bounds would hold


RULE: list[tuple[str, float, list[float | None], str, bool]] = [
    ("thirteenfold, a little disturbed", 13, [0.02] * 5, "bounds", True),
    ("thirteenfold, half of each disturbed", 13, [0.5] * 5, "bounds", True),
    ("two clean pairs are too few, and stay with the others", 13, [0, 0, 0.1, 0.1, 0.1], "bounds", True),
    ("three clean ones decide alone", 13, [0, 0, 0, 1.0, 1.0], "clean", True),
    ("four pairs", 13, [0.02] * 4, "few", False),
    ("a tenth", 1.1, [0.02] * 5, "bounds", False),
    ("a tenth, and twenty pairs", 1.1, [0.02] * 20, "bounds", False),
    ("a fifth, and twenty pairs", 1.2, [0.02] * 20, "bounds", True),
    ("a fifth, and twenty pairs of which a tenth was disturbed", 1.2, [0.1] * 20, "bounds", False),
    ("three clean ones and two of which little was disturbed decide together", 2, [0, 0, 0, 0.02, 0.1], "bounds", True),
    ("five clean ones need no others", 2, [0, 0, 0, 0, 0, 0.02, 0.1], "clean", True),
    ("pairs of which much was disturbed are left out", 2, [0, 0, 0, 0, 0.02, 0.3, 1.0], "bounds", True),
]


@pytest.mark.parametrize(("times", "shares", "basis", "said"), [each[1:] for each in RULE], ids=[e[0] for e in RULE])
def test_statuses_choose_what_decides(times: float, shares: list[float | None], basis: str, said: bool) -> None:
    found = compared(spread(OURS, 3, shares), spread(THEIRS, 3 * times, shares))
    assert (found.basis, found.better) == (basis, True if said else None)
    turned = compared(spread(OURS, 3 * times, shares), spread(THEIRS, 3, shares))
    assert (turned.basis, turned.better) == (basis, False if said else None)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([0, 0, 0, 0.02, 0.02], "too little to tell: ask for more repetitions"),
        ([0.02] * 4 + [0.3], "too little to tell: the machine disturbed up to 30 % of a trial; use a quieter one"),
        ([0, 0, 0, 0.3, 0.3], "too little to tell: ask for more repetitions"),  # clean ones decide
    ],
)
def test_more_repetitions_are_advised_where_they_help(shares: list[float | None], words: str) -> None:
    found = compared(spread(OURS, 3, shares), spread(THEIRS, 3.3, shares))
    assert verdict(found) == words


def test_a_disturbed_share_that_nobody_knows_says_nothing() -> None:
    theirs = [one.model_copy(update={"disturbance": None}) for one in spread(THEIRS, 39, [0.02] * 5)]
    found = compared(spread(OURS, 3, [0.02] * 5), theirs)
    assert (found.basis, found.better, found.share) == ("few", None, None)
    late = [each.model_copy(update={"status": "disturbed"}) for each in measured(THEIRS, 39)]
    assert compared(measured(OURS, 3), late).better is None


def test_the_sentence_says_in_each_and_beside_it_the_plain_estimate_and_how_far_it_holds() -> None:
    shares = [0.18, 0.02, 0.05, 0.0, 0.1]
    found, _ = asked(*spread(OURS, 3, shares), *spread(THEIRS, 39, shares))
    assert found.said
    assert found.sentence.startswith("At 1 kpps OVS on AF_XDP is at least ")
    assert (
        "times as fast as OVS on AF_PACKET in each of 5 repetitions, whatever the machine disturbed" in found.sentence
    )
    assert len(found.sentence.split()) <= MAX_WORDS
    known = found.comparison
    assert known
    assert known.interval
    assert known.estimate
    assert known.interval.least is not None
    assert 2 < known.interval.least < 13 / 1.02  # the ends that the disturbed part leaves, not the estimate
    assert known.estimate.ratio == pytest.approx(13, rel=0.01)
    assert f"at least {known.interval.least:.3g}" in found.sentence
    assert known.breakdown is not None
    assert known.share == pytest.approx(0.18)
    assert known.share < known.breakdown <= 1
    assert any("about 13 times over all repetitions" in each for each in found.details)
    reported = f"disturbed up to 18 % of a trial; this would hold up to {percent(known.breakdown)}"
    assert any(reported in each for each in found.details), found.details


def test_it_breaks_down_where_the_values_meet() -> None:
    """A fifth of each trial is as the other side's, and may be all that is left of a median from 60 % on."""
    ours = [1000] * 800 + [50_000] * 200
    theirs = [1000] * 200 + [50_000] * 800
    found = compared(
        [trial(OURS, n, ours, share=0.05) for n in range(5)], [trial(THEIRS, n, theirs, share=0.05) for n in range(5)]
    )
    assert found.better is True
    # the median of the undisturbed is surely fast while 500 + 500c <= 800, and surely slow while 500 - 500c > 200
    assert found.breakdown == pytest.approx(0.59, abs=0.015)


@pytest.mark.parametrize(("share", "known"), [(0.002, True), (0.012, False)])
def test_a_tail_is_unknown_where_more_than_it_was_disturbed(share: float, known: bool) -> None:
    """A stall of 1 % of the trial may be all that lies above p99."""
    stalled = round(share * 10_000)

    def late(at: Point, ns: int) -> list[TrialRecord]:
        values = (
            [ns + n % 20 for n in range(10_000 - stalled - 150)]
            + [2 * ns + n for n in range(150)]
            + [9_000_000] * stalled
        )
        return [trial(at, n, values, share=share) for n in range(5)]

    ours, theirs = late(OURS, 1000), late(THEIRS, 30_000)
    found = compared(ours, theirs, "p99_us")
    assert (found.better is True) is known
    assert compared(ours, theirs, "p50_us").better is True


def test_a_forwarder_that_drops_its_slowest_does_not_win_the_tail() -> None:
    """Survivors' p99 was three times as low."""
    whole = [1000] * 9_800 + [10_000] * 100 + [90_000] * 100
    theirs = [trial(THEIRS, n, whole) for n in range(5)]
    for cut, better in ((0, None), (90, None), (100, None)):
        kept = [1000] * 9_800 + ([10_000] * 100 + [90_000] * 100)[: 200 - cut]
        ours = [trial(OURS, n, kept, sent=10_000) for n in range(5)]
        found = compared(ours, theirs, "p99_us")
        assert found.better is better
        assert ratio(found).ratio == pytest.approx(1)
    _, (dropper, _) = asked(*[trial(OURS, n, whole[:9_890], sent=10_000) for n in range(5)], *theirs)
    assert dropper.measured["p99_us"].high == math.inf  # 1.1 % never came


def test_loss_moves_the_rank_of_a_median_by_half_of_it() -> None:
    values = [1000 + n for n in range(974)]
    (found,) = summarise(run_record(OURS), [trial(OURS, n, values, sent=1000) for n in range(3)])
    assert found.p50_us == pytest.approx((1000 + 499) / 1000, abs=0.002)  # rank 500 of 1000, and not 487 of 974
    assert pytest.approx(0.026, abs=0.001) == 500 / 487 - 1


def test_all_lost_is_infinitely_late_and_ahead_of_nobody() -> None:
    gone = [trial(OURS, n, [], sent=1000) for n in range(5)]
    found, (ours, _) = asked(*gone, *measured(THEIRS, 30))
    assert (found.said, ours.p50_us) == (False, math.inf)
    (row, _) = rows_of(make_method(run_record(OURS).study.method), summarise(run_record(OURS, THEIRS), gone))
    assert row["p50_us"] is None  # JSON has no infinity


# What was said where nothing was shown (issue 31, C)


def means(rng: np.random.Generator, count: int, deviation: float) -> list[float]:
    return [10 * float(each) for each in np.exp(rng.normal(0, deviation, count))]


@pytest.mark.parametrize("apart", [1.05, 1.1, 1.3, 1.33])
@pytest.mark.parametrize("repetitions", [3, 8, 14, 40])
def test_runs_that_differ_by_a_third_say_nothing_however_many_repetitions(apart: float, repetitions: int) -> None:
    run = run_record(OURS, study=LATENCY)
    sides = [
        summarise(run, [trial(OURS, n, [round(1000 * us)] * 20) for n in range(repetitions)]) for us in (10, 10 * apart)
    ]
    found = compare_apart(sides[1][0], sides[0][0], "p50_us")
    assert found
    assert (found.better, found.alike) == (None, False)
    assert verdict(found) == "too little to tell: measure both in one run"


def test_runs_that_differ_by_three_times_do() -> None:
    run = run_record(OURS, study=LATENCY)
    before, after = (summarise(run, measured(OURS, us))[0] for us in (10, 30))
    found = compare_apart(after, before, "p50_us")
    assert found
    assert verdict(found) == "ovs-afxdp (before) is faster; to be sure, measure both in one run"


def test_ten_runs_that_differ_by_five_percent_show_no_step() -> None:
    """Their repetitions were samples of their own, and ten runs had 2.9 steps on average."""
    rng = np.random.default_rng(31)
    steps = 0
    for _ in range(60):
        series = [(str(n), n, [mean * times for times in (0.99, 1.0, 1.01, 1.0, 1.0)])
                  for n, mean in enumerate(means(rng, 10, 0.05))]  # fmt: skip
        steps += len(stretches(series, 1e3, more_is_better=False, difference=lambda one, other: {})) - 1
    assert steps <= 1  # repetitions as samples: 245; without the permutation test: 2
    clear = [(str(n), n, [(10.0 if n < 5 else 15.0) * (1 + n % 3 / 100)] * 5) for n in range(10)]
    assert [each.runs for each in stretches(clear, 1e3, more_is_better=False, difference=lambda one, other: {})] == [
        5,
        5,
    ]


def test_three_unlike_pairs_are_not_alike_and_pass_nothing() -> None:
    """Ratios of 10, 1 and 0.1 were "cannot be told apart", and Robot passed."""
    ours = [trial(OURS, n, [us * 1000] * 200) for n, us in enumerate((3, 10, 30))]
    theirs = [trial(THEIRS, n, [us * 1000] * 200) for n, us in enumerate((30, 10, 3))]
    found, _ = asked(*ours, *theirs, repetitions=3)
    assert found.comparison
    assert (found.comparison.alike, found.comparison.known, found.said) == (False, False, False)
    suite = XdplabLibrary()
    suite.read = a_run(run_record(OURS, THEIRS), answer=found)
    with pytest.raises(SkipExecution, match="too little to tell"):
        suite.question_was_answered()
    assert ratio(found.comparison).ratio == pytest.approx(1, rel=0.001)


@pytest.mark.parametrize(("times", "within", "alike"), [
    (1.0, 0.25, True), (1.08, 0.25, True), (1.12, 0.25, False), (1.0, 0.1, False), (1.12, 0.5, True),
])  # fmt: skip
def test_alike_is_an_interval_within_what_the_study_names(times: float, within: float, alike: bool) -> None:
    found, _ = asked(*measured(OURS, 3), *measured(THEIRS, 3 * times), alike_within=within)
    assert found.comparison
    assert (found.comparison.better, found.comparison.alike, found.said) == (None, alike, alike)
    assert ("no measurable difference" if alike else "too little to tell") in found.sentence


@pytest.mark.parametrize(("changes", "words"), [
    ({"loss_ratio": None}, "its loss is not known, and the study allows"),
    ({"sent": 100}, "none of 100 frames was lost, which shows a loss below 3 %"),
    ({"loss_ratio": 1 / 4000, "sent": 4000}, "only 1 of 4,000 frames was lost, which shows a loss below 0.12 %"),
    ({"loss_ratio": 2 / 4000, "sent": 4000}, "only 2 of 4,000 frames were lost, which shows a loss below 0.16 %"),
    ({"loss_ratio": 2 / 10_000, "sent": 10_000}, ""),
    ({"sent": 0}, "shows a loss below 100 %"),
    ({"sent": 10_000}, ""),
    ({"loss_ratio": 0.005, "sent": 10_000}, "loss 0.5 %, the study allows 0.1 %"),
])  # fmt: skip
def test_a_loss_that_was_not_shown_is_not_kept(changes: dict[str, Any], words: str) -> None:
    (one,) = summarise(run_record(OURS), measured(OURS, 3))
    said = loss_above(one.model_copy(update=changes), 0.001)
    assert words in said
    assert bool(said) is bool(words)
    assert loss_above(one.model_copy(update=changes), None) == ""


def test_an_ablation_of_what_took_all_that_was_sent_is_not_nil() -> None:
    ours, theirs = (searched(each, RATE, "tester") for each in two())
    alone = {"ndr_pps": compare_points(ours, theirs, "ndr_pps")}
    known = ours.measured["ndr_pps"]
    assert Variant(summary=ours, ndr=known, comparisons=alone).verdict().startswith("undecided: both figures are bou")
    _, (one, other) = asked(*measured(OURS, 3), *measured(THEIRS, 3))
    beside = {**alone, "p50_us": compare_points(one, other)}
    said = Variant(summary=ours, ndr=known, comparisons=beside).verdict()
    assert said.startswith("no difference seen in p50; ")
    assert said.endswith("undecided: NDR (both figures are bounds, and nothing says which is higher)")


def test_one_lossy_curve_of_five_is_not_the_median() -> None:
    """Curves that ended after two steps without loss left the median, and 3 % stood at 80 to 50 % of the load."""
    clause = "RFC 2544 26.3"
    whole = [
        {"load_pps": load, "loss_ratio": 0.0, "unsent": 0, "achieved_pps": load, "sent": 100, "lost": 0}
        for load in (1e6, 9e5)
    ]
    lossy = [{**whole[0], "load_pps": 1e6 - 1e5 * n, "loss_ratio": 0.03} for n in range(6)]
    trials = [
        trial(OURS, n, purpose="figures", result=None, clause=clause,
              figures={"points": lossy if n == 2 else whole, "two_without_loss": n != 2, "directions": 1})
        for n in range(5)
    ]  # fmt: skip
    curve = rfc2544_figures(trials).loss_curve
    assert [each.loss_ratio for each in curve] == [0.0] * 6
    assert [each.repetitions for each in curve] == [5, 5, 1, 1, 1, 1]


@pytest.mark.parametrize("stalls", [2, 20])
def test_a_stall_is_one_independent_sample(stalls: int) -> None:
    """Of 1 ms at 100 kpps: two counted 10.4, twenty 2.1."""
    waiting = [1_000_000 - 10_000 * n for n in range(100)] * stalls
    found = Distribution.merged([encoded([2000] * (100_000 - len(waiting)) + waiting)])
    for value_us in (50, 200, 500):
        assert found.independent_above(value_us, 100_000) == pytest.approx(stalls, rel=0.5)


def test_exports_of_one_clean_repetition_of_seven_are_doubtful() -> None:
    run = run_record(OURS, study={**LATENCY, "repetitions": 7})
    trials = spread(OURS, 3, [0.0, *[0.1] * 6])
    summaries = summarise(run, trials)
    why = "the machine disturbed 6 of 7 repetitions"
    (row,) = rows_of(make_method(run.study.method), summaries)
    assert row["doubts"].startswith(why)
    for form in ("csv", "json", "junit"):
        if form in FORMS:
            assert why in FORMS[form](run, summaries).decode(), form


def test_curves_of_two_loads_have_two_names() -> None:
    light, full = point(probe_pps=1000), point(probe_pps=100_000)
    run = [trial(at, 0, [2000] * 500, offered_pps=pps) for at, pps in ((light, 1e3), (full, 1e5))]
    record = run_record(light, full, study=LATENCY)
    (plots,) = latency_plots(make_method(record.study.method), summarise(record, run), run)
    ((data,),) = [re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', plots["distribution"])]
    names = {each["name"] for each in json.loads(data)["series"]}
    assert len(names) == 2
    assert all(any(name.endswith(f", {kpps} kpps") for name in names) for kpps in (1, 100))


def test_what_forbids_a_winner_is_asked_of_the_repetitions_that_decide() -> None:
    """Three clean ones had all of their load; four that decide with them, as a little disturbed, had not."""
    shares = [0, 0, 0, 0.02, 0.02, 0.02, 0.02]
    ours, theirs = spread(OURS, 3, shares), spread(THEIRS, 9, shares)
    short = [one.model_copy(update={"offered_pps": 1500.0}) if one.status == "disturbed" else one for one in ours]
    assert compared(ours, theirs).better is True
    found = compared(short, theirs)
    assert (found.basis, found.better) == ("bounds", None)
    assert "ovs-afxdp was sent" in found.hindrances[0]
    clean = compared([one for one in short if one.status == "ok"], theirs)
    assert clean.better is True
