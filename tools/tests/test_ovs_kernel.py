# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's datapath in the kernel; for real it runs in the guest of ci/nic, whose kernel has the module."""

from pathlib import Path
from typing import Any, cast

import pytest
from lab.ovs_host import OvsHost, dut_maker, forwarder

from xdplab.hosts import Host
from xdplab.hosts.agent.netlink import Link
from xdplab.hosts.base import Completed
from xdplab.hosts.kernel import TUN
from xdplab.model import XdplabError
from xdplab.testbed.needs import who_has

MODULE = "/sys/module/openvswitch"


class KernelHost(OvsHost):
    """A host with the module, or without; `left`: the datapath outlives its daemon."""

    def __init__(self, loaded: bool = True, installed: bool = True, left: bool = False) -> None:
        super().__init__()
        self.loaded, self.installed, self.left = loaded, installed, left

    def exists(self, path: str | Path) -> bool:
        return self.loaded if str(path) == MODULE else super().exists(path)

    def run(self, argv: Any, **more: Any) -> Completed:
        done = super().run(argv, **more)
        if TUN in argv or (argv[0] == "modprobe" and not self.installed):
            return Completed(tuple(argv), 1, "", "no")
        return done

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
    assert (["ovs-dpctl", "del-dp", "ovs-system"] in host.runs) is left


def test_its_options_are_of_rules_and_builds_and_it_does_all_pipelines_but_tunnels() -> None:
    made = forwarder("ovs-kernel")
    assert "vxlan" not in made.pipelines
    assert {"nat", "conntrack", "acl", "meter"} <= set(made.pipelines)
    assert "emc_insert_inv_prob" not in type(made.options).model_fields


class Production(KernelHost):
    """Another daemon's bridge is in the datapath."""

    def run(self, argv: Any, **more: Any) -> Completed:
        done = super().run(argv, **more)
        ports = enumerate(("ovs-system", "xdplab0", "br-int"))
        shown = "".join(f"  port {number}: {name} (internal)\n" for number, name in ports)
        return Completed(tuple(argv), 0, f"system@ovs-system:\n{shown}", "") if argv[0] == "ovs-dpctl" else done


def test_a_datapath_with_ports_of_somebody_else_is_not_removed(tmp_path: Path) -> None:
    host, made = Production(left=True), forwarder("ovs-kernel")
    made.start(dut_maker(tmp_path)(host))
    with pytest.raises(XdplabError, match="B: ovs-system has ports of somebody else, br-int: it is left alone"):
        made.stop()
    assert not any("del-dp" in argv for argv in host.runs)


@pytest.mark.parametrize("left", [False, True])
def test_on_a_host_whose_datapath_another_daemon_has_it_is_refused(left: bool) -> None:
    made, host = forwarder("ovs-kernel"), cast(Host, KernelHost(left=left))
    reason = who_has(host, made.name, made.own_links)
    words = "B: ovs-system of somebody else is there, which ovs-kernel would take over and remove; give it another host"
    assert reason == (words if left else None)
