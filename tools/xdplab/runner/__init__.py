# SPDX-License-Identifier: Apache-2.0
"""Executes a study: plan, visit each point, journal, put everything back."""

from xdplab.hosts.signals import deferred, interruptible
from xdplab.runner.listener import Listener
from xdplab.runner.plan import Plan, Visit, make_plan
from xdplab.runner.restore import recover
from xdplab.runner.run import RunOutcome, StudyRun
