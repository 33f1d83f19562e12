# SPDX-License-Identifier: Apache-2.0
"""Intervals, bounds and levels of numbers: nothing here knows what a frame is."""
