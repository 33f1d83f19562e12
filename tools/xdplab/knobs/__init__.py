# SPDX-License-Identifier: Apache-2.0
"""Settings that a study sweeps. Each is found through the entry point group `xdplab.knobs`."""

from xdplab.knobs.base import Knob as Knob, KnobContext as KnobContext, make_knob as make_knob
