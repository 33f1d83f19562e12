# SPDX-License-Identifier: Apache-2.0
"""The hosts of a testbed file as an inventory of Ansible, so that addresses and keys are written once.

Ansible runs the `ssh` program with a command line, where xdplab calls a library: what reaches it are names that the
model has held to patterns, and paths that are refused here when ssh, a shell or Ansible would read more into them.
"""

import re
import shlex
from pathlib import Path
from typing import Any

from xdplab.forwarders.ovs.builds import cache
from xdplab.model import HostSpec, InputError, SshAddress, TestbedSpec

#: Host keys are checked, nobody is asked for a password, and nothing is read from the user's ssh_config.
_ALWAYS = ("BatchMode=yes", "PasswordAuthentication=no", "StrictHostKeyChecking=yes")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./~+@,:=-]+")


def inventory(spec: TestbedSpec) -> dict[str, Any]:
    """What Ansible expects of an inventory script: groups role_a, role_b, role_c, trex, and the variables of each host.

    Raises:
        InputError: the testbed has no machines, or a path of it means something to a shell.
    """
    if spec.kind != "hosts":
        raise InputError(f"testbed {spec.name}: kind {spec.kind} has no machines; Ansible needs one of kind hosts")
    groups: dict[str, Any] = {}
    for role in "abc":
        hosts = {port.host for name, port in spec.ports.items() if name.startswith(role)}
        groups[f"role_{role}"] = {"hosts": sorted(hosts)}
    groups["trex"] = {"hosts": [spec.ports["a0"].host] if spec.trex else []}
    hostvars = {name: _variables(spec, name, host) for name, host in spec.hosts.items()}
    return {"all": {"children": [*groups]}, **groups, "_meta": {"hostvars": hostvars}}


def _variables(spec: TestbedSpec, name: str, host: HostSpec) -> dict[str, Any]:
    connection = {
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_user": host.user,
        "ansible_ssh_private_key_file": _path(name, "key", host.key) if host.key else None,
        "ansible_ssh_common_args": shlex.join(_ssh_options(name, host, host.jump)),
        "ansible_become": host.sudo,
    }
    ports = {role: port.ifname for role, port in sorted(spec.ports.items()) if port.host == name and port.ifname}
    return {key: value for key, value in connection.items() if value is not None} | {
        "xdplab_testbed": spec.name,
        "xdplab_ports": ports,
        "xdplab_cpus": list(host.cpus or ()),
        "xdplab_cache": str(cache().parent),
    }


def _ssh_options(name: str, to: SshAddress, jump: SshAddress | None) -> list[str]:
    options = ["-F", "none"]
    for option in (*_ALWAYS, f"UserKnownHostsFile={_path(name, 'known_hosts', to.known_hosts)}"):
        options += ["-o", option]
    if to.key:
        options += ["-o", "IdentitiesOnly=yes"]
    if jump is not None:
        # ssh hands this line to a shell, after it has put the host and port where %h and %p are
        words = ["ssh", *_ssh_options(f"{name}: jump host", jump, None), "-p", str(jump.port)]
        words += ["-i", _path(f"{name}: jump host", "key", jump.key)] if jump.key else []
        words += ["-l", jump.user] if jump.user else []
        line = shlex.join([*words, "--", jump.address]).replace("%", "%%")
        options += ["-o", f"""ProxyCommand={line.replace(" -- ", " -W '[%h]:%p' -- ")}"""]
    return options


def _path(name: str, field: str, given: str) -> str:
    path = str(Path(given).expanduser())
    if not _PLAIN_PATH.fullmatch(path) or path.startswith("-"):
        raise InputError(f"{name}: {field}: {path!r} means something to ssh or a shell; give it a plain name")
    return path
