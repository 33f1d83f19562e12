# SPDX-License-Identifier: Apache-2.0
"""Three hosts behind real sshd: runs there leave nothing changed, whatever happens to the connection or to us."""

import itertools
import json
import os
import re
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.bench import Bench
from lab.command import documented, finish, guardians, held_up, kill_9, start, wait_for, xdplab
from lab.cuts import changes, look, run as run_with_cuts, running
from lab.sshlab import HOME

from xdplab.hosts import SshHost, ssh_link
from xdplab.hosts.signals import interruptible
from xdplab.model import Interrupted, LinkLost
from xdplab.testbed import read_testbed
from xdplab.tools import project_root

pytestmark = pytest.mark.root

_SHORT = ["--set", "method.duration_s=0.1", "--set", "method.light_pps=null"]


@pytest.fixture(scope="module")
def module_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench.up(tmp_path_factory.mktemp("ssh")) as made:
        yield made


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    module_bench.lab.write_testbed()
    return module_bench


def test_a_run_measures_one_way_between_namespaces_of_one_kernel_and_leaves_no_trace(bench: Bench) -> None:
    done = bench.run(forwarders=["xdp", "ovs-afxdp"], knobs={"napi_defer_hard_irqs": [3]})
    assert done.code == 0, done.err
    rows = bench.rows()
    assert [(row["status"], row["quantity"]) for row in rows] == [("ok", "one-way")] * 2
    run = bench.last_run().load()
    assert run.environment.clock == "A (a) and C (c) are network namespaces of one kernel"
    assert run.calibration is not None
    assert set(run.environment.hosts) == {"a", "c"}
    bench.assert_as_before()


class LinkEvents:
    """What `ip monitor link` prints in a host's namespace, between links of our own that come and go."""

    def __init__(self, bench: Bench, host: str) -> None:
        self._ip = lambda *argv: bench.lab.on(host, "ip", "link", *argv)
        argv = ["ip", "-n", bench.lab.netns(host), "monitor", "link"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self._lines = self._process.stdout
        while not select.select([self._lines], [], [], 0.2)[0]:  # it is not there yet
            self._mark("mark-first")
        self.up_to("mark-begin")

    def _mark(self, name: str) -> None:
        self._ip("add", name, "type", "veth", "peer", "name", "mark-peer")
        self._ip("delete", name)

    def up_to(self, mark: str) -> list[str]:
        """Changes of links since the last mark."""
        self._mark(mark)
        lines = itertools.takewhile(lambda line: mark not in line, self._lines)
        return [line for line in lines if re.match(r"(Deleted )?\d+: (?!mark-)", line)]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)


def test_a_dry_run_changes_nothing_on_the_hosts_not_even_for_a_moment(bench: Bench) -> None:
    """The kernel of each host reports every change of a link; one of our own is seen."""
    with ExitStack() as stack:
        hosts = {host: LinkEvents(bench, host) for host in "ABC"}
        for events in hosts.values():
            stack.callback(events.close)
        study = bench.study(forwarders=["xdp", "linux-bridge"], knobs={"napi_defer_hard_irqs": [0, 3]})
        done = xdplab("run", study, "--dry-run", env=bench.env)
        assert "4 points" in done.out, done.err
        assert {host: events.up_to("mark-end") for host, events in hosts.items()} == {"A": [], "B": [], "C": []}
        bench.lab.on("B", "ip", "link", "set", "b0", "alias", "seen")
        bench.lab.on("B", "ip", "link", "set", "b0", "alias", "")
        assert len(hosts["B"].up_to("mark-last")) == 2
    bench.assert_as_before()


@pytest.mark.slow
def test_sockets_at_both_ends_are_programs_on_two_hosts(bench: Bench) -> None:
    """Forwarder and tester of `bpf/xsk` run where their ports are; pings wait in poll and do not."""
    done = bench.run(tester="xsk-ping", tester_options={"wait": ["spin", "poll"]}, path=["hairpin"], forwarders=["xsk"])
    assert done.code == 0, done.err
    rows = bench.rows()
    assert [(row["status"], row["quantity"], row["tester"]) for row in rows] == [
        ("ok", "round trip", "xsk-ping:wait=spin"),
        ("ok", "round trip", "xsk-ping:wait=poll"),
    ]
    bench.assert_as_before()


