# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM become one exception, and never in the middle of putting things back."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from xdplab.model import Interrupted

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
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth and _pending:
            name, _pending = _pending, None
            raise Interrupted(f"ended by {name}; what was measured is kept")
