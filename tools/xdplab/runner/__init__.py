# SPDX-License-Identifier: Apache-2.0
"""Executes a study: plan, repeat each point, journal, put everything back."""

from xdplab.hosts.signals import deferred as deferred, interruptible as interruptible
from xdplab.runner.low_latency import low_latency as low_latency
from xdplab.runner.plan import Listener as Listener, Plan as Plan, Repetition as Repetition, make_plan as make_plan
from xdplab.runner.recovery import recover as recover
from xdplab.runner.run import Job as Job, RunOutcome as RunOutcome, StudyRun as StudyRun
