# SPDX-License-Identifier: Apache-2.0
"""`--set KEY=VALUE`: changes of a study on the command line."""

from collections.abc import Iterable
from typing import Any

import yaml

from xdplab.model import InputError


def changes_of(items: Iterable[str]) -> dict[str, Any]:
    """`repetitions=3` -> {"repetitions": 3}; values are YAML."""
    changes = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InputError(f"--set {item!r}: KEY=VALUE is expected")
        try:
            changes[key] = yaml.safe_load(value)
        except (
            yaml.YAMLError,
            ValueError,
            RecursionError,
        ):  # also of a date that does not exist, and of [[[ without end
            raise InputError(f"--set {item[:80]!r}: the value is not YAML") from None
    return changes
