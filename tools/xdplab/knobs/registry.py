# SPDX-License-Identifier: Apache-2.0
"""Finding knobs by name, ours and those of other packages."""

from importlib.metadata import entry_points

from xdplab.knobs.base import Knob
from xdplab.model import InputError

GROUP = "xdplab.knobs"


def knob_names() -> list[str]:
    """All names that a study may use."""
    return sorted(entry.name for entry in entry_points(group=GROUP))


def make_knob(name: str) -> Knob:
    """The knob of that name.

    Raises:
        InputError: no such knob.
    """
    for entry in entry_points(group=GROUP, name=name):
        knob = entry.load()()
        assert isinstance(knob, Knob)
        return knob
    raise InputError(f"knob {name!r}: unknown; there are {', '.join(knob_names())}")
