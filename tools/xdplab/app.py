# SPDX-License-Identifier: Apache-2.0
"""What both front ends do: read a study, run it, read it again, draw the report."""

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdplab.analysis.answers.answer import UNTIL_DECIDED
from xdplab.analysis.doubts import loss_above
from xdplab.analysis.gate import BASE, LOOKS, NEW, GateResult, check_figure, judge_gate, not_measured
from xdplab.analysis.run import Run
from xdplab.analysis.sweep import sweep_sentence
from xdplab.forwarders import Forwarder, forwarder_spec
from xdplab.measure import make_method
from xdplab.measure.point import PointSummary
from xdplab.model import (
    InputError,
    Missing,
    Model,
    NothingMeasurable,
    NotThere,
    RunRecord,
    StudySpec,
    TestbedSpec,
    XdplabError,
    validated,
)
from xdplab.model.errors import meant
from xdplab.model.programs import refuse_programs
from xdplab.report import write_report
from xdplab.results import RunFolder, new_run
from xdplab.runner import Job, Listener, Plan, RunOutcome, StudyRun, make_plan, recover
from xdplab.testbed import Testbed, load_yaml, open_testbed, read_testbed
from xdplab.testers import Tester, make_tester
from xdplab.tools import results_folder as results_folder, studies_folder, testbeds_folder as testbeds_folder


@dataclass(frozen=True)
class Gate:
    """What `xdplab gate` is asked."""

    #: Forwarders, as a study has them in one line.
    base: str
    new: str
    #: As a ratio.
    max_slowdown: float
    study: str = "gate"
    #: Key of a figure of the study's method.
    metric: str = "p50_us"
    #: No round begins so long after the first one.
    limit_s: float = 330.0
    #: Keys of the study with other values.
    changes: Mapping[str, Any] = field(default_factory=dict)
    allowed_programs: Sequence[str] = ()


@dataclass(frozen=True)
class Prepared:
    """A study that has been read and checked; nothing has been changed yet."""

    study: StudySpec
    testbed: TestbedSpec
    testers: tuple[Tester, ...]
    plan: Plan


def study_files() -> dict[str, Path]:
    """Name -> file of the studies in `suites/studies`."""
    return {path.stem: path for path in sorted(studies_folder().glob("*.yaml"))}


def find_study(name_or_path: str) -> Path:
    """A file as given, or of that name in `suites/studies`, with or without its ending.

    Raises:
        InputError: a name alone, of which neither is there.
    """
    path, known = Path(name_or_path), study_files()
    if path.is_file() or path.name != name_or_path:
        return path
    found = known.get(name_or_path.removesuffix(".yaml"))
    if found is None:
        raise InputError(
            f"study {name_or_path!r}: no such file, and none of suites/studies{meant(path.stem, known)}; there are "
            f"{', '.join(known)}"
        )
    return found


def read_study(path: Path, changes: dict[str, Any] | None = None) -> StudySpec:
    """A study file with some keys replaced; a dotted key replaces inside (`method.duration_s`).

    Raises:
        InputError: the file or a replaced value is bad.
    """
    study = validated(StudySpec, _changed(path, changes), str(path))
    _check_path(study)
    if not changes or "forwarders" not in changes or "answer" in changes:
        study.check_answer()
        return study
    # a part of its forwarders needs no answer; two others are asked about themselves
    given = {name for each in study.all_forwarders for name in (each.title, each.name)}
    return study if given & set(study.answer or ()) else study.model_copy(update={"answer": None})


def _changed(path: Path, changes: dict[str, Any] | None) -> dict[str, Any]:
    data = load_yaml(path)
    for key, value in (changes or {}).items():
        where = data
        *parents, last = key.split(".")
        for parent in parents:
            where = where.setdefault(parent, {})
            if not isinstance(where, dict):
                raise InputError(f"{path}: {parent}: a mapping is expected where {key} is set")
        where[last] = value
    return data


def _check_path(study: StudySpec) -> None:
    """A path that the method would not take is not left out silently."""
    method = make_method(study.method)
    own = {path for each in study.all_forwarders for levels in method.levels(each) if (path := method.path(levels))}
    if own and not set(study.path) <= own:
        raise InputError(
            f"study {study.name}: path: {', '.join(study.path)}: method {study.method.name} has its own, "
            f"{' and '.join(sorted(own))}; leave path out"
        )


