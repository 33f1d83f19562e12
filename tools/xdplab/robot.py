# SPDX-License-Identifier: Apache-2.0
"""Keywords for Robot Framework: thin, every keyword is a few calls of `app`.

One keyword runs a study; the others ask what came of it. Loops, arithmetic and parsing stay in Python.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from robot.api import FatalError, SkipExecution, logger
from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn, RobotNotRunningError

from xdplab import app
from xdplab.analysis.documents import reproduction
from xdplab.analysis.run import Run
from xdplab.analysis.sweep import SweepAnalysis
from xdplab.analysis.sweep.effects import p_words
from xdplab.analysis.words import with_reason
from xdplab.measure.datapath import offloaded
from xdplab.measure.point import PointSummary
from xdplab.model import InputError, Interrupted, Missing, Point, StudySpec, TrialRecord, XdplabError, plain
from xdplab.model.digits import duration
from xdplab.model.published import published_figure, span
from xdplab.report import describe
from xdplab.report.html import link_from, points_in_log, run_in_log
from xdplab.results import RunFolder, find_run
from xdplab.runner import Listener, Plan

__all__ = ["XdplabLibrary"]


class RobotListener(Listener):
    """Progress as lines on the console; Robot's own output has no bar to move."""

    def __init__(self) -> None:
        self._left_s = 0.0
        self._called: Callable[[Point], str] = lambda point: point.title

    def begin(self, plan: Plan, left: int, seconds: float) -> None:
        self._called = plan.called
        self.note(f"{left} repetitions over {len(plan.points)} points, about {duration(seconds)}")

    def note(self, text: str) -> None:
        logger.info(plain(text))
        logger.console(f"  {plain(text)}")

    def progress(self, text: str) -> None:
        """A line on the console, not in the log."""
        logger.console(f"  {text}")

    def starting(self, point: Point, repetition: int, number: int, of: int, left_s: float) -> None:
        """Remember the time left for the trial's line."""
        self._left_s = left_s

    def trial(self, point: Point, record: TrialRecord) -> None:
        left = duration(self._left_s)
        self.note(f"{self._called(point)} #{record.repetition + 1}: {describe(record)}   [left {left}]")


def _unfinished(name: str, study: StudySpec, changes: dict[str, Any]) -> RunFolder:
    """The run to go on with.

    Raises:
        InputError: it is of another study, or variables would change it.
    """
    found = find_run(name, app.results_folder())
    theirs = app.study_of(found).name
    if theirs != study.name:
        raise InputError(f"RESUME: run {found.name} is of study {theirs}, and this suite runs {study.name}")
    if changes:
        raise InputError(f"RESUME: a run goes on with its own study; leave out {', '.join(changes)}")
    return found


#: Statuses of a point that has its figures.
_MEASURED = ("ok",)


