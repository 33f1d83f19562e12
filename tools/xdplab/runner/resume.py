# SPDX-License-Identifier: Apache-2.0
"""A run goes on where it was begun: figures of two machines, kernels or programs must not become one pair."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from xdplab.model import Environment, InputError, RunRecord
from xdplab.model.run import Resumption

#: Parts of the environment that may differ between the parts of a run, and why; all else in it can change a number.
UNIMPORTANT = {
    "memory_kib": "what the kernel keeps for itself differs from boot to boot",
    "git_revision": "the programs that measure and forward have versions of their own",
    "versions.robotframework": "starts runs",
    "versions.numpy": "reads what was measured, and is not part of measuring it",
    "versions.scipy": "reads what was measured",
    "versions.pydantic": "writes what was measured",
}
_ABSENT = "absent"
#: Names and addresses of ports are new each time that an embedded testbed is built.
_OF_THIS_TIME = ("ifname", "mac")


def resumed(earlier: RunRecord, now: RunRecord) -> RunRecord:
    """The head of a run that goes on: the environment of its beginning, and what differs from it today.

    Raises:
        InputError: something differs that can change a number.
    """
    before, after = _facts(earlier), _facts(now)
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    changed = {key: _differing(before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in keys}
    matter = [key for key in keys if key not in UNIMPORTANT]
    if matter:
        first, more = matter[0], matter[1:]
        was, became = changed[first]
        others = f"; so do {', '.join(more)}" if more else ""
        raise InputError(
            f"run {earlier.run_id}: it cannot go on here: on testbed {now.testbed.name} {first} differs: {was!r} when "
            f"it began, {became!r} now{others}; put that back as it was, or start a new run"
        )
    part = Resumption(started=now.started, differences=changed)
    first_part = {"started": earlier.started, "environment": earlier.environment, "wall_s": earlier.wall_s}
    return now.model_copy(update={**first_part, "resumed": (*earlier.resumed, part)})


def _facts(run: RunRecord) -> dict[str, str]:
    """Dotted key -> value, of everything that says where and with what a run measures."""
    environment = facts_of(run.environment)
    told = run.model_dump(mode="json", include={"testbed", "layout", "rx_program"})
    digest = hashlib.sha256(" ".join(sorted(run.points)).encode()).hexdigest()
    return dict(flat({**environment, **told, "points": f"{len(run.points)} with digest {digest[:12]}"}))


def facts_of(environment: Environment) -> dict[str, Any]:
    """The environment, with those facts of its ports that are the same each time that a testbed is built."""
    facts = environment.model_dump(mode="json")
    return {**facts, "ports": {role: _lasting(port) for role, port in facts["ports"].items()}}


def _lasting(port: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a port without its name, which ethtool repeats, and its address."""
    name = str(port.get("ifname", ""))
    return {
        key: value.replace(name, "PORT") if name and isinstance(value, str) else value
        for key, value in port.items()
        if key not in _OF_THIS_TIME
    }


def flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and values of what is nested."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from flat(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, str(value)


def _differing(was: str, became: str) -> tuple[str, str]:
    """The two values; of texts of several lines the first line that is not the same."""
    one, two = was.splitlines(), became.splitlines()
    if len(one) <= 1 and len(two) <= 1:
        return was, became
    pairs = zip(one + [_ABSENT] * len(two), two + [_ABSENT] * len(one), strict=False)
    return next((pair for pair in pairs if pair[0] != pair[1]), (was, became))
