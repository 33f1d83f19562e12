# SPDX-License-Identifier: Apache-2.0
"""Finding knobs by name."""

from xdplab.knobs.base import Knob
from xdplab.model import plugins

GROUP = "xdplab.knobs"


def make_knob(name: str) -> Knob:
    """The knob of that name.

    Raises:
        InputError: no such knob.
    """
    knob = plugins.find(GROUP, "knob", name)()
    assert isinstance(knob, Knob)
    return knob
