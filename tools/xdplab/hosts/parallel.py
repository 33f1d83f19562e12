# SPDX-License-Identifier: Apache-2.0
"""Several questions to hosts in parallel: each may go over a network, and none waits for the others."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run_parallel(*asks: Callable[[], Any]) -> list[Any]:
    """Their answers, in order; an error is raised once all have been answered. The last is asked by this thread."""
    *others, last = asks
    with ThreadPoolExecutor(max_workers=max(1, len(others))) as pool:
        asked = [pool.submit(ask) for ask in others]
        answer = last()
    return [*(one.result() for one in asked), answer]
