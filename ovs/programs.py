# SPDX-License-Identifier: Apache-2.0
"""Loads a program of this folder, such as ovs/build, which has no suffix, as a module."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(name: str) -> ModuleType:
    """The module that the program `name` is, under the name `ovs_NAME`."""
    loader = importlib.machinery.SourceFileLoader(f"ovs_{name}", str(Path(__file__).with_name(name)))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module
