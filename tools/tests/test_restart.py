# SPDX-License-Identifier: Apache-2.0
"""The restart within a trial of RFC 2544 section 26.6: what it raises comes back, and it ends with the trial."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from xdplab.model import HostLost, InputError, Interrupted, PointFailed, TrialResult, TrialSpec
from xdplab.runner.session import PointSession
from xdplab.testers import TesterContext


class Session(PointSession):
    """Without a testbed: what of the restart raises, and what the tester does."""

    def __init__(self, stop: Any, run: Any) -> None:
        self.started = 0
        self._forwarder = SimpleNamespace(stop=stop)  # type: ignore[assignment]
        self._tester = SimpleNamespace(run=run, simulated=False)  # type: ignore[assignment]
        self._dut = SimpleNamespace(host=SimpleNamespace(remove_folder=lambda _: None), rundir=None, ports=())  # type: ignore[assignment]

    def _wait_for_queues(self) -> None: ...

    def _remove_links(self) -> None: ...

    def _start_again(self) -> int:
        self.started += 1
        return time.monotonic_ns()

    def _context(self, trial: str) -> TesterContext:
        return TesterContext(None, None, "", None, None)  # type: ignore[arg-type]

    def restart(self, after_s: float) -> TrialResult:
        return self._run_with_restart(TrialSpec(streams=(), duration_s=1, warmup_s=0), after_s, "0.0")


def result(*_: Any) -> TrialResult:
    return TrialResult(tester="t", sender="s", elapsed_s=1, streams=())


def after(event: threading.Event) -> Any:
    """A tester whose trial lasts until then."""
    return lambda *_: event.wait(30) and result()


@pytest.mark.parametrize(
    "failure",
    [
        HostLost("b: gone"),
        InputError("bad"),
        Interrupted("SIGINT"),
        PointFailed("dead"),
        ZeroDivisionError("ours"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_a_restart_raises_comes_back_as_itself(failure: Exception) -> None:
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        raise failure

    with pytest.raises(type(failure)) as caught:
        Session(stop, after(stopped)).restart(0.0)
    assert caught.value is failure


def test_a_trial_that_ends_early_takes_its_restart_along() -> None:
    session = Session(lambda: pytest.fail("stopped"), result)
    began = time.monotonic()
    with pytest.raises(PointFailed, match="the trial ended before it"):
        session.restart(3600.0)
    assert time.monotonic() - began < 600

    def broken(*_: Any) -> TrialResult:
        raise Interrupted("SIGINT")

    with pytest.raises(Interrupted):
        Session(lambda: pytest.fail("stopped"), broken).restart(3600.0)
    assert session.started == 0


def test_a_restart_that_has_begun_is_waited_for() -> None:
    stopped = threading.Event()
    session = Session(stopped.set, after(stopped))
    assert session.restart(0.0).restart_own_ns is not None
    assert session.started == 1


def test_links_are_remembered_at_each_start() -> None:
    """A restart removes them and creates them again; after kill -9 the state file did not name them."""
    kept: dict[str, list[str]] = {}
    started: list[str] = []
    forwarder = SimpleNamespace(own_links=("xdplab0", "there"), start=lambda _: started.append(str(kept["links"])))
    session: Any = SimpleNamespace(
        _links_before={"there"}, _middle=SimpleNamespace(lasting=True), _forwarder=forwarder,
        _dut=SimpleNamespace(host=SimpleNamespace(make_folder=lambda _: None), rundir=None),
        _testbed=SimpleNamespace(lock=SimpleNamespace(remember=lambda **state: kept.update(state))),
    )  # fmt: skip
    for _ in range(2):
        PointSession._start(session)
        kept["links"] = []  # as a restart does
    assert started == ["['xdplab0']"] * 2