@pytest.mark.slow
def test_one_socket_is_measured_on_hosts(bench: Bench) -> None:
    cases = [{"name": "xsk", "label": "sink"}, {"name": "xsk", "label": "packet", "options": {"backend": "af_packet"}}]
    method = {"name": "micro", "workloads": ["rxdrop", "l2fwd"], "duration_s": 0.1, "warmup_s": 0.05}
    done = bench.run(forwarders=cases, method=method, traffic={}, path=[])
    assert done.code == 0, done.err
    found = [(row["status"], row["by_repetition"][0]["figures"]["mpps"]["value"] > 0) for row in bench.rows()]
    assert found == [("ok", True)] * 4
    bench.assert_as_before()


def test_ports_with_more_queues_than_the_forwarder_has_get_as_many_for_the_run(bench: Bench) -> None:
    """As cards come: a channel for each CPU. Without it frames of the tester's CPU come into another queue."""
    most = os.cpu_count() or 1
    if most < 2:
        pytest.skip("a veth has as many queues as there are CPUs")

    def queues(count: int) -> None:
        for role, host in HOME.items():
            bench.lab.on(host, "ethtool", "-L", role, "rx", str(count), "tx", str(count))

    queues(2)
    before = look(bench.lab)
    spec = bench.lab.spec()
    spec["hosts"]["a"]["cpus"] = [1]  # which a veth takes into queue 1
    spec["hosts"]["b"]["cpus"] = [0, 1]
    spec["hosts"]["c"]["cpus"] = [1]
    study = {"forwarders": ["xsk"], "path": ["through"]}
    try:
        bench.lab.testbed.write_text(yaml.safe_dump({**spec, "low_latency": False}), encoding="utf-8")
        done = bench.run(**study)
        assert "no frame came through" in done.out + done.err
        (row,) = bench.rows()
        assert row["status"] == "failed"
        assert "no frame came through forward or backward" in row["reason"]
        assert re.search(
            r"; of (\d+) frames A→C, \1 arrived at queue 1 of b0, and its AF_XDP sockets are at queue 0 "
            r"\(queues: 1 in the testbed file\), \1 got XDP_PASS at b0 and ended in B's own stack",
            row["reason"],
        ), row["reason"]
        bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
        done = bench.run(**study)
        assert done.code == 0, done.err
        assert [row["status"] for row in bench.rows()] == ["ok"]
        in_force = bench.last_run().load().environment.low_latency
        assert in_force == {role: {"channels": "1"} for role in HOME}
        assert changes(bench.lab, before) == []
    finally:
        queues(1)
    bench.assert_as_before()


def test_one_cable_is_a_testbed_for_hairpin(bench: Bench) -> None:
    spec = bench.lab.spec()
    spec["ports"] = {role: spec["ports"][role] for role in ("a0", "b0")}
    del spec["hosts"]["c"]
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    done = bench.run(path=[])
    assert done.code == 0, done.err
    assert [(row["status"], row["path"], row["quantity"]) for row in bench.rows()] == [("ok", "hairpin", "round trip")]
    doctor = xdplab("doctor", "--testbed", bench.lab.testbed, "--json", env=bench.env, timeout_s=100)
    assert [each for each in json.loads(doctor.out) if each["state"] == "missing"] == []
    bench.assert_as_before()


def test_machines_with_clocks_of_their_own_measure_round_trips_only(bench: Bench) -> None:
    spec = {**bench.lab.spec(), "one_way": False}
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    done = bench.run(path=["through", "reflect"])
    assert done.code == 0, done.err
    rows = {row["path"]: row for row in bench.rows()}
    assert rows["through"]["status"] == "unsupported"
    assert "needs one clock: the testbed file says one_way: false" in rows["through"]["reason"]
    assert (rows["reflect"]["status"], rows["reflect"]["quantity"], rows["reflect"]["loss_ratio"]) == (
        "ok",
        "round trip",
        0,
    )
    bench.assert_as_before()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_a_doctor_that_is_ended_puts_back_what_it_tried(bench: Bench, number: signal.Signals) -> None:
    """A closed terminal; and kill -9, after which its guardian does it."""
    doctor = start("doctor", "--testbed", bench.lab.testbed, env=bench.env)
    wait_for(lambda: look(bench.lab) != bench.before, "a port that it has up")
    doctor.send_signal(number)
    done = finish(doctor)
    assert done.code == {signal.SIGHUP: 130, signal.SIGKILL: -9}[number], done.err
    bench.assert_as_before()


