# SPDX-License-Identifier: Apache-2.0
"""Flows of Open vSwitch that its XDP programs forward: what its ports count and say of it."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from xdplab.forwarders.ovs.daemon import Ovs
from xdplab.model import XdplabError

#: Of a port (custom statistics): frames that offloaded flows forwarded or dropped, and those left to the socket, which
#: met none, or were not understood, or may not be sent so.
OFFLOADED, LEFT = "xdp_flow_packets", ("xdp_flow_misses", "xdp_flow_undecided", "xdp_flow_unsendable")
#: Of a port: how many there are now, which is no count that grows.
NOW = ("xdp_flow_n_flows", "xdp_flow_n_masks")
#: What shows the offload.
_SHOW = "dpif/offload/show"
#: Of a port: why there may be none (status).
_WHY_NOT = ("xdp-flows", "xdp-flow-output")


def offloaded(counters: Mapping[str, Any]) -> dict[str, int]:
    """Port -> frames that met an offloaded flow."""
    return {port: columns[OFFLOADED] for port, columns in counters.items() if OFFLOADED in columns}


def not_offloaded(
    ovs: Ovs, asked: bool, frames: Mapping[str, int], ports: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """None, or which port has forwarded no frame by an offloaded flow although asked, or some although not.

    Args:
        ovs: what runs.
        asked: whether flows are to be offloaded.
        frames: `offloaded`.
        ports: what each tells of itself.
    """
    sending = 1 if asked and ovs.dut.pipeline.one_way else None
    for port, columns in list(ports.items())[:sending]:
        count = frames.get(port, 0)
        if bool(count) != asked:
            seen = f"{count} frames of {port} met an offloaded flow"
            if asked and (refused := _refused(ovs, port)):
                seen += f"; refused: {refused}"
            why_not = [key for key in _WHY_NOT if asked and columns.get(key, "on") != "on"]
            return seen + "".join(f"; {key} is {columns[key]}" for key in why_not)
    return None


def _refused(ovs: Ovs, port: str) -> str:
    """What of the flows of a port the offload does not do, in its own words."""
    columns = ""
    with suppress(XdplabError):  # a release that has no such command
        columns = ovs.control(_SHOW)
    found = re.search(rf'"{re.escape(port)}": {{.*?"refused": {{(.*?)}}', columns, re.DOTALL)
    return ", ".join(re.findall(r'"([^"]+)":', found[1])) if found else ""
