# SPDX-License-Identifier: Apache-2.0
"""Imported by every Python that has this folder on its PYTHONPATH: reports have no plots, which take a second of a run.

In the place of `xdplab.report.plots` stands a module without matplotlib.
"""

import sys
import types

_NAME = "xdplab.report.plots"


class _Undrawn(types.ModuleType):
    def still(self, _: object) -> str:
        return "<svg></svg>"


sys.modules[_NAME] = _Undrawn(_NAME)
