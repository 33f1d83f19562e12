# SPDX-License-Identifier: Apache-2.0
"""What a killed forwarder leaves on its host: XDP programs on the ports, and links."""

from collections.abc import Collection

from xdplab.hosts import Host
from xdplab.hosts.kernel import link_names
from xdplab.model import XdplabError
from xdplab.testbed import Port


def detach_xdp(host: Host, ports: tuple[Port, ...]) -> None:
    """Take off XDP programs that a killed forwarder left on ports of the testbed, and verify it.

    Raises:
        XdplabError: a program stays attached.
    """
    for port in ports:
        if not port.in_kernel or host.xdp(port.ifname) is None:
            continue
        for flag in ("xdp", "xdpgeneric"):
            host.run(["ip", "link", "set", "dev", port.ifname, flag, "off"], check=False)
        attached = host.xdp(port.ifname)
        if attached is not None:
            raise XdplabError(f"{host.name}: {port.ifname}: XDP program {attached.prog_name} cannot be detached")


def remove_links(host: Host, before: frozenset[str], only: Collection[str] | None) -> None:
    """Remove links that were not there `before`; on machines that others use, `only` those of these names."""
    for name in sorted(link_names(host) - before):
        if (only is None or name in only) and name in link_names(host):  # with one end of a pair goes the other
            host.run(["ip", "link", "delete", "dev", name])
