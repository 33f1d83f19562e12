# SPDX-License-Identifier: Apache-2.0
"""A trial in which the forwarder carries out a change; what it does is read back before anything is a figure."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from xdplab.forwarders.base import NewFlows
from xdplab.forwarders.changes import Change, Changing, Step
from xdplab.hosts import SshHost
from xdplab.hosts.waiting import wait_until
from xdplab.measure.method import MethodResult, Session
from xdplab.methods.changes.figures import ChangeRecord, NewFlowsRecord, StepDone
from xdplab.model import PointFailed, TrialResult, TrialSpec, Unsupported, XdplabError

#: From the beginning of the trial to that of the change.
LEAD_S = 0.2
#: How long a step may take to be seen, once the forwarder has said that it is done.
_SEEN_S = 2.0
#: Of the flows that came through, as many were new at the least: one may have been seen before, and one may end.
_NEW_SHARE = 0.98
#: How often a trial is taken whose traffic began behind the change: a machine that stood still.
_ATTEMPTS = 3


class _TooEarly(PointFailed):
    """The change began before the traffic that is counted."""


def with_change(session: Session, asked: TrialSpec, kind: str, rules: int) -> TrialResult:
    """One trial; another where the traffic came late, which says nothing of the change, and is not journaled.

    Raises:
        PointFailed: the change failed, did not happen, or was not within the traffic.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(_TooEarly):
            return session.measure_by(asked, lambda: _once(session, asked, kind, rules), kind)
    return session.measure_by(asked, lambda: _once(session, asked, kind, rules), kind)


def with_new_flows(session: Session, asked: TrialSpec) -> MethodResult:
    """One trial in which each frame is the first of its flow.

    Raises:
        PointFailed: they were not new to the forwarder, by what it tells.
    """
    counts = session.forwarder if isinstance(session.forwarder, NewFlows) else None
    before = counts.flows_met() if counts else None
    result = session.send(asked)
    after = counts.flows_met() if counts else None
    if before is None or after is None:
        return MethodResult(result, NewFlowsRecord(text=f"{result.received} new flows came through", flows_met=None))
    met = after - before
    if met < _NEW_SHARE * result.received:
        raise PointFailed(f"the flows were not new to it: only {met} of {result.received} frames were of new flows")
    return MethodResult(result, NewFlowsRecord(text=f"{met} new flows", flows_met=met))


def _once(session: Session, asked: TrialSpec, kind: str, rules: int) -> MethodResult:
    if not isinstance(session.forwarder, Changing):
        raise Unsupported(f"{session.forwarder.name}: it carries out no change")
    change = session.forwarder.change(kind, rules)
    simulated = session.dut.ports[0].simulated  # a simulated trial takes no time, and knows what was changed before it
    began = time.monotonic()
    last = began + asked.warmup_s + asked.duration_s
    try:
        if simulated:
            done = _rounds(change, began, began)
            result, ended = session.send(asked), time.monotonic()
        else:
            with ThreadPoolExecutor(1) as pool:  # it ends before anything is undone
                changing = pool.submit(_rounds, change, began + asked.warmup_s + LEAD_S, last - LEAD_S)
                result, ended = session.send(asked), time.monotonic()
                done = changing.result()
    except BaseException:
        with suppress(XdplabError):  # what went wrong is reported, not what followed from it
            change.undo()
        raise
    change.undo()
    first_s, last_s, figures = done
    found = MethodResult(result, figures)
    if simulated:
        return found
    begin_s, end_s = ended - result.elapsed_s, began + asked.warmup_s + result.elapsed_s  # the latest, and the soonest
    if "started_ns" in result.detail and not isinstance(session.client.host, SshHost):  # by the same clock
        begin_s = result.detail["started_ns"] / 1e9
        end_s = begin_s + result.elapsed_s
    if first_s < begin_s:
        raise _TooEarly("the change began before the measured traffic: repeat on an idle machine")
    if last_s > end_s:
        raise PointFailed(
            f"the change took {last_s - first_s:.3g} s and ended after the traffic: raise method.duration_s (once_s of "
            "what is done once), or repeat on an idle machine"
        )
    return found


def _rounds(change: Change, begin_s: float, end_s: float) -> tuple[float, float, ChangeRecord]:
    """When the first step began and the last had ended, and what was done; times of `time.monotonic`."""
    time.sleep(max(0.0, begin_s - time.monotonic()))
    steps = {step.name: StepDone(count=0, s=0.0) for step in change.steps}
    first_s, rounds = time.monotonic(), 0
    while not rounds or (change.often and _fits(time.monotonic(), first_s, rounds, end_s)):
        for step in change.steps:
            done = steps[step.name]
            steps[step.name] = StepDone(count=done.count + step.count, s=done.s + _timed(step.act))
            _be_sure(step)
        rounds += 1
    last_s = time.monotonic()
    returned = ", ".join(f"{name} {each.count} in {each.s * 1e3:.4g} ms" for name, each in steps.items())
    return first_s, last_s, ChangeRecord(text=returned, rounds=rounds, steps=steps)


def _fits(now_s: float, first_s: float, rounds: int, end_s: float) -> bool:
    """Whether one more is over in time, if it takes what the others did."""
    return now_s + (now_s - first_s) / rounds < end_s


def _timed(act: Callable[[], float | None]) -> float:
    began = time.monotonic()
    returned = act()
    return time.monotonic() - began if returned is None else returned


def _be_sure(step: Step) -> None:
    if not (missing := step.missing()):
        return
    try:
        wait_until(lambda: not step.missing(), _SEEN_S, step.name)
    except PointFailed:
        raise PointFailed(f"the change was accepted but did not happen: {step.missing() or missing}") from None
