# SPDX-License-Identifier: Apache-2.0
"""Instructions per forwarded frame, in guests whose clock counts instructions: a number that repeats (docs/cost.md)."""
