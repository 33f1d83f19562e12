# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM become one exception, and never in the middle of putting things back or of starting a process."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, TypeVar

from xdplab.model import Interrupted


class _Stoppable(Protocol):
    def stop(self) -> int: ...


P = TypeVar("P", bound=_Stoppable)

_depth = 0
_pending: str | None = None


def _handle(number: int, _frame: FrameType | None) -> None:
    global _pending
    name = signal.Signals(number).name
    if _depth:
        _pending = name
        return
    raise Interrupted(f"ended by {name}; what was measured is kept")


@contextmanager
def interruptible() -> Iterator[None]:
    """Within: SIGINT and SIGTERM raise `Interrupted` in the main thread. Earlier handlers come back after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    saved = {number: signal.signal(number, _handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in saved.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Within: a signal waits until the block has ended; used while something is put back or made."""
    global _depth, _pending
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth and _pending:
            name, _pending = _pending, None
            raise Interrupted(f"ended by {name}; what was measured is kept")


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
