# SPDX-License-Identifier: Apache-2.0
"""DPDK: `testpmd`, and `vdev`, the virtual devices that Open vSwitch and VPP use as well."""
