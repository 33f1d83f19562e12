# SPDX-License-Identifier: Apache-2.0
"""OpenFlow rules of the OVS forwarders: how many flows their datapath has, in how many masks, which may be offloaded.

A megaflow holds what was looked at to find its actions. A rule that moves a field into a register has looked at it, and
the datapath does nothing for that: so one rule makes as many megaflows as there are values, in a mask of our choice.
"""

from xdplab.forwarders.ovs_options import OvsOptions

#: Of a UDP source port: which group of flows a frame is of. Testers count flows up from port 10000
#: (`headers_of`), whose frames are of the first group.
_GROUP_BITS, _FIRST = 0x3FF, 10_000 & 0x3FF
_GROUPS = 64
#: What the rule of a group reads, for each bit of its number; no two groups read the same.
READS = (
    "NXM_OF_ETH_SRC[0..31]->NXM_NX_REG1[]",
    "NXM_OF_ETH_DST[0..31]->NXM_NX_REG1[]",
    "NXM_OF_ETH_SRC[32..47]->NXM_NX_REG1[0..15]",
    "NXM_OF_ETH_DST[32..47]->NXM_NX_REG1[0..15]",
    "NXM_OF_UDP_DST[]->NXM_NX_REG1[0..15]",
    "NXM_NX_IP_TTL[]->NXM_NX_REG1[0..7]",
)
#: What tells a tester's flows apart, so that each is a megaflow of its own.
_FLOW = (
    "move:NXM_OF_IP_SRC[]->NXM_NX_REG0[]",
    "move:NXM_OF_IP_DST[]->NXM_NX_REG0[]",
    "move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15]",
)
_WHOLE_FRAME = 65535


def rules(here: str, there: str, options: OvsOptions) -> list[str]:
    """What comes in by one port leaves by the other (or by the same), in the words of ovs-ofctl."""
    back = here == there
    output = "in_port" if back else f"output:{there}"
    if options.rules == "ports":
        return [f"in_port={here},actions={output}"]
    found = []
    for number in range(_GROUPS if options.rules == "flows" else options.rule_masks):
        mask = number % options.rule_masks
        reads = [f"move:{field}" for bit, field in enumerate(READS) if mask >> bit & 1]
        bits = _GROUPS - 1 if options.rules == "flows" else _GROUP_BITS
        match = f"priority=10,in_port={here},udp,tp_src={(_FIRST + number) & bits:#x}/{bits:#x}"
        found.append(f"{match},actions={','.join([*reads, *_FLOW, output])}")
    if options.rules == "flows":
        return [*found, f"priority=0,in_port={here},actions={output}"]
    # to cut nothing off is an action that no offload knows, and costs no copy
    port = "in_port" if back else there
    return [*found, f"priority=0,in_port={here},actions=output(port={port},max_len={_WHOLE_FRAME})"]
