# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests: the command line as a user meets it, studies, records made by hand, and what a run left."""
