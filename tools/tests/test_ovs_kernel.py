# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's datapath in the kernel; for real it runs in the guest of ci/nic, whose kernel has the module."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from lab.ovs_host import OvsHost, dut_maker, forwarder

from xdplab.forwarders import Dut
from xdplab.hosts import Host
from xdplab.hosts.agent.netlink import Link
from xdplab.hosts.base import Completed
from xdplab.hosts.kernel import TUN
from xdplab.model import XdplabError
from xdplab.testbed.needs import who_has

MODULE = "/sys/module/openvswitch"


class KernelHost(OvsHost):
    """A host with the module, or without; `left`: the datapath outlives its daemon."""

    #: Links of other datapaths, and ports of its own.
    datapaths: tuple[str, ...] = ()
    ports: tuple[str, ...] = ("ovs-system", "xdplab0", "b0", "b1")

    def __init__(self, loaded: bool = True, installed: bool = True, left: bool = False) -> None:
        super().__init__()
        self.loaded, self.installed, self.left = loaded, installed, left
        #: How the daemon was ended.
        self.exits: list[tuple[Any, ...]] = []

    @property
    def shown(self) -> str:
        ports = "".join(f"  port {number}: {name}\n" for number, name in enumerate(self.ports))
        return f"system@ovs-system:\n  lookups: hit:1 missed:2 lost:0\n{ports}"

    def ask_socket(self, path: Path, method: str, *params: Any, timeout_s: float = 30.0) -> Any:
        self.exits += [params] if method == "exit" else []
        return self.shown if method == "dpctl/show" else super().ask_socket(path, method, *params)

    def exists(self, path: str | Path) -> bool:
        return self.loaded if str(path) == MODULE else super().exists(path)

    def run(self, argv: Any, **more: Any) -> Completed:
        done = super().run(argv, **more)
        if TUN in argv or (argv[0] == "modprobe" and not self.installed):
            return Completed(tuple(argv), 1, "", "no")
        if argv[-1] == "openvswitch" and argv[0] == "ip":
            return Completed(tuple(argv), 0, json.dumps([{"ifname": name} for name in self.datapaths]), "")
        return Completed(tuple(argv), 0, self.shown, "") if argv[0] == "ovs-dpctl" else done

    def links(self) -> dict[str, Link]:
        return {**super().links(), **({"ovs-system": Link(1500, {})} if self.left else {})}


@pytest.mark.parametrize(
    ("loaded", "installed", "why"),
    [
        (True, True, None),
        (False, True, "the kernel's module openvswitch is not loaded, `modprobe openvswitch` loads it"),
        (False, False, "the kernel's module openvswitch is not loaded, and none is installed for this kernel"),
    ],
)
def test_the_module_must_be_there_and_nothing_else(
    loaded: bool, installed: bool, why: str | None, tmp_path: Path
) -> None:
    assert forwarder("ovs-kernel").unsupported(dut_maker(tmp_path)(KernelHost(loaded, installed))) == why


@pytest.mark.parametrize("left", [False, True])
def test_the_bridge_is_the_kernel_s_and_a_datapath_that_outlives_its_daemon_is_removed(
    left: bool, tmp_path: Path
) -> None:
    host, made = KernelHost(left=left), forwarder("ovs-kernel")
    made.start(dut_maker(tmp_path)(host))
    assert [row["datapath_type"] for row in host.rows("Bridge")] == ["system"]
    assert {row["type"] for row in host.rows("Interface")} == {"internal", "system"}
    assert (made.mode()["label"], made.forwarding_threads()) == ("kernel datapath", {})
    counted = made.counters()
    assert set(counted["datapath"]) == {"hit", "missed", "lost"}
    made.stop()
    assert host.exits == [("--cleanup",)]
    assert (["ovs-dpctl", "del-dp", "ovs-system"] in host.runs) is left


def test_its_options_are_of_rules_and_builds_and_it_does_all_pipelines_but_tunnels() -> None:
    made = forwarder("ovs-kernel")
    assert "vxlan" not in made.pipelines
    assert {"nat", "conntrack", "acl", "meter"} <= set(made.pipelines)
    assert "emc_insert_inv_prob" not in type(made.options).model_fields


@pytest.mark.parametrize("ours", [("b1", "xdplab0"), ()])
def test_a_datapath_with_ports_of_somebody_else_is_not_removed(ours: tuple[str, ...], tmp_path: Path) -> None:
    """Nor by its daemon's end, which took along all ports; ours are taken out."""
    host, made = KernelHost(left=True), forwarder("ovs-kernel")
    made.start(on_a_machine(dut_maker(tmp_path)(host)))
    host.ports = ("ovs-system", "br-int", *ours)
    with pytest.raises(XdplabError, match="B: ovs-system has ports that xdplab did not make, br-int: it is left alone"):
        made.stop()
    assert host.exits == [()]
    changing = [argv[1:] for argv in host.runs if argv[0] == "ovs-dpctl" and argv[1] != "show"]
    assert changing == ([["del-if", "ovs-system", *ours]] if ours else [])


def test_a_datapath_that_misses_ports_of_ours_goes_after_its_daemon(tmp_path: Path) -> None:
    """Another daemon may be removing them, whose own ours has just removed."""
    host, made = KernelHost(left=True), forwarder("ovs-kernel")
    made.start(on_a_machine(dut_maker(tmp_path)(host)))
    host.ports = ("ovs-system", "xdplab0", "b0")
    made.stop()
    assert host.exits == [()]
    assert ["ovs-dpctl", "del-dp", "ovs-system"] in host.runs


def on_a_machine(dut: Dut) -> Dut:
    """In place of a network namespace of ours."""
    return replace(dut, ports=tuple(replace(port, lasting=True) for port in dut.ports))


def test_ports_that_changes_and_topologies_add_are_ours(tmp_path: Path) -> None:
    host, made = KernelHost(), forwarder("ovs-kernel")
    made.start(on_a_machine(dut_maker(tmp_path)(host)))
    host.ports = (*host.ports, "xdplab-u1")
    made.stop()
    assert host.exits == [("--cleanup",)]


def test_a_datapath_of_another_name_is_somebody_else_s_too() -> None:
    made, host = forwarder("ovs-kernel"), KernelHost()
    host.datapaths = ("mydp",)
    assert "mydp of somebody else is there" in (who_has(cast(Host, host), made.name, made.own_links) or "")
    userspace = forwarder("ovs-afxdp")
    assert who_has(cast(Host, host), userspace.name, userspace.own_links) is None


@pytest.mark.parametrize("left", [False, True])
def test_on_a_host_whose_datapath_another_daemon_has_it_is_refused(left: bool) -> None:
    made, host = forwarder("ovs-kernel"), cast(Host, KernelHost(left=left))
    reason = who_has(host, made.name, made.own_links)
    words = "B: ovs-system of somebody else is there, which ovs-kernel would take over and remove; give it another host"
    assert reason == (words if left else None)
