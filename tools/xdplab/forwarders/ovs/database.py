# SPDX-License-Identifier: Apache-2.0
"""Rows of an Open vSwitch's database as operations of RFC 7047 section 5.2, in place of calls of ovs-vsctl.

A bridge that is there when the daemon looks for the first time is made at once, and no program is started for it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

#: Ends once the daemon has taken over what `bridge` gave it (ovs-vswitchd.conf.db(5), next_cfg, cur_cfg), or with the
#: error `TIMED_OUT`; the time is so short because nobody looks meanwhile whether the daemon is well.
CONFIGURED = {
    "op": "wait", "timeout": 250, "table": "Open_vSwitch", "where": [], "columns": ["cur_cfg"], "until": "==",
    "rows": [{"cur_cfg": 1}],
}  # fmt: skip
TIMED_OUT = "timed out"
Datapath = Literal["netdev", "system"]


def bridge(
    name: str, ports: Sequence[tuple[str, Iterable[str]]], settings: Iterable[str] = (), datapath: Datapath = "netdev"
) -> list[dict[str, Any]]:
    """A bridge that forwards nothing by itself, into an empty database.

    Args:
        name: of the bridge.
        ports: their names and columns (see `row`).
        settings: columns of the daemon.
        datapath: the daemon's own, or the kernel's.
    """
    operations, uuids = [], []
    for number, (port, columns) in enumerate([(name, ["type=internal"]), *ports]):
        interface, uuid = f"interface{number}", f"port{number}"
        operations += [
            _insert("Interface", {"name": port, **row(columns)}, interface),
            _insert("Port", {"name": port, "interfaces": ["named-uuid", interface]}, uuid),
        ]
        uuids.append(["named-uuid", uuid])
    own = {"name": name, "datapath_type": datapath, "fail_mode": "secure", "ports": ["set", uuids]}
    top = {"bridges": ["named-uuid", "bridge"], "next_cfg": 1, **row(settings)}
    return [*operations, _insert("Bridge", own, "bridge"), _insert("Open_vSwitch", top, "top")]


def row(columns: Iterable[str]) -> dict[str, Any]:
    """Columns as ovs-vsctl(8) takes them: `type=afxdp`, `mtu_request=1500`, `options:n_rxq=1`."""
    found: dict[str, Any] = {}
    for each in columns:
        name, _, text = each.partition("=")
        value = json.loads(text) if text.startswith('"') else text
        column, _, key = name.partition(":")
        if key:
            found.setdefault(column, ["map", []])[1].append([key, value])
        else:
            found[column] = int(value) if value.isdigit() else value
    return found


def _insert(table: str, columns: dict[str, Any], uuid: str) -> dict[str, Any]:
    return {"op": "insert", "table": table, "row": columns, "uuid-name": uuid}
