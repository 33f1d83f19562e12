# SPDX-License-Identifier: Apache-2.0
"""ci/ansible without hosts: the inventory that a testbed file makes, and what the roles read from programs."""

import importlib.util
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.command import load_program

from xdplab.cli.inventory import inventory
from xdplab.forwarders.ovs.builds import PATCHED
from xdplab.model import InputError, TestbedSpec
from xdplab.testbed import read_testbed
from xdplab.tools import project_root

ANSIBLE = project_root() / "ci" / "ansible"


def plugin(name: str) -> Any:
    found = importlib.util.spec_from_file_location(name, ANSIBLE / "filter_plugins" / f"{name}.py")
    assert found
    assert found.loader
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


builds = plugin("builds")
parsed = plugin("parsed")
hugepages = plugin("hugepages")
hugepages_plan = hugepages.hugepages_plan


def test_parts_that_advice_names_are_parts_of_the_playbooks() -> None:
    """`--tags packages` and the like, of messages and documents."""
    (play,) = yaml.safe_load((ANSIBLE / "provision.yml").read_text(encoding="utf-8"))
    parts = {role["tags"] for role in play["roles"]}
    places = [*(project_root() / "tools").glob("xdplab*/**/*.py"), *(project_root() / "docs").glob("*.md")]
    named = {
        each for path in places for each in re.findall(r"--(?:skip-)?tags ([a-z,]+)", path.read_text(encoding="utf-8"))
    }
    assert {"packages", "builds", "boot"} <= named
    assert {each for some in named for each in some.split(",")} <= parts


