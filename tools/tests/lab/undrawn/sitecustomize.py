# SPDX-License-Identifier: Apache-2.0
"""Imported by every Python that has this folder on its PYTHONPATH: reports have no plots, which take a second of a run.

In the place of `xdplab.report.plots` stands a module without matplotlib.

With LAB_ANY_MACHINE nothing of a busy machine counts as a disturbance, so that nothing is measured anew, unless a study
has a rule of its own.
"""

import importlib.util
import os
import sys
import types
from typing import Any

_NAME = "xdplab.report.plots"
_RULE = "xdplab.model.disturbance"


class _Undrawn(types.ModuleType):
    def still(self, _: object) -> str:
        return "<svg></svg>"


sys.modules[_NAME] = _Undrawn(_NAME)


class _AnyMachine:
    """Finds the module of the rule, and raises its defaults once it is loaded."""

    def find_spec(self, name: str, *_: object) -> Any:
        if name != _RULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def loaded(module: types.ModuleType) -> None:
            load(module)
            rule = module.DisturbanceRule
            for share in ("max_stalled_share", "max_steal_share", "max_run_delay_share"):
                rule.model_fields[share].default = 1000.0
            rule.model_rebuild(force=True)

        spec.loader.exec_module = loaded  # type: ignore[method-assign]
        return spec


if "LAB_ANY_MACHINE" in os.environ:
    sys.meta_path.insert(0, _AnyMachine())
