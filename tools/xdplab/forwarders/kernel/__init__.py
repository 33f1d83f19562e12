# SPDX-License-Identifier: Apache-2.0
"""Forwarders inside the kernel, `xdp`, `bridge` and `router`, which run where NAPI runs; and none, `veth_pair`."""
