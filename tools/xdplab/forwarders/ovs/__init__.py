# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch: `forwarder` has its three forwarders, `options` their options, `daemon` what runs of it."""
