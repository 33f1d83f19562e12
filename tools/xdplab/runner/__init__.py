# SPDX-License-Identifier: Apache-2.0
"""Executes a study: plan, visit each point, journal, put everything back."""

from xdplab.hosts.signals import deferred, interruptible
from xdplab.runner.environment import capture_environment
from xdplab.runner.listener import Listener, SilentListener
from xdplab.runner.plan import Plan, Visit, make_plan
from xdplab.runner.restore import recover
from xdplab.runner.run import Journal, RunOutcome, StudyRun

__all__ = [
    "Journal",
    "Listener",
    "Plan",
    "RunOutcome",
    "SilentListener",
    "StudyRun",
    "Visit",
    "capture_environment",
    "deferred",
    "interruptible",
    "make_plan",
    "recover",
]
