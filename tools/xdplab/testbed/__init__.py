# SPDX-License-Identifier: Apache-2.0
"""Hosts, ports and links under one lock, brought up before a run and gone after it."""

from xdplab.testbed.base import Port, Testbed, TesterPorts, default_layout, usable_cpus
from xdplab.testbed.embedded import EmbeddedTestbed, remove_leftovers
from xdplab.testbed.fake import FakeTestbed
from xdplab.testbed.load import load_yaml, open_testbed, read_testbed
from xdplab.testbed.state import TestbedLock, state_dir, working_folder

__all__ = [
    "EmbeddedTestbed",
    "FakeTestbed",
    "Port",
    "Testbed",
    "TestbedLock",
    "TesterPorts",
    "default_layout",
    "load_yaml",
    "open_testbed",
    "read_testbed",
    "remove_leftovers",
    "state_dir",
    "usable_cpus",
    "working_folder",
]