@pytest.mark.slow
def test_three_machines_follow_the_page(bench: Bench, tmp_path: Path) -> None:
    """The commands of docs/hosts.md from the doctor on, as they stand there but for shorter trials."""
    text = (project_root() / "docs" / "hosts.md").read_text(encoding="utf-8")
    block = next(
        each for each in re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if "doctor" in each
    )
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    named = [each for each in commands if "lab.yaml" in " ".join(each) and each[0] in ("xdplab", "robot")]
    assert [each[1] for each in named if each[0] == "xdplab"] == ["doctor", "run", "restore"]
    spec = {**bench.lab.spec(), "one_way": False}
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    shorter = {
        "run": ["--set", "forwarders=[xdp]", "--set", "answer=null", "--set", "repetitions=1", *_SHORT],
        "-v": ["-d", str(tmp_path), "-v", "FORWARDERS:xdp", "-v", "CLAUSES:throughput", "-v", "LINE_RATE:20e6"],
    }
    for program, first, *rest in named:
        given = [word.replace("lab.yaml", str(bench.lab.testbed)) for word in rest]
        more = shorter.get(first, [])
        words = [program, *more, first, *given] if program == "robot" else [program, first, *more, *given]
        done = documented(words, env=bench.env, cwd=project_root(), timeout_s=200)
        assert done.code == 0, (words, done.out, done.err)
        if more:
            (row,) = bench.rows()
            assert row["status"] == "ok", row["reason"]
            assert (row["path"], row["quantity"]) == ("reflect", "round trip")
    rate = xdplab("show", "--json", env=bench.env).json()[0]["ndr_pps"]
    assert 0 < rate <= 20e6 / (84 * 8) * 1.001
    bench.assert_as_before()


def test_path_through_is_refused_between_machines_with_what_it_lacks(bench: Bench) -> None:
    """A latency lacks the clock; a throughput needs none, and lacks a tester that counts at the far machine."""
    lab = bench.lab
    spec = {**lab.spec(), "one_way": False}
    lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    method = {"name": "throughput", "budget_s": 0.2, "line_rate_bps": 20e6, "drain_s": 0.05}
    done = bench.run(method=method)
    assert done.code == 2
    assert "the tester counts on the machine that it sends from" in done.err
    assert "path reflect comes back" in done.err
    refused = bench.run(method={**method, "equal_load": {"latency_pps": 1000}})
    assert "path through is one-way and needs one clock" in refused.err
    bench.assert_as_before()


def test_after_kill_9_the_next_command_puts_the_hosts_back(bench: Bench) -> None:
    process = start("run", bench.study(method={"name": "latency", "duration_s": 20}, forwarders=["ovs-afxdp"],
                                       knobs={"threaded_napi": [1]}), env=bench.env)  # fmt: skip

    def is_measuring() -> bool:
        running_now = " ".join(running(bench.lab))
        states = (path.read_text(encoding="utf-8") for path in (bench.folder / "state").glob("*.json"))
        started = all(name in running_now for name in ("xdpgen", "ovs-vswitchd"))
        return started and any("threaded_napi" in text for text in states)

    wait_for(is_measuring, "a trial with the setting changed", 60)
    kill_9(process.pid)
    finish(process)
    done = xdplab("restore", "--testbed", bench.lab.testbed, env=bench.env, timeout_s=100)
    assert done.code == 0, done.err
    assert not any("ovs-vswitchd" in each for each in running(bench.lab))  # by restore, or by the agent before it
    assert "threaded_napi back to" in done.out
    bench.assert_as_before()
    again = xdplab("restore", "--testbed", bench.lab.testbed, env=bench.env)
    assert (again.code, again.out) == (0, "")


def test_after_kill_9_hosts_are_put_back_without_a_command(bench: Bench) -> None:
    long = bench.study(method={"name": "latency", "duration_s": 20}, knobs={"threaded_napi": [1]})
    process = start("run", long, env=bench.env)
    state = bench.folder / "state" / f"{bench.lab.name}.json"
    wait_for(lambda: state.exists() and "threaded_napi" in state.read_text(encoding="utf-8"), "a setting", 60)
    process.kill()
    finish(process)  # once its guardian has closed their standard error
    wait_for(lambda: not state.exists(), "the guardian", 60)
    bench.assert_as_before()


