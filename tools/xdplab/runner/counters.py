# SPDX-License-Identifier: Apache-2.0
"""What a trial added to counters that were not at zero when it began: of the proof, of trials before it."""

from collections.abc import Iterator, Mapping
from typing import Any


def added(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Each number of `after` less that of `before`, at any depth; one that was not there began at zero.

    When one has fallen, its program was restarted meanwhile: all of its numbers are of the time since.
    """
    found = _differences(before, after)
    return _differences({}, after) if any(number < 0 for number in _numbers(found)) else found


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in after.items():
        if isinstance(value, Mapping):
            found[key] = _differences(before.get(key, {}), value)
        elif isinstance(value, int | float):
            found[key] = value - before.get(key, 0)
    return found


def _numbers(found: Mapping[str, Any]) -> Iterator[float]:
    for value in found.values():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        else:
            yield value
