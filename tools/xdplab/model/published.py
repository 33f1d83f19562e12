# SPDX-License-Identifier: Apache-2.0
"""Figures of the document that a micro-benchmark reproduces, printed beside ours and never compared by a test."""

from typing import Literal

from xdplab.model.base import Model, Shown
from xdplab.model.functions import NfMode

Stage = Literal["driver", "stack", "complete"]


class Published(Model):
    """What it says, and of which machine."""

    source: Shown
    setup: Shown = ""
    #: Workload -> what the figure is called -> Mpps.
    mpps: dict[Shown, dict[Shown, float]] = {}
    #: Traffic -> network function -> mode -> Mpps.
    modes_mpps: dict[Shown, dict[Shown, dict[NfMode, float]]] = {}
    #: What the authors found, in words.
    finding: Shown = ""
    #: Row's title -> stage -> (min, max, peak to peak, mean, RMS) in us.
    stages_us: dict[Shown, dict[Stage, tuple[float, float, float, float, float]]] = {}
