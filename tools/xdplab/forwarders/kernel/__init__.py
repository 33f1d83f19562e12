# SPDX-License-Identifier: Apache-2.0
"""Forwarders inside the kernel: `xdp`, `bridge` and `router`. They run where NAPI runs."""
