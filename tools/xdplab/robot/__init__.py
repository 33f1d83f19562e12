# SPDX-License-Identifier: Apache-2.0
"""Keywords for Robot Framework: thin, every keyword is a few calls of `app`."""

from xdplab.robot.library import XdplabLibrary

__all__ = ["XdplabLibrary"]
