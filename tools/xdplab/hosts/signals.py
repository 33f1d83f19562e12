# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM and SIGHUP become one exception, never while things are put back or a process is started.

The third signal gives up, whatever is being waited for: the process ends at once, and with it what it has running. A
closed terminal (SIGHUP) is a wish to end, and takes no more output.
"""

import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol, TypeVar

from xdplab.model import Interrupted, XdplabError


class _Stoppable(Protocol):
    def stop(self) -> int: ...


P = TypeVar("P", bound=_Stoppable)

_GIVES_UP = 3

_depth = 0
_pending: str | None = None
#: How many have come, what to do after the last one, and which of our outputs are terminals.
_came = 0
_advice = ""
_terminals: tuple[int, ...] = ()
#: What `Interrupted` was raised for, in this `interruptible`.
_raised = ""
#: Called before the process exits at the third signal.
_before_exit: list[Callable[[], None]] = []


def _handle(number: int, _frame: FrameType | None) -> None:
    global _came, _pending, _raised
    _came += 1
    name = signal.Signals(number).name
    if number == signal.SIGHUP:
        _leave_terminals()
    if _depth and _came >= _GIVES_UP:
        for call in _before_exit:
            with suppress(OSError):
                call()
        _say(f"xdplab: given up by {name}: not everything is put back{_advice}")
        os._exit(Interrupted.exit_code)
    if _depth:
        _pending = name
        if _came == _GIVES_UP - 1:
            _say("still putting back what was changed; the next signal gives up")
        return
    _raised = name
    raise _interrupted(name)


def _interrupted(name: str, failed: str = "") -> Interrupted:
    return Interrupted(f"ended by {name}; what was measured is kept{failed}")


def check_interrupted() -> None:
    """Asked before each trial: a clean-up that failed may have raised an error of its own in its place.

    Raises:
        Interrupted: it was raised before, and the run has gone on.
    """
    if _raised:
        raise _interrupted(_raised)


def _say(line: str) -> None:
    """On a line of its own, with the cursor that a bar has hidden; whatever is being printed now."""
    cursor = "\x1b[?25h" if 2 in _terminals else ""
    with suppress(OSError):
        os.write(2, f"{cursor}\n{line}\n".encode())


def _leave_terminals() -> None:
    """Writing to a closed one fails, which must not get in the way of what is to be done."""
    null = os.open(os.devnull, os.O_WRONLY)
    for fd in _terminals:
        os.dup2(null, fd)
    os.close(null)


@contextmanager
def interruptible(testbed: str = "...") -> Iterator[None]:
    """Within: SIGINT, SIGTERM and SIGHUP raise `Interrupted` in the main thread. Earlier handlers come back after it.

    SIGHUP that is ignored stays so (nohup). `testbed`: as `--testbed` has it, to advise who gives up; empty: no advice.
    """
    global _came, _advice, _terminals, _raised
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _raised = ""
    _came, _terminals = 0, tuple(fd for fd in (1, 2) if os.isatty(fd))
    _advice = f"; `xdplab restore --testbed {shlex.quote(testbed)}` does it" if testbed else ""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    saved = {number: signal.signal(number, _handle) for number in numbers}
    try:
        yield
    finally:
        _raised = ""
        for number, handler in saved.items():
            signal.signal(number, handler)


@contextmanager
def giving_up(call: Callable[[], None]) -> Iterator[None]:
    """Within: `call` runs before the process exits at the third signal."""
    _before_exit.append(call)
    try:
        yield
    finally:
        _before_exit.remove(call)


@contextmanager
def deferred() -> Iterator[None]:
    """Within: a signal waits until the block has ended; used while something is put back or made.

    Raises:
        Interrupted: one came; with what the block itself raised of ours.
    """
    global _depth, _pending, _raised
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    _depth += 1
    failed = ""
    try:
        yield
    except XdplabError as exc:
        failed = f"; {exc}"
        raise
    finally:
        _depth -= 1
        if not _depth and _pending:
            _raised, _pending = _pending, None
            raise _interrupted(_raised, failed)


def started(start: Callable[[], P]) -> P:
    """What `start` starts. A signal that comes meanwhile cannot lose the process: it is ended first."""
    process: P | None = None
    try:
        with deferred():
            process = start()
    except Interrupted:
        if process is not None:
            process.stop()
        raise
    return process