@pytest.mark.slow
def test_applications_need_no_common_clock_and_leave_no_address_after_kill_9(bench: Bench) -> None:
    bench.lab.testbed.write_text(yaml.safe_dump({**bench.lab.spec(), "one_way": False}), encoding="utf-8")
    method = {"name": "applications", "workloads": ["bulk", "requests"], "duration_s": 0.2, "warmup_s": 0.05}
    done = bench.run(method=method, forwarders=["ovs-afxdp"])
    assert done.code == 0, done.err
    assert {row["status"] for row in bench.rows()} == {"ok"}
    bench.assert_as_before()
    long = bench.study(method={**method, "duration_s": 30}, forwarders=["ovs-afxdp"])
    process = start("run", long, env=bench.env)
    wait_for(lambda: any(each.startswith("A: xdpapp") for each in running(bench.lab)), "a trial", 60)
    assert "198.18.0.1" in _addresses(bench, "A")
    kill_9(process.pid)
    finish(process)
    done = xdplab("restore", "--testbed", bench.lab.testbed, env=bench.env, timeout_s=100)
    assert done.code == 0, done.err
    assert "198.18.0" not in _addresses(bench, "A") + _addresses(bench, "C")
    bench.assert_as_before()


def _addresses(bench: Bench, host: str) -> str:
    argv = ["ip", "-n", bench.lab.netns(host), "address", "show"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_ctrl_c_in_a_trial_puts_everything_back(bench: Bench) -> None:
    process = start("run", bench.study(method={"name": "latency", "duration_s": 30}), env=bench.env)
    wait_for(lambda: any("xdpgen" in each for each in running(bench.lab)), "a trial", 60)
    process.send_signal(signal.SIGINT)
    finish(process).refused("ended by SIGINT", code=130)
    bench.assert_as_before()


@pytest.mark.slow
def test_a_host_that_stays_away_ends_the_run_and_is_put_back_later(bench: Bench) -> None:
    bench.lab.write_testbed(b={"reconnect_s": 1.0})
    # a method that has set something up around the forwarder
    method = {"name": "applications", "workloads": ["requests"], "duration_s": 4}
    process = start("run", bench.study(method=method), env=bench.env)
    journal = bench.folder / "results" / "latest" / "run.json"
    wait_for(lambda: any("xdpfwd" in each for each in running(bench.lab)) and journal.exists(), "it", 60)
    bench.lab.stop_sshd("B")
    done = finish(process, 100)
    done.refused("b (", "not reached again within 1 s", "xdplab restore", code=1)
    bench.lab.start_sshd("B")
    restored = xdplab("restore", "--testbed", bench.lab.testbed, env=bench.env, timeout_s=100)
    assert restored.code == 0, restored.err
    bench.assert_as_before()


@pytest.mark.parametrize(
    ("host", "given"),
    [
        ("B", {"forwarders": ["ovs-afxdp"], "knobs": {"threaded_napi": [1]}}),
        pytest.param("A", {}, marks=pytest.mark.slow),
        pytest.param("C", {"path": ["reflect"], "tester": "xsk-ping"}, marks=pytest.mark.slow),
    ],
)
def test_a_connection_that_is_lost_in_a_trial_costs_that_repetition_which_is_taken_again(
    bench: Bench, host: str, given: dict[str, Any]
) -> None:
    bench.lab.testbed.write_text(yaml.safe_dump({**bench.lab.spec(), "one_way": host != "C"}), encoding="utf-8")
    latest = bench.folder / "results" / "latest"
    before = latest.resolve()
    process = start("run", bench.study(method={"name": "latency", "duration_s": 3}, **given), env=bench.env)
    wait_for(lambda: latest.resolve() != before and (latest / "run.json").exists(), "the end of the calibration", 60)
    time.sleep(2.0)  # within the trial
    bench.lab.stop_sshd(host)
    bench.lab.start_sshd(host)
    done = finish(process, 100)
    assert done.code == 0, done.err
    lost = f"lost the connection to host {host.lower()}"
    assert f"repetition 1: {lost}; the repetition will be repeated once" in " ".join(done.err.split())
    (row,) = bench.rows()
    assert (row["status"], row["failed"]) == ("ok", 0)
    assert row["loss_ratio"] < 0.2, "of the trial that was cut"  # a busy machine loses some of any
    ends = [trial for trial in bench.last_run().trials() if trial.purpose == "end"]
    assert [(trial.status, trial.reason) for trial in ends] == [("ok", f"{lost}; repeated once")]
    bench.assert_as_before()


@pytest.mark.slow
def test_a_connection_that_is_lost_before_the_first_repetition_costs_what_was_being_done(bench: Bench) -> None:
    process = start("run", "--calibrate", bench.study(), env=bench.env)
    wait_for(lambda: any("xdpgen" in each for each in running(bench.lab)), "its version or the calibration", 60)
    bench.lab.stop_sshd("A")
    bench.lab.start_sshd("A")
    done = finish(process, 100)
    assert done.code == 0, done.err
    words = r"lost the connection to host a; the (calibration|look at the testbed) will be repeated once"
    assert re.search(words, " ".join(done.err.split()))
    bench.assert_as_before()


@pytest.mark.slow
def test_connections_cut_at_random_moments_leave_nothing_changed(tmp_path: Path) -> None:
    """`tools/tests/lab/cuts.py` is the same with 100 trials and at least 50 cuts."""
    found = run_with_cuts(tmp_path, repetitions=1, cuts=4, seed=1, each_s=0.8, at_most=6)
    assert found.done.code == int(found.cut_twice > 0), found.done.err
    assert (found.measured + found.cut_twice >= 4, found.changed) == (True, [])
    ends = [(trial.point_id, trial.repetition) for trial in found.trials if trial.purpose == "end"]
    assert len(ends) == len(set(ends)) == 4
    # which of the look, the calibration and a repetition they hit is chance
    assert "the connection was lost" in found.done.err


def test_a_jump_host_is_gone_through(bench: Bench) -> None:
    before = (bench.lab.folder / "sshdC.log").read_text(encoding="utf-8").count("Accepted publickey")
    spec = bench.lab.spec()
    through_c = {key: spec["hosts"]["c"][key] for key in ("address", "user", "key", "known_hosts")}
    bench.lab.write_testbed(c={"jump": through_c})
    bench.connects()
    after = (bench.lab.folder / "sshdC.log").read_text(encoding="utf-8").count("Accepted publickey")
    assert after - before == 2  # the jump, and the host behind it


def test_a_host_key_that_is_not_known_is_refused(bench: Bench) -> None:
    wrong = bench.lab.folder / "wrong_hosts"
    wrong.write_text(bench.lab.known_host("A", bench.lab.address("B")), encoding="ascii")
    bench.lab.write_testbed(b={"known_hosts": str(wrong)})
    bench.refused("b (", "host key", "ssh-keyscan -p 22", "compare its fingerprint")
    wrong.unlink()
    bench.refused(f"no file {wrong} with its host key")


def test_a_key_that_is_not_let_in_is_refused(bench: Bench) -> None:
    bench.lab.write_testbed(c={"key": str(bench.lab.folder / "hostA")})
    bench.refused("c (", "user root is refused with key")
    bench.lab.write_testbed(c={"key": "/nowhere/key"})
    bench.refused("no private key file /nowhere/key")


def test_a_host_that_does_not_answer_is_named(bench: Bench) -> None:
    bench.lab.write_testbed(a={"port": 23})
    wrong = bench.lab.folder / "port_hosts"
    wrong.write_text(bench.lab.known_host("A", bench.lab.address("A"), 23), encoding="ascii")
    bench.refused("a (", "port 23", "refused")


def test_an_interface_that_somebody_needs_is_not_taken(bench: Bench) -> None:
    spec = bench.lab.spec()
    spec["ports"]["b1"]["ifname"] = "mgmt"
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    bench.refused("b: mgmt has address", "in use")
    spec["ports"]["b1"]["ifname"] = "b9"
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    bench.refused("b: no interface 'b9'")
    spec["ports"]["b1"] = {"host": "b", "ifname": "b1", "mac": "02:00:00:00:00:01"}
    bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
    bench.refused("b: b1 (b1) has MAC", "the file says 02:00:00:00:00:01")


def test_hosts_in_use_by_another_controller_are_left_alone(bench: Bench) -> None:
    other = {**bench.env, "XDPLAB_STATE": str(bench.folder / "elsewhere")}
    with held_up(bench.lab.testbed, bench.env):
        xdplab("up", "--testbed", bench.lab.testbed, env=other).refused("in use by xdplab on")
    bench.assert_as_before()


def test_an_mtu_below_1280_is_put_back(bench: Bench) -> None:
    """With one the kernel takes IPv6, and its settings, from an interface."""
    bench.lab.testbed.write_text(yaml.safe_dump({**bench.lab.spec(), "mtu": 1000}), encoding="utf-8")
    bench.connects()


def test_a_host_that_hangs_is_given_up_and_what_runs_there_ends_when_it_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ssh_link, "ANSWER_S", 1.0)
    spec = read_testbed(str(bench.lab.testbed), tmp_path).hosts["b"]
    host = SshHost("b", spec, "controller/hangs")
    host.open()
    agent = host.facts["pid"]
    host.start(["sleep", "74"], log=Path(spec.folder) / "log")
    wait_for(lambda: "B: sleep" in running(bench.lab), "what runs there")
    os.kill(agent, signal.SIGSTOP)
    try:
        with pytest.raises(LinkLost, match="b: no answer to exists after 1 s"):
            host.exists("/")
    finally:
        os.kill(agent, signal.SIGCONT)
    wait_for(lambda: "B: sleep" not in running(bench.lab), "the end of what runs there", 10)
    host.close()
    bench.assert_as_before()


