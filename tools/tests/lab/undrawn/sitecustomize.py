# SPDX-License-Identifier: Apache-2.0
"""Imported by every Python that has this folder on its PYTHONPATH: reports have no plots, which take a second of a run.

In the place of `xdplab.report.plots` stands a module without matplotlib. Who wants anything else of it, for pictures
that are no charts, gets the real one, which from then on draws charts too.
"""

import importlib
import sys
import types
from typing import Any

_NAME = "xdplab.report.plots"


class _Undrawn(types.ModuleType):
    def still(self, _: object) -> str:
        return "<svg></svg>"

    repetition_plot = still

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        return getattr(importlib.import_module(_NAME), name)


sys.modules[_NAME] = _Undrawn(_NAME)
