# SPDX-License-Identifier: Apache-2.0
"""Finding testers by name, ours and those of other packages."""

from importlib.metadata import entry_points

from xdplab.model import InputError
from xdplab.testers.base import Tester

GROUP = "xdplab.testers"


def tester_names() -> list[str]:
    """All names that a study may use."""
    return sorted(entry.name for entry in entry_points(group=GROUP))


def make_tester(name: str) -> Tester:
    """The tester of that name.

    Raises:
        InputError: no such tester.
    """
    for entry in entry_points(group=GROUP, name=name):
        tester = entry.load()()
        assert isinstance(tester, Tester)
        return tester
    raise InputError(f"tester {name!r}: unknown; there are {', '.join(tester_names())}")