def test_the_third_signal_gives_up_at_once_although_a_host_hangs(bench: Bench) -> None:
    process = start("up", "--testbed", bench.lab.testbed, env=bench.env)
    assert process.stdout
    assert any(line.startswith("up;") for line in iter(process.stdout.readline, "")), "it is not up"
    there = {pid: Path(f"/proc/{pid}/comm").read_text("utf-8") for pid in bench.lab.processes("B")}
    (agent,) = [pid for pid, comm in there.items() if comm.startswith("python")]
    os.kill(agent, signal.SIGSTOP)
    try:
        for guardian in guardians(process.pid):
            os.kill(guardian, signal.SIGKILL)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        done = finish(process, 5)
    finally:
        os.kill(agent, signal.SIGCONT)
    assert done.code == 130, done.err
    assert "given up by SIGINT: not everything is put back; `xdplab restore --testbed" in done.err
    wait_for(lambda: not any("python" in each for each in running(bench.lab)), "the agents' end", 20)
    restored = xdplab("restore", "--testbed", bench.lab.testbed, env=bench.env)
    assert restored.code == 0, restored.err
    bench.assert_as_before()


def test_hosts_are_put_back_although_the_disk_of_the_state_file_is_full(bench: Bench) -> None:
    state = bench.folder / "small"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "lab-state", str(state)], check=True)
    try:
        process = start("up", "--testbed", bench.lab.testbed, env={**bench.env, "XDPLAB_STATE": str(state)})
        assert process.stdout
        assert any(line.startswith("up;") for line in iter(process.stdout.readline, "")), "it is not up"
        with pytest.raises(OSError, match="No space left"):
            (state / "full").write_bytes(bytes(1 << 20))
        process.send_signal(signal.SIGINT)
        done = finish(process)
        assert (done.code, done.err, changes(bench.lab, bench.before)) == (0, "", [])
        assert not list(state.glob("*.json"))
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)


def test_a_command_that_is_interrupted_ends_on_its_host(bench: Bench, tmp_path: Path) -> None:
    host = SshHost("b", read_testbed(str(bench.lab.testbed), tmp_path).hosts["b"], "controller/interrupted")
    host.open()

    def interrupt() -> None:
        wait_for(lambda: "B: sleep" in running(bench.lab), "the command")  # which is within `interruptible`
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    with interruptible(), pytest.raises(Interrupted, match="SIGINT"):
        host.run(["sleep", "73"], timeout_s=60)
    sender.join()
    wait_for(lambda: "B: sleep" not in running(bench.lab), "its end", 10)
    host.close()
    bench.assert_as_before()
