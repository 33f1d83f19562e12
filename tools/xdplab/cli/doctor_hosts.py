# SPDX-License-Identifier: Apache-2.0
"""`xdplab doctor` for a testbed of machines: each host, each port, and then the cables with the ports up."""

from xdplab.cli.check import Check, check
from xdplab.cli.doctor_host import host_checks, trex
from xdplab.cli.doctor_ports import cable_checks, port_checks, setting_checks
from xdplab.model import InputError, Interrupted, TestbedSpec, XdplabError
from xdplab.runner import interruptible, low_latency
from xdplab.runner.recovery import guarded
from xdplab.testbed import HostsTestbed


def hosts_checks(spec: TestbedSpec) -> list[Check]:
    """All checks; what cannot be asked because a host is not reached is left out, and the host is missing."""
    testbed = HostsTestbed(spec)
    try:
        testbed.lock.acquire()
    except InputError as exc:
        return [check("testbed", False, str(exc), "wait for it, or `xdplab restore --testbed` with this file")]
    try:
        left = testbed.lock.changed
        found = [
            check(
                "testbed",
                not left,
                "not restored after a killed run" if left else "free",
                "xdplab restore --testbed ...",
            )
        ]
        found += _each_host(testbed, with_ports=not left)
    finally:
        testbed.lock.release()
    if any(each.state == "missing" and each.name in ("ssh", "testbed", "ports") for each in found):
        for host in testbed.hosts.values():
            host.close()
        return found
    return found + _with_ports_up(testbed)


def _each_host(testbed: HostsTestbed, *, with_ports: bool) -> list[Check]:
    """`with_ports`: not where a killed run left them changed; what it left is remembered as of its own last session."""
    found = []
    homes = {role: port.host for role, port in testbed.spec.ports.items()}
    for name, host in testbed.hosts.items():
        roles = [letter for letter, role in (("A", "a0"), ("B", "b0"), ("C", "c0")) if homes.get(role) == name]  # type: ignore[call-overload]
        ifnames = [port.ifname for port in testbed.spec.ports.values() if port.host == name and port.ifname]
        try:
            host.open()
            found += host_checks(host, roles, ifnames)
        except XdplabError as exc:
            text, _, fix = str(exc).partition("; ")
            found.append(check("ssh", False, text, fix or "check address, port and sshd there", host=name))
    if with_ports and all(each.name != "ssh" or each.state == "ok" for each in found):
        try:
            testbed.find_ports()
            for role, given in testbed.spec.ports.items():
                if given.ifname:
                    found += port_checks(testbed, role, testbed.ports[role], given)
        except XdplabError as exc:
            text, _, fix = str(exc).partition("; ")
            found.append(check("ports", False, text, fix))
        else:
            one_clock, why = testbed.clock
            text = f"{why}: {'one-way latencies and round trips' if one_clock else 'round trips only'}"
            found += [check("clock of A and C", True, text, ""), direct_link(testbed.spec), trex()]
    return found


def direct_link(spec: TestbedSpec) -> Check:
    """What the tester is calibrated on; without it the ports' speed is the top load of RFC 2544."""
    fix = "join two tester ports by a cable and call them d0 and d1"
    if "d0" in spec.ports:
        return check("direct link", True, "d0 and d1: the tester is calibrated on it", "")
    found, speed_bps = "none, so the tester is not calibrated; ", spec.line_rate_bps
    if speed_bps is None:
        found, fix = f"{found}no top load of RFC 2544 is known", f"{fix}, or give speed_mbps of each port"
    else:
        found += f"RFC 2544 searches up to the {speed_bps / 1e9:g} Gbit/s of its ports"
    return check("direct link", False, found, fix, required=False, otherwise="advice")


def _with_ports_up(testbed: HostsTestbed) -> list[Check]:
    """The cables, and what a run sets on cards: it is set, read back, and put back."""
    spec, found = testbed.spec, list[Check]()
    with interruptible(spec.file or "..."), guarded(spec):
        _try_with_ports_up(testbed, found)
    return found


def _try_with_ports_up(testbed: HostsTestbed, found: list[Check]) -> None:
    try:
        testbed.up()
        found += [check("links", True, "up at every port", ""), *cable_checks(testbed)]
        with low_latency(testbed) as own:
            found += setting_checks(own, testbed.ports)
    except XdplabError as exc:
        text, _, fix = str(exc).partition("; ")
        if exc.exit_code == Interrupted.exit_code:
            raise
        found.append(check("links" if not found else "settings", False, text, fix))
    finally:
        testbed.down()
