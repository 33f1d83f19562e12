# SPDX-License-Identifier: Apache-2.0
"""The first sentence of a run: who is ahead, or why that is undecided."""
