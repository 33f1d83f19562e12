# SPDX-License-Identifier: Apache-2.0
"""Rules of a node of the user's (pipeline `openflow:FILE`), and what the tester stands for there.

FILE describes what `ovs-ofctl dump-flows` printed on the node, and two of its ports. The forwarder's ports get their
numbers; the tester's frames get the addresses of what is behind them. A number that no port has here leads nowhere.
"""

import hashlib
import os
import re
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from pydantic import Field

from xdplab.model import InputError, Model, Pipeline, validated
from xdplab.model.base import RULES_BYTES, read_text
from xdplab.testbed import Port, load_yaml
from xdplab.tools import project_root

#: The folder with the files that a description names, where they are not next to it.
FOLDER = "XDPLAB_OPENFLOW"
_LARGEST_PORT = 0xFEFF
#: Where a rule has a port or a table, and a word stands there that does not begin with a digit (ovs-actions(7)).
_WORD = r'("[^"]+"|[A-Za-z_][\w.-]*(?![\w.\[-]))'
_NAMED = re.compile(
    rf"\b(?:in_port|table)={_WORD}|\b(?:output|goto_table|enqueue):{_WORD}|\bresubmit\({_WORD}|\bresubmit\([^,)]*,{_WORD}"
)
#: Ports that have no number of their own.
_RESERVED = ("IN_PORT", "TABLE", "NORMAL", "FLOOD", "ALL", "CONTROLLER", "LOCAL", "ANY", "NONE", "UNSET")


class NodePort(Model):
    """A port of the node."""

    #: Its OpenFlow number.
    port: int = Field(ge=1, le=_LARGEST_PORT)
    #: Of what is behind it.
    mac: str = Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")
    ip: IPv4Address


class Node(Model):
    """A description file. Files that it names are next to it, or in the folder that `XDPLAB_OPENFLOW` names."""

    #: As `ovs-ofctl dump-flows` prints them.
    flows: Path
    #: As `ovs-ofctl dump-groups` prints them.
    groups: Path | None = None
    #: Options of Geneve that rules read, as `ovs-ofctl add-tlv-map` takes them.
    tlv_map: tuple[str, ...] = ()
    #: Those of the tester's side, and of the other. What goes in by one must come out of the other as it was.
    ports: tuple[NodePort, NodePort]


def node_of(pipeline: Pipeline) -> Node:
    """What its file describes.

    Raises:
        InputError: there is no such file, or it is no description.
    """
    return validated(Node, load_yaml(_described(pipeline)), pipeline.file)


def missing(pipeline: Pipeline) -> str | None:
    """None, or which file is not there, and where it was looked for.

    Raises:
        InputError: as `node_of`.
    """
    node = node_of(pipeline)
    for name in filter(None, (node.flows, node.groups)):
        if not _found(pipeline, name).is_file():
            return f"{name} is neither next to {pipeline.file} nor in a folder that {FOLDER} names"
    flow_lines(pipeline)
    group_lines(pipeline)
    return None


def flow_lines(pipeline: Pipeline) -> list[str]:
    """Rules, as `ovs-ofctl add-flows` takes them; lines of a dump that are none are left out.

    Raises:
        InputError: a dump that a terminal printed, which has names of ports and tables.
    """
    return _lines(pipeline, node_of(pipeline).flows, "actions=", "dump-flows")


def group_lines(pipeline: Pipeline) -> list[str]:
    """Groups, as `ovs-ofctl add-group` takes them; raises as `flow_lines`."""
    groups = node_of(pipeline).groups
    return _lines(pipeline, groups, "group_id=", "dump-groups") if groups else []


def _lines(pipeline: Pipeline, name: Path, word: str, command: str) -> list[str]:
    """Lines with a word that are no comment."""
    text = read_text(_found(pipeline, name), RULES_BYTES)
    found = [(n, each.strip()) for n, each in enumerate(text.splitlines(), 1) if word in each and each[0] != "#"]
    for number, line in found:
        for match in _NAMED.finditer(line):
            called = next(filter(None, match.groups())).strip('"')
            if called.upper() not in _RESERVED:
                raise InputError(
                    f"{name}, line {number}: {match[0].strip(',')}: {called} is a name, as ovs-ofctl prints ports and "
                    f"tables on a terminal, and means nothing elsewhere; dump them by `ovs-ofctl --no-names {command} "
                    "BRIDGE` there"
                )
    return [line for _, line in found]


def in_its_place(pipeline: Pipeline, ports: tuple[Port, ...]) -> tuple[Port, ...]:
    """The tester's ports with the addresses of what they stand for; other pipelines leave them as they are."""
    if pipeline.kind != "openflow":
        return ports
    there = node_of(pipeline).ports[: len(ports)]
    return tuple(replace(port, mac=its.mac, address=str(its.ip)) for port, its in zip(ports, there, strict=True))


def facts(pipeline: Pipeline) -> dict[str, Any]:
    """For the record: which rules they are."""
    path = _found(pipeline, node_of(pipeline).flows)
    return {
        "file": path.name,
        "count": len(flow_lines(pipeline)),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def _described(pipeline: Pipeline) -> Path:
    """A file of the user's, or one of the project's."""
    mine, ours = Path(pipeline.file), project_root() / pipeline.file
    return ours if ours.is_file() and not mine.is_file() else mine


def _found(pipeline: Pipeline, name: Path) -> Path:
    beside = _described(pipeline).parent / name
    folder = os.environ.get(FOLDER)
    return Path(folder) / name if folder and not beside.is_file() else beside
