# SPDX-License-Identifier: Apache-2.0
"""`xdplab run --dry-run`: no two points look the same, and of a run that goes on only what is left is told."""

from collections.abc import Callable
from pathlib import Path

from lab import micro_records, studies
from lab.command import Done

from xdplab import app
from xdplab.analysis import summarise
from xdplab.analysis.columns import cells_of, datapath_cells
from xdplab.cli.study import ConsoleListener, plan_table
from xdplab.measure import make_method
from xdplab.measure.datapath import DatapathStats
from xdplab.model import StudySpec, validated
from xdplab.model.design import UNSET
from xdplab.runner import Plan, make_plan
from xdplab.runner.plan import Repetition
from xdplab.runner.turns import MOST_BESIDE, in_groups
from xdplab.testers import make_tester


def test_no_two_points_look_the_same() -> None:
    study = studies.study(
        forwarders=[{"name": "fake", "label": "one"}],
        options={"fake": {"base_latency_us": [3.0, 9.0]}},
        pipeline=["cross", "bridge"],
    )
    plan = make_plan(study, studies.a_testbed(), make_tester("fake"))
    head, *rows = plan_table(plan, study, {}).splitlines()
    assert head.split() == ["forwarder", "pipeline", "path", "bytes", "probes", "settings"]
    assert len(set(rows[:4])) == len(plan.points) == 4
    assert sum("base_latency_us=9.0" in row and "  bridge  " in row for row in rows[:4]) == 1


#: Of one size, with as many flows, at one rate.
LOADS = [{"flow_choice": "zipf"}, {"flow_choice": "uniform"}, {"dscp": 10}]


def test_points_that_differ_in_what_frames_carry_can_be_reported_apart(
    cli: Callable[..., Done], tmp_path: Path, results: Path
) -> None:
    """In the plan, in progress, in the tables and in findings."""
    method = {"name": "changes", "kinds": ["rules", "hit-rule"]}
    traffic = {"probe_pps": 1000, "flows": 100}
    study = studies.study(forwarders=["fake"], traffic=traffic, loads=LOADS, method=method, repetitions=3)
    plan = make_plan(study, studies.a_testbed(), make_tester("fake"))
    rows = plan_table(plan, study, {}).splitlines()[1:7]
    assert len(set(rows)) == len({plan.called(point) for point in plan.points}) == 6
    assert all(" flows=100" in row or "  flows=100" in row for row in rows)
    with ConsoleListener() as listener:
        folder, _ = app.run_study(app.prepare(study), listener, results)
    run, points = folder.load(), summarise(folder.load(), folder.trials())
    changes = make_method(run.study.method)
    cells = cells_of(changes, points)
    assert cells["profile"] == [
        f"{key}={value}" for load in LOADS for key, value in load.items() for _ in method["kinds"]
    ]
    assert len(set(changes.findings(run, points))) == 6
    met = [point.model_copy(update={"datapath": DatapathStats(frames=1)}) for point in points]
    assert len(set(zip(*datapath_cells(met).values(), strict=True))) == 6
    assert len({", ".join(point.settings) for point in points}) == 6


def test_a_method_that_floods_has_no_probes() -> None:
    data = micro_records.study(repetitions=1)
    points = tuple(micro_records.points_of(data))[:1]
    study = validated(StudySpec, data, "study")
    plan = Plan(points, tuple(Repetition(point, 0) for point in points), make_method(study.method))
    text = plan_table(plan, study, {})
    assert "probes" not in text
    assert "pps" not in text
    assert "\n1 point, design factorial\n1 repetition of each, 1 in all, " in text


def test_a_run_that_goes_on_shows_what_is_left(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    cli("run", studies.study_file(tmp_path))
    out = cli("run", "--resume", "latest", "--dry-run").out
    assert "\n2 repetitions of each, 4 in all, 0 of them still to do, 0 s of traffic" in f"\n{out}"
    assert "fake" not in out
    journal = studies.only_run(results).path / "trials.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))  # not that repetition's end
    out = cli("run", "--resume", "latest", "--dry-run").out
    assert "4 in all, 1 of them still to do" in out
    assert sum(line.startswith("fake") for line in out.splitlines()) == 1


def test_it_says_which_points_stand_side_by_side() -> None:
    turns = {"name": "latency", "turns": 5}
    few = studies.study(testbed="embedded", tester="xdpgen", forwarders=["xdp", "linux-bridge"], method=turns)
    many = few.model_copy(
        update={"pipeline": validated(StudySpec, {**studies.FAKE, "pipeline": PIPELINES}, "s").pipeline}
    )
    testbed, tester = studies.a_testbed("embedded"), make_tester("xdpgen")

    def said(study: StudySpec, kind: str = "embedded") -> str:
        return plan_table(make_plan(study, testbed, tester), study, {}, kind=kind).splitlines()[-1]

    assert said(few) == "2 points side by side, 5 turns in each repetition"
    alone = "points one after another: its ports are there once, 5 turns in each repetition"
    assert said(few, "hosts") == alone
    groups = f"points side by side in {len(PIPELINES)} groups of up to 2"
    assert said(many) == f"{groups}, 5 turns in each repetition"
    system = few.model_copy(update={"knobs": {"sysctl_busy_read_us": (UNSET, 50)}})
    assert said(system) == "points side by side in 2 groups of up to 2, 5 turns in each repetition"
    pages = few.model_copy(update={"knobs": {"hugepages_2m": (UNSET, 4)}})
    named = "xdp, hugepages_2m=4; linux-bridge, hugepages_2m=4"
    apart = f"2 by themselves ({named}): each needs hugepages_2m of its own"
    assert said(pages) == f"2 points side by side, {apart}, 5 turns in each repetition"
    two = few.model_copy(update={"forwarders": few.forwarders[:1], "knobs": system.knobs})
    named = "xdp, sysctl_busy_read_us=unset; xdp, sysctl_busy_read_us=50"
    assert said(two) == f"2 by themselves ({named}): nothing is left to stand beside them, 5 turns in each repetition"


def test_who_stands_side_by_side() -> None:
    """Those of a setting; of a sweep as many as there is room for; each by itself if said so."""
    testbed, tester = studies.a_testbed("embedded"), make_tester("xdpgen")
    pipelines = validated(StudySpec, {**studies.FAKE, "pipeline": PIPELINES}, "s").pipeline
    study = studies.study(testbed="embedded", tester="xdpgen", forwarders=["xdp", "linux-bridge"])
    study = study.model_copy(update={"pipeline": pipelines})
    plan = make_plan(study, testbed, tester)

    def sizes(given: StudySpec, alone: str = "") -> list[int]:
        groups = in_groups(plan, given, plan.order, alone)
        assert sorted((each for group in groups for each in group), key=repr) == sorted(plan.order, key=repr)
        assert all(len({each.number for each in group}) == 1 for group in groups)
        return [len(group) for group in groups]

    assert sizes(study) == [2] * (study.repetitions * len(PIPELINES))
    swept = validated(StudySpec, {**studies.FAKE, "sweep": {}}, "s").sweep
    assert sizes(study.model_copy(update={"sweep": swept})) == [MOST_BESIDE, 2] * study.repetitions
    assert set(sizes(study, "its ports are there once")) == {1}


#: Each another piece of work.
PIPELINES = ["cross", "bridge", "vlan", "route:10", "acl:10x2", "nat", "conntrack"]
