# SPDX-License-Identifier: Apache-2.0
"""For all tests: how what they start takes signals, and which of them have the CPU when several want it."""

import os
import re
import signal
from pathlib import Path

import pytest

for _ignored in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        # Goes on for pytest; a program that it starts has the default, for a handler does not outlive exec().
        signal.signal(_ignored, lambda *_: None)

#: Groups of tests that send frames, or are timed: tools/tests/conftest.py, bpf/tests/conftest.py.
_FIRST = {"testbed", "frames", "hosts"}
_LAST = 10  # nice(2)
_CAP_SYS_NICE = 23
_status = Path("/proc/self/status").read_text(encoding="ascii")
_MAY_COME_BACK = bool(int(re.findall(r"CapEff:\s+(\w+)", _status)[0], 16) >> _CAP_SYS_NICE & 1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """With a worker for each CPU and one more, tests of code alone take what the others leave."""
    if _MAY_COME_BACK:
        groups = {mark.args[0] for mark in item.iter_markers("xdist_group")}
        os.setpriority(os.PRIO_PROCESS, 0, 0 if groups & _FIRST else _LAST)
