# SPDX-License-Identifier: Apache-2.0
"""`--set KEY=VALUE`: changes of a study on the command line."""

from collections.abc import Iterable, Iterator
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


def split_forwarders(text: str) -> Iterator[str]:
    """`ovs-afxdp:n_rxq=2,type=afxdp,xdp` -> `ovs-afxdp:n_rxq=2,type=afxdp` and `xdp`: commas also part options."""
    found = ""
    for item in filter(None, (part.strip() for part in text.split(","))):
        is_option = "=" in item and ":" not in item.partition("=")[0]
        if found and not is_option:
            yield found
        found = f"{found},{item}" if found and is_option else item
    if found:
        yield found


def chosen_forwarders(text: str, there: Iterable[Any]) -> list[Any]:
    """What `--forwarders` names: rows of a study by their labels, others as they are written.

    `there`: the forwarders of the study's file.
    """
    by_label = {each["label"]: each for each in there if isinstance(each, dict) and each.get("label")}
    names = [text] if text in by_label else [*split_forwarders(text)]
    if not names:
        raise InputError("--forwarders: name at least one")
    return [by_label.get(name, name) for name in names]
