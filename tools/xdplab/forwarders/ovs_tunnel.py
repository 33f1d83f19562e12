# SPDX-License-Identifier: Apache-2.0
"""A VXLAN tunnel in Open vSwitch's user space (Documentation/howto/userspace-tunneling.rst)."""

from collections.abc import Callable

from xdplab.forwarders.base import Dut
from xdplab.forwarders.work import VNI, sides

#: Name of the tunnel's port.
TUNNEL = "xdplab-vxlan"
#: Of the network that both ends are in: Open vSwitch takes a route's source address from there.
_BITS = 30


def open_tunnel(dut: Dut, bridge: str, vsctl: Callable[..., str], control: Callable[..., str]) -> None:
    """From the bridge's own address to the tester's port there, with its route and neighbour; of pipeline `vxlan`."""
    if dut.pipeline.kind != "vxlan":
        return
    _, there = sides(dut)
    vsctl(
        *("set", "bridge", bridge, f'other_config:hwaddr="{there.mac}"', "--", "add-port", bridge, TUNNEL, "--"),
        *("set", "Interface", TUNNEL, "type=vxlan", f"options:key={VNI}"),
        *(f"options:remote_ip={there.next_hop}", f"options:local_ip={there.address}"),
    )
    dut.host.run(["ip", "address", "add", f"{there.address}/{_BITS}", "dev", bridge])
    dut.host.run(["ip", "link", "set", bridge, "up"])
    control("ovs/route/add", f"{there.next_hop}/32", bridge)
    control("tnl/neigh/set", bridge, there.next_hop, there.peer_mac)
