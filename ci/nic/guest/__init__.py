# SPDX-License-Identifier: Apache-2.0
"""Tests that run in the guest, on emulated cards: `make nic-test` starts them there, and nothing else can."""
