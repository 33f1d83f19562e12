# SPDX-License-Identifier: Apache-2.0
"""Devices under test. Each is found through the entry point group `xdplab.forwarders`."""

from xdplab.forwarders.base import (
    Dut as Dut,
    Forwarder as Forwarder,
    forwarder_spec as forwarder_spec,
    make_forwarder as make_forwarder,
    plain_name as plain_name,
)
