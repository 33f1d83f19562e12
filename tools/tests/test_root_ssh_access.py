# SPDX-License-Identifier: Apache-2.0
"""Ways into a host: keys of ssh-agent, a user with sudo; and who may use the same host at the same time."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab.bench import Bench
from lab.command import held_up, xdplab

from xdplab.tools import project_root

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def module_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench.up(tmp_path_factory.mktemp("access")) as made:
        for host in "ABC":
            made.lab.on(host, "useradd", "--create-home", "--password", "*", "lab")
        yield made


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    module_bench.lab.write_testbed()
    return module_bench


@pytest.fixture
def agent_env(tmp_path: Path, bench: Bench) -> Iterator[dict[str, str]]:
    """A user without key files, whose ssh-agent holds the lab's key."""
    env = {"SSH_AUTH_SOCK": str(tmp_path / "agent.sock"), "HOME": str(tmp_path)}
    argv = ["ssh-agent", "-D", "-a", env["SSH_AUTH_SOCK"]]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout
        agent.stdout.readline()
        add(env, str(bench.lab.key))
        yield env
        agent.terminate()


def add(env: dict[str, str], *args: str) -> None:
    subprocess.run(["ssh-add", "-q", *args], env={**os.environ, **env}, check=True, capture_output=True)


def without_keys(bench: Bench, **changes: dict[str, object]) -> None:
    """The testbed file names no key; `changes` of single hosts."""
    spec = bench.lab.spec()
    for name, host in spec["hosts"].items():
        del host["key"]
        host.update(changes.get(name, {}))
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")


def test_keys_that_ssh_agent_holds_open_hosts_and_jump_hosts(bench: Bench, agent_env: dict[str, str]) -> None:
    c = bench.lab.spec()["hosts"]["c"]  # the only host that reaches c is c itself
    jump = {key: c[key] for key in ("address", "user", "known_hosts")}
    without_keys(bench, c={"jump": jump})
    bench.connects(**agent_env)
    add(agent_env, "-D")
    env = {**bench.env, **agent_env}
    refusal = xdplab("up", "--testbed", bench.lab.testbed, env=env)
    refusal.refused("refused with any key of ssh-agent or ~/.ssh", "`ssh-copy-id` puts a key there")


def test_a_key_with_a_passphrase_works_in_ssh_agent_only(
    bench: Bench, agent_env: dict[str, str], tmp_path: Path
) -> None:
    locked = tmp_path / "locked"
    locked.write_bytes(bench.lab.key.read_bytes())
    locked.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "a passphrase", "-f", str(locked)], check=True)
    bench.lab.write_testbed(**{host: {"key": str(locked)} for host in "abc"})
    bench.refused(f"key {locked}", "a key with a passphrase belongs in ssh-agent")
    without_keys(bench)
    bench.connects(**agent_env)


def documented(language_line: str) -> str:
    """The line of docs/security.md that gives a user what xdplab needs."""
    text = (project_root() / "docs" / "security.md").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(language_line)}.*$", text, re.MULTILINE)
    assert found
    return found.group() + "\n"


def as_lab_user(bench: Bench) -> None:
    user = {"user": "lab", "sudo": True, "deploy": ".cache/xdplab"}
    bench.lab.write_testbed(a=user, b=user, c=user)


def test_a_user_with_the_documented_line_of_sudoers_runs_studies(bench: Bench) -> None:
    rule = documented("lab ALL=(root) NOPASSWD:")
    for host in "ABC":
        bench.lab.put(host, "/etc/sudoers.d/xdplab", rule, 0o440)
        bench.lab.on(host, "visudo", "--check", "--quiet")
    as_lab_user(bench)
    done = bench.run(forwarders=["xdp"])
    assert done.code == 0, done.err
    assert [(row["status"], row["loss_ratio"]) for row in bench.rows()] == [("ok", 0)]
    assert "lab" in bench.lab.on("B", "stat", "--format=%U", "/home/lab/.cache/xdplab")
    spec = yaml.safe_load(bench.lab.testbed.read_text(encoding="utf-8"))
    spec["ports"]["b1"]["ifname"] = "mgmt"  # sudo hands SSH_CONNECTION on to nobody
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    bench.refused("b: mgmt has address", "carries the SSH connection")
    denied = subprocess.run(
        bench.lab.command("B", "setpriv", "--reuid=lab", "--regid=lab", "--clear-groups", "sudo", "-n", "id"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert denied.returncode == 1
    assert "a password is required" in denied.stderr


def test_sudo_that_would_ask_for_a_password_is_refused(bench: Bench) -> None:
    bench.lab.on("B", "rm", "-f", "/etc/sudoers.d/xdplab")
    bench.lab.write_testbed(b={"user": "lab", "sudo": True, "deploy": ".cache/xdplab"})
    bench.refused("b: sudo: a password is required", "`sudo -n` must work")


def test_two_testbeds_do_not_use_one_host_at_once(bench: Bench) -> None:
    """The lock is that of a testbed's name; the hosts themselves refuse another name, also from the same machine."""
    with held_up(bench.lab.testbed, bench.env) as process:
        other = bench.folder / "other.yaml"
        other.write_text(yaml.safe_dump({**bench.lab.spec(), "name": "other-name"}), encoding="utf-8")
        refusal = xdplab("up", "--testbed", other, env=bench.env)
        refusal.refused("in use by xdplab on", f"(testbed {bench.lab.name})")
        assert process.poll() is None
    bench.assert_as_before()


@pytest.mark.slow
def test_a_and_c_may_be_one_machine_with_two_ports(tmp_path: Path) -> None:
    with Bench.up(tmp_path) as bench:
        lab = bench.lab
        for port in ("c0", "d1"):
            lab.on("C", "ip", "link", "set", port, "netns", str(lab.inits["A"]))
            lab.on("A", "ip", "link", "set", port, "up")
        spec = lab.spec()
        del spec["hosts"]["c"]
        for port in ("c0", "d1"):
            spec["ports"][port]["host"] = "a"
        lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
        done = bench.run(forwarders=["xdp"])
        assert done.code == 0, done.err
        assert [(row["status"], row["loss_ratio"], row["quantity"]) for row in bench.rows()] == [("ok", 0, "one-way")]
        assert bench.last_run().load().environment.clock == "A and C are one machine (a)"
