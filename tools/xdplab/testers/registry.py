# SPDX-License-Identifier: Apache-2.0
"""Finding testers by name."""

from xdplab.model import plugins
from xdplab.testers.base import Tester

GROUP = "xdplab.testers"


def tester_names() -> list[str]:
    """All names that a study may use."""
    return plugins.names(GROUP)


def make_tester(name: str) -> Tester:
    """The tester of that name.

    Raises:
        InputError: no such tester.
    """
    tester = plugins.find(GROUP, "tester", name)()
    assert isinstance(tester, Tester)
    return tester
