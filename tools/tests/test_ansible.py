# SPDX-License-Identifier: Apache-2.0
"""ci/ansible without hosts: the inventory that a testbed file makes, and what the roles read from programs."""

import importlib.util
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from xdplab.cli.inventory import inventory
from xdplab.model import InputError, TestbedSpec
from xdplab.testbed import read_testbed
from xdplab.tools import project_root

ANSIBLE = project_root() / "ci" / "ansible"
_found = importlib.util.spec_from_file_location("told", ANSIBLE / "filter_plugins" / "told.py")
assert _found
assert _found.loader
told: Any = importlib.util.module_from_spec(_found)
_found.loader.exec_module(told)


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
    }
    tester = found["_meta"]["hostvars"]["tester"]
    assert (tester["ansible_host"], tester["ansible_port"], tester["ansible_user"]) == ("192.0.2.10", 22, "lab")
    assert tester["ansible_become"] is True
    assert tester["xdplab_ports"] == {"a0": "ens1f0", "c0": "ens1f1"}
    assert tester["xdplab_cpus"] == [2, 3]


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


def test_b_gets_every_package_that_forwarders_and_their_builds_need() -> None:
    listed = (project_root() / "ci" / "packages.txt").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^# (forwarders|ovs/build)\n((?:[^#\n]+\n)+)", listed, re.MULTILINE))
    needed = {line for text in sections.values() for line in text.split()}
    assert len(needed) >= 8
    build = (project_root() / "ovs" / "build").read_text(encoding="utf-8")
    table = re.search(r"^BUILD_NEEDS = \{(.*?)^\}", build, re.MULTILINE | re.DOTALL)
    assert table
    needed |= set(re.findall(r'^    "([^"]+)":', table.group(1), re.MULTILINE))
    given = yaml.safe_load((ANSIBLE / "group_vars" / "role_b.yml").read_text(encoding="utf-8"))
    everywhere = yaml.safe_load((ANSIBLE / "group_vars" / "all.yml").read_text(encoding="utf-8"))
    assert needed - {*given["xdplab_more_packages"], *everywhere["xdplab_packages"]} == set()


def test_packages_that_are_installed() -> None:
    lines = ["ii libxdp1 1.3.1-1", "rc gone 1.0", "un never ", "ii libc6 2.36-9+deb12u14", "hi held 3"]
    assert told.told_packages(lines) == {"libxdp1": "1.3.1-1", "libc6": "2.36-9+deb12u14"}


def test_what_a_purge_would_remove() -> None:
    lines = ["Reading package lists...", "Purg libxdp1 [1.3.1-1]", "Remv theirs [2.0] [libxdp1 ]", "Inst x (1)"]
    assert told.told_removals(lines) == ["libxdp1", "theirs"]


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
    assert told.told_services(results) == [
        {"name": "irqbalance", "active": True, "enabled": True},
        {"name": "tuned", "active": False, "enabled": True},
    ]


def test_ports_and_files() -> None:
    drivers = [{"item": {"key": "b0", "value": "ens2f0"}, "stdout_lines": ["driver: ice", "firmware-version: 4.0: x"]}]
    links = [{"stdout": '[{"ifname": "ens2f0", "mtu": 1500}]'}]
    assert told.told_ports(drivers, links) == {
        "b0": {"driver": {"driver": "ice", "firmware-version": "4.0: x"}, "link": {"ifname": "ens2f0", "mtu": 1500}}
    }
    assert told.told_files(["/a:one:1", "/a:two", "/b:"]) == {"/a": "one:1", "/b": ""}