def with_forwarders(study: StudySpec, titles: Sequence[str]) -> StudySpec:
    """The study with only those of its forwarders.

    Raises:
        InputError: it has none of that title.
    """
    there = {forwarder.title: forwarder for forwarder in study.forwarders}
    for title in titles:
        if title not in there:
            raise InputError(f"study {study.name}: no forwarder {title!r}; there are {', '.join(there)}")
    return study.model_copy(update={"forwarders": tuple(there[title] for title in titles)})


def prepare(study: StudySpec, allowed_programs: Iterable[str] = ()) -> Prepared:
    """Check a study against its testbed and tester.

    `allowed_programs`: what may be started as root next to the programs of the distribution and our own builds.

    Raises:
        InputError: something in it cannot be, a part is missing, or it names a program that is not allowed.
    """
    study.check_references()
    testbed = read_testbed(study.testbed, testbeds_folder())
    study = study.on(testbed)
    testers = tuple(make_tester(name) for name in study.all_testers)
    plan = make_plan(study, testbed, *testers)
    trex = [(f"testbed {testbed.name}: trex", testbed.trex)] if testbed.trex else []
    refuse_programs([*_options(plan, testers), *trex], allowed_programs)
    return Prepared(study, testbed, testers, plan)


def _forwarders(plan: Plan) -> list[Forwarder[Any]]:
    """One for each set of options."""
    points = {point.forwarder.model_dump_json(): point for point in plan.points}
    return [plan.method.forwarder(point) for point in points.values()]


def _options(plan: Plan, testers: Iterable[Tester]) -> Iterator[tuple[str, Model]]:
    """Who has which options, of everything that the study may start."""
    for forwarder in _forwarders(plan):
        yield f"forwarder {forwarder.name}", forwarder.options
    for tester in testers:
        if isinstance(options := getattr(tester, "options", None), Model):
            yield f"tester {tester.name}", options


def survey(prepared: Prepared, listener: Listener) -> dict[str, str] | str:
    """Point -> why it cannot be measured here; or, as text, why the testbed cannot be asked.

    Raises:
        NotThere: what the study or the environment names is not there.
    """
    try:
        require_root(prepared.testbed)
        testbed, nowhere = _open(prepared), RunFolder(Path(os.devnull))
        job = Job("survey", prepared.study, prepared.plan, testbed, prepared.testers, nowhere, listener)
        return StudyRun(job).survey()
    except NotThere:
        raise
    except InputError as exc:
        return str(exc)


def run_study(
    prepared: Prepared,
    listener: Listener,
    results: Path,
    resume: RunFolder | None = None,
    *,
    recalibrate: bool = False,
    looks: Collection[int] = (),
    enough: Callable[[RunFolder, int, bool], bool] = lambda folder, rounds, failed: False,
) -> tuple[RunFolder, RunOutcome]:
    """Execute a prepared study into a new run folder (or go on with `resume`) and write its report.

    `recalibrate`: the testers' calibrations of earlier runs are not used (`runner.calibrations`). `looks`: rounds
    after which the run ends if its answer is decided. `enough`: asked after
    each round with what has been measured, how many rounds that is, and whether one failed; True ends the run.

    Raises:
        InputError: nothing was measured and no run folder is left behind; or `resume` was made on what is another
            machine, and nothing in it has been changed.
        Missing: the study's only tester is not on this machine, or no point can be measured on it.
    """
    require_root(prepared.testbed)
    done = recover(prepared.testbed)
    for line in done:
        listener.note(f"after a killed run: {line}")
    for forwarder in _forwarders(prepared.plan):
        forwarder.make(listener.note)
    testbed = _open(prepared)
    reasons = [tester.unsupported(testbed) for tester in prepared.testers]
    if all(reasons):
        raise Missing("; ".join(f"tester {t.name}: {r}" for t, r in zip(prepared.testers, reasons, strict=True)))
    folder = resume or new_run(results, prepared.study.name)
    job = Job(
        folder.name,
        prepared.study,
        prepared.plan,
        testbed,
        prepared.testers,
        folder,
        listener,
        earlier=folder.load() if resume else None,
        earlier_trials=folder.trials() if resume else (),
        recalibrate=recalibrate,
        enough=lambda rounds, failed: (rounds in looks and _decided(folder)) or enough(folder, rounds, failed),
    )
    try:
        outcome = StudyRun(job).execute()
    except BaseException:
        if resume is None and not folder.trials():
            folder.forget()
        raise
    try:
        write_report(Run.of(folder, outcome))
    except XdplabError:
        if outcome.error is None:  # else that error came first, and says what to do
            raise
    return folder, outcome


def looks_of(study: StudySpec) -> list[int]:
    """Rounds after which a run until its answer is decided is looked at; the last of them ends it.

    A look names a wrong winner with a chance of at most 1 - `CONFIDENCE`, so all of them do with 4 %.
    """
    return [times * study.repetitions for times in UNTIL_DECIDED]