def example(**host: Any) -> TestbedSpec:
    text = (project_root() / "suites" / "testbeds" / "lab-example.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    data["hosts"]["dut"].update(host)
    return TestbedSpec.model_validate(data)


def options(spec: TestbedSpec) -> list[str]:
    return shlex.split(inventory(spec)["_meta"]["hostvars"]["dut"]["ansible_ssh_common_args"])


def test_hosts_of_the_testbed_file_by_role() -> None:
    found = inventory(example())
    assert {name: found[name]["hosts"] for name in found["all"]["children"]} == {
        "role_a": ["tester"],
        "role_b": ["dut"],
        "role_c": ["tester"],
        "trex": [],
    }
    tester = found["_meta"]["hostvars"]["tester"]
    assert (tester["ansible_host"], tester["ansible_port"], tester["ansible_user"]) == ("192.0.2.10", 22, "lab")
    assert tester["ansible_become"] is True
    assert tester["xdplab_ports"] == {"a0": "ens1f0", "c0": "ens1f1"}
    assert tester["xdplab_cpus"] == [2, 3]


def test_a_host_that_trex_is_started_on_gets_what_its_scripts_and_the_filter_take() -> None:
    text = (project_root() / "suites" / "testbeds" / "lab-example.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    data["trex"] = {"folder": "/opt/trex/v3.08", "config": "/etc/trex_cfg.yaml"}
    for number, role in enumerate(("a0", "c0")):
        data["ports"][role] = {"host": "tester", "trex": number, "speed_mbps": 25000}
    assert inventory(TestbedSpec.model_validate(data))["trex"] == {"hosts": ["tester"]}
    argv = [
        project_root() / "ci" / "packages",
        *variables("all")["xdplab_package_groups"],
        *variables("trex")["xdplab_trex_groups"],
    ]
    given = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    assert {"ethtool", "nftables", "pciutils"} <= given
    # a host may be B as well, and a variable of two groups has one value
    assert variables("trex").keys().isdisjoint(variables("role_b"))


def test_host_keys_are_checked_and_nobody_is_asked() -> None:
    given = options(example())
    for option in ("StrictHostKeyChecking=yes", "BatchMode=yes", "PasswordAuthentication=no"):
        assert given[given.index(option) - 1] == "-o"
    assert given[:2] == ["-F", "none"]


def test_a_jump_host_is_a_command_that_a_shell_takes_apart_as_it_was_meant(tmp_path: Path) -> None:
    command = next(each for each in options(example()) if each.startswith("ProxyCommand=")).partition("=")[2]
    fake = tmp_path / "ssh"
    fake.write_text('#!/bin/sh\nfor each; do echo "<$each>"; done\n', encoding="ascii")
    fake.chmod(0o755)
    expanded = command.replace("%h", "192.0.2.20").replace("%p", "22")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", expanded], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    words = [line[1:-1] for line in done.stdout.splitlines()]
    assert words[-2:] == ["--", "192.0.2.1"]
    assert words[words.index("-W") + 1] == "[192.0.2.20]:22"
    assert words[words.index("-l") + 1] == "lab"
    assert "StrictHostKeyChecking=yes" in words


@pytest.mark.parametrize(
    "path",
    [
        "/k/$(touch /tmp/x)", "/k/`id`", "/k/a b", "/k/a;b", "/k/a'b", '/k/a"b', "/k/{{ lookup('pipe','id') }}",
        "/k/${HOME}", "/k/%h", "/k/a\nb", "/k/a|b", "-oProxyCommand=id", "/k/\\a",
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["key", "known_hosts"])
def test_a_path_that_means_something_to_ssh_or_a_shell_is_refused(field: str, path: str) -> None:
    for spec in (example(**{field: path}), example(jump={"address": "192.0.2.1", field: path})):
        with pytest.raises(InputError, match="give it a plain name"):
            inventory(spec)


def test_a_testbed_without_machines_is_refused() -> None:
    with pytest.raises(InputError, match="kind embedded has no machines"):
        inventory(read_testbed("embedded", project_root() / "suites" / "testbeds"))


def variables(name: str) -> Any:
    return yaml.safe_load((ANSIBLE / "group_vars" / f"{name}.yml").read_text(encoding="utf-8"))


def test_b_gets_the_forwarders_and_no_compiler() -> None:
    wanted = variables("role_b")["xdplab_package_groups"]
    assert set(variables("all")["xdplab_package_groups"]) < set(wanted)
    argv = [project_root() / "ci" / "packages", *wanted]
    given = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    assert {"libxdp1", "ethtool", "openvswitch-switch", "dpdk-dev"} <= given
    build = load_program(project_root() / "ovs" / "build")
    assert given & {*build.BUILD_NEEDS} == {"python3"}
    assert variables("role_b")["xdplab_builds"] == [PATCHED]


def test_what_a_build_needs_is_what_the_linker_reads(tmp_path: Path) -> None:
    source = b"""int stat_of_2_33(void) __asm__("fstat");
        char *no_library = "libnever.so.1", *no_version = "GLIBC_9.9";
        int main(void) {return stat_of_2_33();}"""
    program = tmp_path / "ovs-program"
    argv = ["cc", "-x", "c", "-", "-o", program, "-Wl,--no-as-needed", "-lxdp", "-lm"]
    subprocess.run(argv, input=source, check=True)
    needs = builds.build_needs(str(tmp_path))
    assert needs["libraries"] == ["libc.so.6", "libm.so.6", "libxdp.so.1"]
    assert "2.33" <= needs["glibc"] < "9"
    assert needs["machine"] == os.uname().machine
    assert builds.build_needs(str(tmp_path / "never")) == {}


def test_folders_that_a_path_is_in() -> None:
    assert builds.folders_above("/home/lab/.cache") == ["/home/lab", "/home"]


def test_packages_by_state() -> None:
    lines = ["ii  libxdp1", "rc  gone", "un  never", "hi  held", "iU  begun", "iFR half", "iW  waits"]
    assert parsed.parsed_packages(lines, "iWt") == ["held", "libxdp1", "waits"]
    assert parsed.parsed_packages(lines, "HUF") == ["begun", "half"]
    assert parsed.parsed_packages(lines, "c") == ["gone"]


def test_what_an_installation_would_bring() -> None:
    lines = [
        "Inst libc6 [2.36-9] (2.36-10 lab [amd64])",
        "Inst gone (1 lab [all])",
        "Inst new (1 lab [all])",
        "Conf new (1)",
    ]
    assert parsed.parsed_installs(lines, ["gone", "other"]) == {
        "ours": {"gone": "config", "new": "absent"},
        "upgraded": ["libc6"],
    }


def test_what_a_removal_would_change() -> None:
    lines = ["Reading package lists...", "Purg libxdp1 [1.3.1-1]", "Remv theirs [2.0] [libxdp1 ]", "Inst x (1)"]
    assert parsed.parsed_removals(lines) == ["libxdp1", "theirs", "x"]
    trials = [
        {"item": "a", "stdout_lines": ["Remv a [1]", "Remv b [1]"]},
        {"item": "b", "stdout_lines": ["Remv b [1]"]},
        {"item": "c", "stdout_lines": ["Remv c [1]", "Remv theirs [1]"]},
        {"item": "d", "skipped": True},
    ]
    assert parsed.parsed_needed(trials, "abcd") == ["c"]


def pools(*nodes: int, size: str = "2048kB", available_mib: int = 8192) -> list[str]:
    """What the role hugepages reads of a host: pages by node, of which each has 4 GiB free or easily given up."""
    found = ["/proc/meminfo:MemTotal:  99999999 kB", f"/proc/meminfo:MemAvailable:  {available_mib << 10} kB"]
    found += [f"/sys/kernel/mm/hugepages/hugepages-{size}/nr_hugepages:{sum(nodes)}"]
    found += ["/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages:3"]
    for node, pages in enumerate(nodes):
        place = f"/sys/devices/system/node/node{node}"
        found += [f"{place}/meminfo:Node {node} {name}: {kib} kB" for name, kib in
                  (("MemFree", 3 << 20), ("Inactive(file)", 1 << 20), ("Active(file)", 5 << 20))]  # fmt: skip
        found += [f"{place}/hugepages/hugepages-{size}/nr_hugepages:{pages}"]
        found += [f"{place}/hugepages/hugepages-1048576kB/nr_hugepages:3"]
    return found


def test_pools_of_2_mib_pages_whatever_the_default_size_is() -> None:
    machine = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    node = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages".format
    assert hugepages_plan(pools(0, 0), 512, [], 512) == {
        "pools": [machine], "write": [machine], "before": {node(0): 0, node(1): 0}, "refused": "",
    }  # fmt: skip
    assert hugepages_plan(pools(300, 300), 512, [], 512)["write"] == []
    assert hugepages_plan(pools(600, 300), "512", [0, 1], 512)["write"] == [node(1)]
    without_numa = [line for line in pools(7) if "/node/" not in line]
    assert hugepages_plan(without_numa, 512, [], 512)["before"] == {machine: 7}


@pytest.mark.parametrize(
    ("wanted", "nodes", "why"),
    [
        (3840, [], ""),
        (
            3841,
            [],
            "for 7682 MiB more, and the host has 8192 MiB to give, of which xdplab_hugepages_leave_mib keeps 512",
        ),
        (2048, [1], ""),
        (2049, [1], "for 4098 MiB more, and NUMA node1 has 4096 MiB to give: lower xdplab_hugepages_2m (2049)"),
        (2000, [0, 1], "for 8000 MiB more, and the host has 8192 MiB"),
        (8, [2], "no /sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages: this host has no such"),
    ],
)
def test_pages_that_memory_is_not_there_for_are_refused(wanted: int, nodes: list[int], why: str) -> None:
    refused = hugepages_plan(pools(0, 0), wanted, nodes, 512)["refused"]
    assert why in refused
    assert bool(why) == bool(refused)


@pytest.mark.parametrize(
    ("now", "theirs"),
    [((256, 256), False), ((300, 212), False), ((0, 7), False), ((256, 264), True), ((0, 300), True)],
)
def test_pages_are_somebody_else_s_where_their_number_is_neither_found_nor_set(
    now: tuple[int, int], theirs: bool
) -> None:
    found, was_set = {"node0": 0, "node1": 7}, {"node0": 256, "node1": 256}
    there = dict(zip(("node0", "node1"), now, strict=True))
    assert hugepages.hugepages_theirs(there, found, was_set) is theirs
    assert hugepages.hugepages_theirs(there, found, {}) is False


def test_a_kernel_without_2_mib_pages_is_refused() -> None:
    assert "its kernel no 2 MiB pages" in hugepages_plan(pools(0, size="32768kB"), 1, [], 0)["refused"]
    assert hugepages_plan(pools(0, size="32768kB"), 0, [], 0)["write"] == []


def test_services_that_run_or_would_be_started() -> None:
    def shown(name: str, load: str, active: str, unit: str) -> dict[str, Any]:
        lines = [f"LoadState={load}", f"ActiveState={active}", f"UnitFileState={unit}"]
        return {"item": name, "stdout_lines": lines}

    results = [
        shown("irqbalance", "loaded", "active", "enabled"),
        shown("tuned", "loaded", "inactive", "enabled"),
        shown("thermald", "loaded", "inactive", "disabled"),
        shown("ours", "not-found", "inactive", ""),
        shown("masked", "masked", "inactive", "masked"),
        {"item": "not-asked", "skipped": True},
    ]
    assert parsed.parsed_services(results) == [
        {"name": "irqbalance", "active": True, "enabled": True},
        {"name": "tuned", "active": False, "enabled": True},
    ]


def test_ports_and_files() -> None:
    drivers = [{"item": {"key": "b0", "value": "ens2f0"}, "stdout_lines": ["driver: ice", "firmware-version: 4.0: x"]}]
    links = [{"stdout": '[{"ifname": "ens2f0", "mtu": 1500}]'}]
    assert parsed.parsed_ports(drivers, links) == {
        "b0": {"driver": {"driver": "ice", "firmware-version": "4.0: x"}, "link": {"ifname": "ens2f0", "mtu": 1500}}
    }
    assert parsed.parsed_files(["/a:one:1", "/a:two", "/b:"]) == {"/a": "one:1", "/b": ""}
