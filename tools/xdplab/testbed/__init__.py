# SPDX-License-Identifier: Apache-2.0
"""Hosts, ports and links under one lock, brought up before a run and gone after it."""

from xdplab.testbed.base import (
    Port as Port,
    RuleAddresses as RuleAddresses,
    Testbed as Testbed,
    TesterPorts as TesterPorts,
    usable_cpus as usable_cpus,
)
from xdplab.testbed.embedded import EmbeddedTestbed as EmbeddedTestbed
from xdplab.testbed.fake import FakeTestbed as FakeTestbed
from xdplab.testbed.load import load_yaml as load_yaml, open_testbed as open_testbed, read_testbed as read_testbed
from xdplab.testbed.real import HostsTestbed as HostsTestbed
from xdplab.testbed.state import TestbedLock as TestbedLock, working_folder as working_folder