def _decided(folder: RunFolder) -> bool:
    found = Run(folder.path, folder.load(), folder.trials()).answer
    compared = [each for each in (found.comparison, found.at_rate) if each is not None]
    return found.decided and not any(each.more_rounds for each in compared)


def run_gate(asked: Gate, listener: Listener, results: Path) -> GateResult:
    """Measure two forwarders in turns, round after round, until a verdict holds or the time is over.

    Where this machine can measure neither of the two, the verdict is `unsupported`.

    Raises:
        InputError: as of `read_study`, `prepare` and `run_study`; or the study's method has no such figure.
        XdplabError: the run broke off.
    """
    labels = ((BASE, asked.base), (NEW, asked.new))
    forwarders = [forwarder_spec(text).model_dump() | {"label": label} for label, text in labels]
    changes = {"repetitions": LOOKS[-1], **asked.changes, "forwarders": forwarders, "answer": [NEW, BASE]}
    prepared = prepare(read_study(find_study(asked.study), changes), asked.allowed_programs)
    check_figure(prepared.plan.method, asked.metric)
    if (settings := len(prepared.plan.points) // len(labels)) > 1:
        what = "a gate judges one; give one frame size, load, path, pipeline, tester and value of each knob"
        raise InputError(f"study {prepared.study.name}: {settings} settings of each forwarder: {what}")
    first_round = math.inf

    def verdict(folder: RunFolder, record: RunRecord) -> GateResult:
        run = Run(folder.path, record, folder.trials())
        return judge_gate(run, (asked.base, asked.new), asked.metric, asked.max_slowdown)

    def enough(folder: RunFolder, rounds: int, failed: bool) -> bool:
        nonlocal first_round
        first_round = min(first_round, time.monotonic())
        over = rounds >= LOOKS[-1] or time.monotonic() - first_round > asked.limit_s
        if failed or over or (rounds == 1 and folder.load().unsupported):
            return True
        if rounds not in LOOKS:
            return False
        found = verdict(folder, folder.load())
        listener.note(found.sentence)
        return found.verdict != "undecided"

    try:
        folder, outcome = run_study(prepared, listener, results, enough=enough)
    except NothingMeasurable as exc:
        return not_measured((asked.base, asked.new), asked.metric, asked.max_slowdown, str(exc))
    if outcome.interrupted or outcome.error:
        raise outcome.interrupted or outcome.error or XdplabError("gate: the run ended early")
    return verdict(folder, outcome.record)


def _open(prepared: Prepared) -> Testbed:
    """The study's testbed, with the tester's ports where its testers need them, and containers for its pipelines."""
    return open_testbed(
        prepared.testbed,
        one_tester_host=any(tester.one_host for tester in prepared.testers),
        pods=max(pipeline.pods for pipeline in prepared.study.pipeline),
    )


def require_root(testbed: TestbedSpec) -> None:
    """Real testbeds need root.

    Raises:
        InputError: this user is not root.
    """
    if testbed.kind == "embedded" and os.geteuid() != 0:
        raise InputError(f"testbed {testbed.name}: network namespaces and XDP need root; run it with sudo")


def study_of(folder: RunFolder) -> StudySpec:
    """The study that a run was started with, for resuming it."""
    return folder.load().study


def sweep_of(name: str, results: Path) -> Run:
    """A run whose sweep has an analysis: one for each path and traffic profile.

    Raises:
        InputError: too few configurations were measured, or not their latencies.
    """
    run = Run.named(name, results)
    if not run.sweeps:
        raise InputError(f"run {run.name}: {sweep_sentence(run.record, run.trials, run.sweeps)}")
    return run


def exit_code(outcome: RunOutcome, summaries: list[PointSummary]) -> int:
    """0 done; 1 the run broke, a point failed, or `complaints`; 130 interrupted."""
    if outcome.interrupted:
        return outcome.interrupted.exit_code
    if outcome.error:
        return outcome.error.exit_code
    return int(bool(complaints(outcome, summaries)) or any(summary.failed for summary in summaries))


def complaints(outcome: RunOutcome, summaries: list[PointSummary]) -> list[str]:
    """Faults of forwarders, and points of which the study's limit was not shown to be kept, a line each."""
    limit = outcome.record.study.max_loss_ratio
    above = [line for summary in summaries if (line := loss_above(summary, limit))]
    return [f"{summary.forwarder} {summary.fault}" for summary in summaries if summary.faults] + above