@library(scope="SUITE", auto_keywords=False)
class XdplabLibrary:
    """Keywords of the suites. A study is run once per suite; its rows are the tests."""

    ROBOT_LIBRARY_VERSION: ClassVar[str] = "1"

    def __init__(self) -> None:
        #: What the last study came to.
        self.read: Run | None = None

    @property
    def _run(self) -> Run:
        assert self.read is not None, "run a study first"
        return self.read

    @keyword
    def run_study(self, study_file: str, /, only: Sequence[str] = (), resume: str = "", **changes: Any) -> None:
        """Execute a study file, with some of its keys replaced (`repetitions=3`, `traffic.probe_pps=50000`).

        `only`: titles of the forwarders to keep. `resume`: a run of this study to go on with, however it ended, with
        the study as that run has it. Empty values are left out, so that a suite's variables may be empty.
        Programs that options name must be in the variable ALLOW_PROGRAM, one or several with blanks between.
        Bad input ends the whole suite; where this machine has not got what all of it needs, such as an optional
        program, it is skipped with what that is.
        """
        try:
            given = {key: value for key, value in changes.items() if value not in ("", None, [])}
            study = app.read_study(app.find_study(study_file), given)
            study = app.with_forwarders(study, only) if only else study
            unfinished = _unfinished(resume, study, given) if resume else None
            prepared = app.prepare(app.study_of(unfinished) if unfinished else study, _allowed_programs())
            folder, outcome = app.run_study(prepared, RobotListener(), app.results_folder(), unfinished)
        except Missing as exc:
            raise SkipExecution(str(exc)) from None
        except (XdplabError, Interrupted) as exc:
            raise FatalError(plain(str(exc))) from None
        except OSError as exc:
            raise FatalError(f"{exc.filename or 'system call'}: {exc.strerror}") from None
        self.read = read = Run.of(folder, outcome)
        link = link_from(_log_folder(), folder.report)
        _log(run_in_log(read.method, read.points, read.answer.sentence, folder.report, link))
        if _log_folder():  # what Robot shows above everything else; a link of its own form
            BuiltIn().set_suite_metadata(f"Report of {folder.name}", f"[{link}|report.html]")
        logger.console(f"  {read.answer.text()}\n  report {folder.report}")
        ended = outcome.interrupted or outcome.error
        if isinstance(ended, Interrupted):
            raise FatalError(str(ended))
        if ended:
            raise AssertionError(str(ended))

    @keyword
    def forwarder_was_measured(self, title: str) -> None:
        """Pass when every point of that forwarder was measured; skip with the reason when it is not supported here."""
        self._measured(title, "FORWARDERS")

    def _measured(self, title: str, variable: str) -> None:
        points = [summary for summary in self._run.points if summary.forwarder == title]
        if not points:
            raise SkipExecution(f"{title} was not asked for (variable {variable})")
        for point in points:
            if point.status == "unsupported":
                raise SkipExecution(f"unsupported: {point.reason}")
        self._log_points(points)
        for point in points:
            _passed(point)

    def _log_points(self, points: Sequence[PointSummary]) -> None:
        _log(points_in_log(self._run.method, points))

    @keyword
    def case_was_measured(self, title: str) -> None:
        """The same where a forwarder has several points: skip when none of them is supported here."""
        self._case(title, [summary for summary in self._run.points if summary.forwarder == title])

    @keyword
    def work_was_measured(self, pipeline: str) -> None:
        """Pass when every forwarder that can do this pipeline was measured; skip when none of them can here."""
        self._case(pipeline, [summary for summary in self._run.points if summary.pipeline == pipeline])

    def _case(self, title: str, points: Sequence[PointSummary]) -> None:
        if not points:
            raise SkipExecution(f"{title} is not part of this study")
        if all(point.status == "unsupported" for point in points):
            raise SkipExecution(f"unsupported: {points[0].reason}")
        bad = [
            f"{' '.join(map(str, point.levels.values()))}: {point.status}: {point.reason}" for point in points
            if point.status not in (*_MEASURED, "unsupported")
        ]  # fmt: skip
        bad += [f"{' '.join(map(str, point.levels.values()))}: {point.fault}" for point in points if point.faults]
        if bad:
            raise AssertionError(f"{title}: {'; '.join(bad)}")
        self._log_points(points)

    @keyword
    def findings_are_logged(self) -> None:
        """Log what the method adds to the answer, such as the order of modes next to the published one; no gate."""
        found = self._run.findings
        if not found:
            raise SkipExecution("the method has nothing to add to the answer")
        for line in found:
            logger.info(line)
            logger.console(f"  {line}")

    @keyword
    def flows_forwarded_in_xdp(self, title: str) -> None:
        """Pass when most frames of that forwarder met a flow in XDP, by its ports' counters; how fast is no gate.

        Those that did not, such as the first of each flow, went to the socket. Skips as `Case Was Measured`.
        """
        points = [point for point in self._run.points if point.forwarder == title]
        self._case(title, points)
        for point in points:
            if point.status != "unsupported":
                found = offloaded(self._run.by_point.get(point.point_id, ()))
                if found is None or found.met <= found.left:
                    raise AssertionError(f"{title}: {found.text() if found else 'no frame met a flow in XDP'}")
                logger.info(f"{title}: {found.text()}")

    @keyword
    def every_forwarder_was_measured(self) -> None:
        """Pass when each supported point of the run was measured, also those without a row of their own."""
        self._log_points(self._run.points)
        for point in self._run.points:
            if point.status != "unsupported":
                _passed(point)

    @keyword
    def every_tester_measured(self) -> None:
        """Pass when each tester of the study measured a point; skip with the reason when one is not on this machine."""
        for tester in self._run.record.study.all_testers:
            points = [point for point in self._run.points if point.tester in (tester, "")]
            if not any(point.repetitions for point in points):
                raise SkipExecution(f"{tester}: {points[0].reason}")

    @keyword
    def part_was_measured(self, *name: str) -> None:
        """Log what came of a part of the method (`throughput`, `bpf`, `firewall    xdp`); else skip with why."""
        title = ", ".join(name)
        found = self._run.method.part(self._run.record, self._run.points, *name)
        if found.points is not None:
            self._case(title, found.points)
        if found.without:
            raise SkipExecution(f"{title}: {found.without}")
        for line in found.lines:
            logger.info(f"{title}: {line}")
            logger.console(f"  {title}: {line}")
        if found.failed:
            raise AssertionError(f"{title}: {found.failed}")

    @keyword
    def published_figure_stands_beside_ours(self, reference: str) -> None:
        """Pass when the figure's ratio may be said at one setting at least; each setting is on the console.

        What was measured must have been measured well; what this machine cannot do is reported with its reason.
        """
        found = reproduction(*published_figure(reference), self._run.record, self._run.points)
        if not found.rows:
            raise SkipExecution(f"{reference}: none of {', '.join(found.published.forwarders)} was asked for")
        for row in found.rows:
            for one in row.ratios:
                published, compared = one.published, one.comparison
                here = with_reason(compared) if compared else "; ".join(sorted(set(row.missing.values()))) or "–"
                line = f"{row.setting}: {published.of} over {published.to}: {here}"
                logger.info(line)
                logger.console(f"  {line}   [published {span(published.ratio)}]")
        for point in self._run.points:
            if point.forwarder in found.published.forwarders and point.status != "unsupported":
                _passed(point)
        compared_here = [one.comparison for row in found.rows for one in row.ratios if one.comparison]
        if not compared_here:
            raise SkipExecution(f"{reference}: no ratio could be measured here")
        if all(one.blockers for one in compared_here):
            raise SkipExecution(f"{reference}: {with_reason(compared_here[0])}")

    @keyword
    def variant_was_compared(self, title: str) -> None:
        """Log what a variant contributes against the study's reference; skip with the reason when unsupported."""
        self._measured(title, "VARIANTS")
        self.part_was_measured(title)

    @keyword
    def unsupported_points_have_reasons(self) -> None:
        """Log why points could not be measured; pass when each has a reason, skip when all could be measured."""
        points = [point for point in self._run.points if point.status == "unsupported"]
        if not points:
            raise SkipExecution("every point could be measured here")
        for reason, count in Counter(point.reason for point in points).most_common():
            logger.info(f"{count} points: {reason}")
        if any(not point.reason for point in points):
            raise AssertionError("a point is unsupported without a reason")

    @keyword
    def sweep_was_analysed(self) -> None:
        """Log what was found; skip with too little to say."""
        for found in self._analysed():
            for line in found.summary:
                logger.info(line)

    @keyword
    def setting_matters(self, name: str) -> None:
        """Pass when the analysis finds that this setting matters; skip when it does not vary or cannot be judged."""
        for found in self._analysed():
            one = next((each for each in found.importance if each.factor == name), None)
            if one is None:
                raise SkipExecution(f"{name} does not vary in this run")
            if one.undecided:
                raise SkipExecution(f"{found.title}: {name}: {one.verdict}: {one.why}")
            chance = "" if one.p is None else f", p {p_words(one.p)}"
            logger.info(f"{name}: {one.verdict}{chance}")
            if not one.matters:
                raise AssertionError(f"{name}: {one.verdict}: {one.why}")

    def _analysed(self) -> list[SweepAnalysis]:
        if not self._run.sweeps:
            raise SkipExecution(self._run.answer.sentence)
        return self._run.sweeps

    @keyword
    def question_was_answered(self) -> str:
        """Return the report's first sentence; skip with it when it says why nothing is decided."""
        if not self._run.answer.decided:
            raise SkipExecution(self._run.answer.sentence)
        logger.info(self._run.answer.text())
        return self._run.answer.sentence


def _passed(point: PointSummary) -> None:
    if point.status not in _MEASURED:
        raise AssertionError(f"{point.forwarder}: {point.status}: {point.reason}")
    if point.faults:
        raise AssertionError(f"{point.forwarder} {point.fault}")


def _allowed_programs() -> list[str]:
    """Of the command line: `-v ALLOW_PROGRAM:/opt/ovs`, or several with blanks between."""
    return str(BuiltIn().get_variable_value("${ALLOW_PROGRAM}", "")).split() if _log_folder() else []


def _log(html: str) -> None:
    """Into the log as it is: a template has escaped what comes from outside."""
    logger.write(html, html=True)


def _log_folder() -> Path | None:
    """Where the log of this run of Robot will be; None where Robot does not run."""
    try:
        return Path(str(BuiltIn().get_variable_value("${OUTPUT DIR}")))
    except RobotNotRunningError:
        return None
