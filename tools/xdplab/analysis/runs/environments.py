# SPDX-License-Identifier: Apache-2.0
"""The environments of several runs side by side: which are the same, and in what the others differ."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from xdplab.model import RunRecord


class Environments(NamedTuple):
    """Of several runs, by their names."""

    #: Runs that have the same environment in everything, the first run's first.
    groups: list[list[str]]
    #: Fact -> its value in each group, None where there is none; of those that differ.
    differing: dict[str, list[str | None]]
    #: How many facts are the same in all.
    same: int


def environments(runs: Sequence[tuple[str, RunRecord]]) -> Environments:
    """Compare them fact by fact, and what programs printed line by line."""
    groups: list[tuple[dict[str, str], list[str]]] = []
    for name, run in runs:
        facts = _facts(run)
        own = next((names for known, names in groups if known == facts), None)
        if own is None:
            groups.append((facts, own := []))
        own.append(name)
    keys = dict.fromkeys(key for facts, _ in groups for key in facts)
    values = {key: [facts.get(key) for facts, _ in groups] for key in keys}
    found = [(key, each) for key, each in values.items() if len(set(each)) > 1]
    # what has several values comes before what some do not have, such as cards
    differing = dict(sorted(found, key=lambda pair: len({*pair[1]} - {None}) < 2))
    return Environments([names for _, names in groups], differing, len(values) - len(differing))


def _facts(run: RunRecord) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in run.environment.facts().items():
        text = str(value)
        lines = text.splitlines() if "\n" in text else []
        if not lines:
            found[key] = text
        seen: Counter[str] = Counter()
        for line in lines:
            name, colon, told = line.strip().partition(":")
            seen[name] += 1  # `ethtool -g` has what can be and what is under the same names
            again = f" ({seen[name]})" if seen[name] > 1 else ""
            found[f"{key}: {name}{again}"] = told.strip() if colon else "there"
    return found
