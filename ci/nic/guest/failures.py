# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for guests: failures at once, for after a hang there is no summary."""

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The words of what failed."""
    if report.failed:
        print(f"\n{report.longreprtext}", flush=True)
