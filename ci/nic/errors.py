# SPDX-License-Identifier: Apache-2.0
"""How the lane ends without a verdict."""


class MissingPart(Exception):
    """Something that the lane needs is not there: one line that names it and what to do; exit code 2."""


class Hang(Exception):
    """The guest did not end in time, or ended without a message; exit code 1."""
