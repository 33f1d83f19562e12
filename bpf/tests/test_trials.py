# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One process of xdpgen serves several trials: a configuration a line in, a result a line out."""

import contextlib
import json
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import XDPGEN, clean, config, counts, only, stream, xdpgen

RECEIVERS = [{"rx": "xdp"}, {"rx": "xdp", "xdp_mode": "generic"}, {"rx": "tc"}, {"rx": "tc", "tc_hook": "clsact"}]
by_receiver = pytest.mark.parametrize(
    "receiver",
    [pytest.param(each, marks=[] if each in ({"rx": "xdp"}, {"rx": "tc"}) else pytest.mark.slow) for each in RECEIVERS],
    ids=lambda r: "-".join(r.values()),
)
FRAMES = 600


class Serving:
    """A process that waits for trials."""

    def __init__(self, process):
        self.process = process
        self.read = b""

    def send(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def trial(self, cfg):
        self.send(json.dumps(cfg) + "\n")
        return json.loads(self.line())

    def line(self, timeout_s=30):
        while b"\n" not in self.read:
            assert select.select([self.process.stdout], [], [], timeout_s)[0], "no answer"
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            assert more, self.process.stderr.read()
            self.read += more
        line, _, self.read = self.read.partition(b"\n")
        return line

    def end(self):
        """Close its input; its exit code and what it said on stderr."""
        self.process.stdin.close()
        self.process.stdin = None
        said = self.process.communicate(timeout=30)
        assert said[0] + self.read == b""
        return self.process.returncode, said[1].decode()


@contextlib.contextmanager
def serving(*within, program=XDPGEN):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([*within, program, "-"], **pipes) as process:
        try:
            yield Serving(process)
        finally:
            process.kill()


def reported(result):
    """What does not depend on the clock or on chance."""
    one = only(result)
    return {
        **counts(one),
        "intended": one["intended"],
        "latencies": one["latency"] and one["latency"]["count"],
        "warmup": result["warmup"],
        "other": [port["other"] for port in result["ports"]],
        "attached": [(port["xdp_attach"], port["tc_attach"]) for port in result["ports"]],
        "frames": [sum(port["rx_cpus"].values()) for port in result["ports"]],
        "batch": result["batch"],
        "interrupted": result["interrupted"],
        "error": result["error"],
        "lateness": one["lateness"] and one["lateness"]["count"] >= one["sent"] - 1,
        "polled": len(result["threads"]),
    }


@by_receiver
def test_trials_of_one_process_count_as_those_of_two(direct, receiver):
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0", **receiver)]
    paced = config(ports)
    burst = config(ports, stream(kind="load", pps=None, count=3000, frame_bytes=200), duration_s=2)
    flows = config(ports, stream(flows=100, vlan=7, frame_bytes=128), flow_figures=True)
    two = config(ports, stream(), stream(id=3, pps=1000.0, frame_bytes=90, kind="load"))
    with serving() as process:
        for cfg in (paced, burst, flows, flows, paced):
            assert reported(process.trial(cfg)) == reported(xdpgen(cfg))
            assert direct.is_clean()
        first, second = process.trial(two)["streams"]
        assert (counts(first), counts(second)) == (clean(FRAMES), clean(300))
        assert process.end() == (0, "")


def test_streams_that_change_place_are_reported_apart(direct):
    """Another stream, another port, both ways, and back: what is loaded is used only where it fits."""
    a, c = direct.port("a0", tx_cpu=0), direct.port("c0", tx_cpu=0)
    forth, back = stream(id=5), stream(id=2, tx_port=1, rx_port=0, pps=1000.0)
    with serving() as process:
        for streams, ports in (((forth,), [a, c]), ((forth, back), [a, c]), ((back,), [a, c]),
                               ((forth,), [c, a]), ((forth,), [a, c])):  # fmt: skip
            got = process.trial(config(ports, *streams))["streams"]
            wanted = [(s["id"], clean(round(s["pps"] * 0.3))) for s in streams]
            assert [(one["id"], counts(one)) for one in got] == wanted
        assert process.end() == (0, "")


def held(process):
    """Programs that are loaded, and those attached to devices of namespaces of its own, by their ids."""
    loaded, links = set(), []
    for path in Path(f"/proc/{process.process.pid}/fdinfo").iterdir():
        facts = dict(line.split(":", 1) for line in path.read_text(encoding="ascii").splitlines() if ":" in line)
        found = int(facts.get("prog_id", 0))
        loaded |= {found} - {0}
        if facts.get("link_type", "").strip() == "xdp":
            links.append(found)
    return loaded, sorted(links)


def test_a_trial_loads_and_registers_nothing_that_the_one_before_had(direct):
    """Both ways and one way, slow and fast: a load costs 10 ms and more, and so does each program the kernel meets."""
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0", tx_cpu=0)]
    forth, back = stream(kind="load"), stream(id=1, tx_port=1, rx_port=0, kind="load")
    with serving() as process:
        process.trial(config(ports, forth, back))
        loaded, links = before = held(process)
        assert len(links) == 3  # the sender and two receivers
        assert set(links) < loaded
        assert direct.is_clean()
        for streams in ((stream(),), (stream(frame_bytes=700, pps=300.0), back), (forth, back)):
            process.trial(config(ports, *streams))
            assert held(process) == before
            assert direct.is_clean()
        assert process.end() == (0, "")


@pytest.mark.parametrize("sender", ["live", "xsk"])
def test_what_one_trial_lost_is_not_lost_in_the_next(middle, tmp_path, sender):
    ports = [middle.port("a0"), middle.port("c0")]
    lossy = config(ports, sender=sender)
    with middle.forwarder(tmp_path, drop=[3, 4, 90], duplicate=[200], swap=[300]), serving() as process:
        for _ in range(3):
            one = only(process.trial(lossy))
            wanted = clean(FRAMES) | {"received": FRAMES - 3, "lost": 3, "duplicated": 1, "out_of_order": 1}
            assert counts(one) == wanted
            assert one["latency"]["count"] == FRAMES - 3
        assert process.end() == (0, "")


def test_each_trial_may_use_all_cpus(direct):
    """It stays on the core of a sender only while that sends."""
    cpus = sorted(os.sched_getaffinity(0))
    with serving() as process:
        for cpu in (*cpus, *cpus):
            result = process.trial(config([direct.port("a0", tx_cpu=cpu), direct.port("c0")]))
            assert [thread["tx_cpu"] for thread in result["threads"]] == [cpu]
        assert os.sched_getaffinity(process.process.pid) == {cpu}
        assert process.end() == (0, "")


def test_a_configuration_may_come_in_pieces_and_two_at_once(direct):
    text = json.dumps(config([direct.port("a0"), direct.port("c0")], duration_s=0.1), indent=1)
    with serving() as process:
        process.send(" \n" + text[:40])
        process.send(text[40:] + text)
        assert [counts(only(json.loads(process.line()))) for _ in range(2)] == [clean(200)] * 2
        assert process.end() == (0, "")


@pytest.mark.parametrize(
    ("bad", "words"), [("{", "bad JSON: - "), ("nonsense", "bad JSON: - "), ('{"ports": []}', "streams: missing")]
)
def test_what_is_no_configuration_ends_it(direct, bad, words):
    """After the trials before it, with one line and exit code 2."""
    with serving() as process:
        assert counts(only(process.trial(config([direct.port("a0"), direct.port("c0")])))) == clean(FRAMES)
        process.send(bad + "\n")
        code, said = process.end()
    assert (code, len(said.splitlines())) == (2, 1)
    assert words in said
    assert direct.is_clean()


def test_a_trial_that_fails_ends_it(direct):
    """Its result is told."""
    ports = [direct.port("a0"), direct.port("c0", rx="tc")]
    with serving() as process:
        assert counts(only(process.trial(config(ports)))) == clean(FRAMES)
        direct.accept_redirects("c0", on=False)
        try:
            result = process.trial(config(ports))
        finally:
            direct.accept_redirects("c0")
        assert "the peer needs an XDP program or NAPI" in result["error"]
        assert process.process.wait(10) == 1
    assert direct.is_clean()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_it_waits(direct, number):
    with serving() as process:
        process.trial(config([direct.port("a0"), direct.port("c0", **RECEIVERS[3])]))
        process.process.send_signal(number)
        assert process.process.wait(10) == 0
    assert direct.is_clean()


def test_a_signal_in_a_trial_ends_it_too(direct):
    """What was measured is told; the trial that waits is not begun."""
    cfg = config([direct.port("a0"), direct.port("c0")], duration_s=60, progress=True)
    with serving() as process:
        process.send(json.dumps(cfg) + json.dumps(cfg))
        assert process.process.stderr.readline().startswith(b"progress ")
        process.process.send_signal(signal.SIGTERM)
        assert json.loads(process.line())["interrupted"]
        assert process.process.wait(10) == 0
        assert process.process.stdout.read() == b""
    assert direct.is_clean()
