# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition, for the first line of a program, for the answers of several hosts; how a program ended."""

import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xdplab.hosts.base import Host, Running
from xdplab.model import LinkLost, PointFailed, XdplabError

POLL_S = 0.005


def comes_true(condition: Callable[[], bool], timeout_s: float, every_s: float = POLL_S) -> bool:
    """Poll `condition` until it holds; False: not within `timeout_s`. The pauses grow from 1 ms to `every_s`."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.001  # most of what is waited for takes less than `POLL_S`, and is asked often
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, every_s)
    return True


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll `condition` until it holds.

    Raises:
        PointFailed: it does not hold after `timeout_s`; `what` says for what was waited.
    """
    if not comes_true(condition, timeout_s):
        raise PointFailed(f"{what}: timed out after {timeout_s:g} s")


def said_something(host: Host, output: Path, process: Running, timeout_s: float) -> bool:
    """Wait for the first line of a program, which says that it is ready; False: it ended without, or was late."""

    def written() -> bool:
        return host.exists(output) and bool(host.read(str(output)))

    return comes_true(lambda: written() or process.poll() is not None, timeout_s) and written()


def how_it_ended(name: str, process: Running) -> str | None:
    """None while it runs, else a sentence."""
    code = process.poll()
    if code is None:
        return None
    if code < 0:
        return f"{name} was ended by signal {signal.Signals(-code).name}"
    return f"{name} ended with exit code {code}"


def stopped(host: Host, pids: Iterable[int]) -> str | None:
    """None, or which of these processes a signal has stopped: it neither ends nor does anything."""
    for pid in pids:
        try:
            name, _, state = host.read(f"/proc/{pid}/stat").partition("(")[2].rpartition(") ")
        except LinkLost:
            raise
        except XdplabError:
            continue  # it has ended
        if state[:1] in ("T", "t"):
            return f"{name} is stopped (process {pid}, state {state[0]}; kill -CONT {pid} lets it go on)"
    return None


def run_parallel(*asks: Callable[[], Any]) -> list[Any]:
    """Answers of hosts, in order: each question may go over a network, and none waits for the others.

    An error is raised once all have been answered. The last is asked by this thread.
    """
    *others, last = asks
    with ThreadPoolExecutor(max_workers=max(1, len(others))) as pool:
        asked = [pool.submit(ask) for ask in others]
        answer = last()
    return [*(one.result() for one in asked), answer]
