# SPDX-License-Identifier: Apache-2.0
"""What the nodes of VPP's graph cost, by `show runtime`.

VPP prints clocks as a mean of three digits since the last `clear runtime`: so they are cleared where they are read, and
summed here. The statistics segment has whole sums, but takes them once in 10 s, from threads that go on meanwhile.

A node that polls ports is called without a frame to fetch as well, and its clocks are of all calls (`dispatch_node` of
vlib/main.c, VPP 26.10). How many fetched frames is seen by the nodes behind it, which are called with frames only: once
for each port and 256 frames of a call. What a call takes that fetches nothing is seen between trials.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdplab.model import PointFailed
from xdplab.model.lookups import NODES

_SHOW, _CLEAR = "show runtime", "clear runtime"
_THREAD = re.compile(r"Thread \d+ (\S+) .*")
#: What stands around the nodes of a thread, next to its head of columns.
_BESIDE = re.compile(r"-+|Time [\d.]+, .*| +vector rates in .*|\s*")
_HEAD = ["Name", "State", "Calls", "Vectors", "Suspends", "Packet-Clocks", "Vectors/Call"]
#: Name and state, both cut to their columns; calls, vectors, suspends, clocks of one of them, vectors of a call: `.19`.
_NODE = re.compile(r"(\S.{29})(.{12}) *(\d+) +(\d+) +\d+ +(\d\S*) +[.\d]\S*")
#: Of the thread of a VPP without workers, which has no head then.
_ALONE = "vpp_main"
#: States of nodes that fetch frames; `active` is one that is handed them, all others are processes.
_FETCHES, _HANDED = ("polling", "interrupt wa", "disabled"), "active"
#: Frames of each call up to which all calls tell what an empty one takes.
_FEW = 0.001
#: Share of empty calls up to which it does not matter what they took.
_HARDLY_ANY = 0.1


@dataclass(frozen=True)
class Node:
    """A line of `show runtime`."""

    name: str
    fetches: bool
    calls: int
    vectors: int
    clocks: float


class NodeCounts:
    """Of one VPP, since it was started: cleared there, summed here."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, dict[str, float]]] = {}
        #: Thread and node -> clocks of a call that fetched nothing.
        self._empty_call: dict[tuple[str, str], float] = {}
        self._unknown: set[tuple[str, str]] = set()

    def read(self, ask: Callable[[str], str]) -> dict[str, dict[str, Any]]:
        """`NODES`: thread -> node -> fields of `NodeWork` up to now, of nodes that have had a frame."""
        threads = parse_nodes(ask(_SHOW))
        ask(_CLEAR)
        for thread, nodes in threads.items():
            with_frames = max((node.calls for node in nodes if not node.fetches and node.vectors), default=0)
            for node in nodes:
                self._add(thread, node, with_frames)
        return {NODES: {thread: {name: dict(sums) for name, sums in own.items()} for thread, own in self._sums.items()}}

    def _add(self, thread: str, node: Node, with_frames: int) -> None:
        name = node.name
        if node.fetches and node.calls and node.vectors <= _FEW * node.calls:
            self._empty_call[thread, name] = node.clocks / node.calls
        if not node.vectors:
            return
        empty = max(0, node.calls - with_frames) if node.fetches else 0
        found = {
            "calls": node.calls,
            "empty": empty,
            "vectors": node.vectors,
            "received": node.vectors if node.fetches else 0,
            "clocks": node.clocks,
            "idle": self._idle(thread, node, empty),
        }
        sums = self._sums.setdefault(thread, {}).setdefault(name, {})
        for key, value in found.items():
            sums[key] = round(sums.get(key, 0) + value, 3)
        if (thread, name) in self._unknown:
            del sums["idle"]

    def _idle(self, thread: str, node: Node, empty: int) -> float:
        """Clocks of empty calls; where they are many and nobody has seen what one takes, that is noted."""
        took = self._empty_call.get((thread, node.name))
        if took is not None:
            return min(node.clocks, empty * took)
        if empty > _HARDLY_ANY * node.calls:
            self._unknown.add((thread, node.name))
        return 0.0


def parse_nodes(text: str) -> dict[str, list[Node]]:
    """Thread -> its nodes, of `show runtime`; names that are the same in 30 letters may be several.

    Raises:
        PointFailed: a line is not understood, or nodes come without their head.
    """
    found: dict[str, list[Node]] = {}
    thread, with_head = _ALONE, False
    for line in text.splitlines():
        if named := _THREAD.fullmatch(line):
            thread, with_head = named[1], False
        elif line.split() == _HEAD:
            found[thread], with_head = [], True
        elif not _BESIDE.fullmatch(line):
            if not with_head:
                raise PointFailed(f"VPP: {_SHOW}: no head of columns before {line.strip()!r}")
            found[thread] += _node(line)
    if not found:
        raise PointFailed(f"VPP: {_SHOW}: no thread in {text.strip()!r}")
    return found


def _node(line: str) -> list[Node]:
    """A process is none: it has no frames."""
    if not (read := _NODE.fullmatch(line.rstrip())):
        raise PointFailed(f"VPP: {_SHOW}: line not understood: {line.strip()!r}")
    name, state, calls, vectors = read[1].strip(), read[2].strip(), int(read[3]), int(read[4])
    if state in (_HANDED, *_FETCHES):
        return [Node(name, state != _HANDED, calls, vectors, float(read[5]) * (vectors or calls))]
    if vectors:
        raise PointFailed(f"VPP: {_SHOW}: state of a node with frames not understood: {line.strip()!r}")
    return []
