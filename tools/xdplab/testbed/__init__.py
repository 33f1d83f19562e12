# SPDX-License-Identifier: Apache-2.0
"""Hosts, ports and links under one lock, brought up before a run and gone after it."""

from xdplab.testbed.base import Port, Testbed, TesterPorts, usable_cpus
from xdplab.testbed.embedded import EmbeddedTestbed
from xdplab.testbed.fake import FakeTestbed
from xdplab.testbed.load import load_yaml, open_testbed, read_testbed
from xdplab.testbed.real import HostsTestbed
from xdplab.testbed.state import TestbedLock, working_folder
