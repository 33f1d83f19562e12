# SPDX-License-Identifier: Apache-2.0
"""From who hears whom to the roles of a testbed's ports, or to one line on what is cabled otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from xdplab.cli.lab.wanted import Part
from xdplab.model import InputError
from xdplab.model.testbed import PortRole


class End(NamedTuple):
    """An interface of a host of the lab."""

    part: Part
    ifname: str

    def __str__(self) -> str:
        return f"{self.part} {self.ifname}"


Heard = Mapping[End, set[End]]


def roles_of(heard: Heard, without_link: Sequence[End]) -> dict[PortRole, End]:
    """PortRole -> interface. `without_link`: offered, and with no carrier although they are up.

    One interface each of tester and forwarder, and one cable, are enough for path `hairpin`.

    Raises:
        InputError: a cable is missing or leads elsewhere.
    """
    _refuse_switches(heard)
    pairs = list(_pairs(heard))
    far: Part = "far" if any(end.part == "far" for end in (*heard, *without_link)) else "tester"
    near_links = _between(pairs, "tester", "forwarder")
    far_links = _between(pairs, far, "forwarder") if far == "far" else near_links[1:]
    if near_links and set(near_links[0]) == {*heard, *without_link}:
        return {"a0": near_links[0][0], "b0": near_links[0][1]}
    if not near_links or not far_links:
        lacking = "tester" if not near_links else far
        count = "a second cable" if near_links and far == "tester" else "a cable"
        raise InputError(
            f"lab init: {count} between {lacking} and forwarder is missing; {_found(heard, pairs, without_link)}; move "
            "the cables, or offer the interfaces that are cabled to each other (--offer)"
        )
    (a0, b0), (c0, b1) = near_links[0], far_links[0]
    roles: dict[PortRole, End] = {"a0": a0, "b0": b0, "b1": b1, "c0": c0}
    direct = _between(pairs, "tester", far)
    return {**roles, "d0": direct[0][0], "d1": direct[0][1]} if direct else roles


def _refuse_switches(heard: Heard) -> None:
    for end, by in heard.items():
        if len(by) > 1:
            raise InputError(
                f"lab init: {end} reaches {_and(by)}: there is a switch or bridge between them; join ports by cables"
            )
        for other in by:
            if end not in heard.get(other, set()):
                raise InputError(
                    f"lab init: {other} hears {end}, and not the other way round; check the cable and {other}"
                )


def _pairs(heard: Heard) -> Iterator[tuple[End, End]]:
    for left, right in combinations(sorted(heard), 2):
        if right in heard[left]:
            yield left, right


def _between(pairs: Sequence[tuple[End, End]], left: Part, right: Part) -> list[tuple[End, End]]:
    """Those from one part to another, in that order."""
    found = []
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            if (one.part, other.part) == (left, right) and (other, one) not in found:
                found.append((one, other))
    return sorted(found)


def _found(heard: Heard, pairs: Sequence[tuple[End, End]], without_link: Sequence[End]) -> str:
    lines = [f"{left} faces {right}" for left, right in pairs]
    lines += [
        f"{end} sent test frames, and none arrived at an offered interface" for end in sorted(heard) if not heard[end]
    ]
    lines += [f"{end} has no link" for end in sorted(without_link)]
    return ", ".join(lines) or "nothing was offered"


def _and(ends: set[End]) -> str:
    return " and ".join(map(str, sorted(ends)))
