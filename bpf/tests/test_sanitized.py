# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""xdpgen with AddressSanitizer and UBSan: trials of each kind, those that fail, and configurations that are refused."""

import json
import signal
import subprocess

import pytest
from conftest import clean, config, counts, net_up, only, sh, stream, xdpgen, xdpgen_running
from test_config import bad_configurations
from test_trials import serving

STREAMS = [
    stream(flows=7, dst_addresses=3),
    stream(id=1, flows=100, flow_choice="zipf", pps=500.0, frame_bytes=128),
    stream(id=2, kind="load", burst=4, pps=1000.0),
    stream(id=3, flows=1000, flow_choice="new", pps=1000.0, vlan=5, frame_bytes=1522),
]
FRAMES = (600, 150, 300, 300)
RECEIVERS = [{}, {"xdp_mode": "generic"}, {"rx": "tc"}, {"rx": "tc", "tc_hook": "clsact"}]
MORE = [{}, {"flow_figures": True}, {"sender": "xsk"}, {"batch": 64}]


@pytest.fixture(scope="module")
def program(sanitized_build):
    return sanitized_build / "xdpgen"


def test_the_build_is_one(program):
    assert b"__asan_" in program.read_bytes() and b"__ubsan_" in program.read_bytes()


def test_trials_that_follow_each_other(direct, program):
    """In one process: what is kept for the next is used, or left and made again."""
    with serving(program=program) as process:
        for receiver in RECEIVERS:
            for more in MORE:
                ports = [direct.port("a0"), direct.port("c0", **receiver)]
                reported = process.trial(config(ports, *STREAMS, **more, duration_s=0.3))["streams"]
                assert [counts(one) for one in reported] == [clean(frames) for frames in FRAMES]
        assert process.end() == (0, "")


@pytest.mark.parametrize("sender", ["live", "xsk"])
def test_a_trial_that_is_interrupted(direct, program, sender):
    run = config([direct.port("a0"), direct.port("c0")], *STREAMS, sender=sender, duration_s=60, flow_figures=True)
    run["streams"].pop()
    with xdpgen_running(run, wait_s=0.8, program=program) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert all(one["received"] == one["sent"] > 0 for one in json.loads(out)["streams"])


@pytest.mark.parametrize("sender", ["live", "xsk"])
def test_a_port_that_is_removed(program, sender):
    with net_up(("a0", "b0"), ("b1", "c0")) as net:
        run = config([net.port("a0", rx="none"), net.port("c0")], duration_s=2, drain_s=0, sender=sender)
        with xdpgen_running(run, wait_s=1, program=program) as process:
            sh("ip", "-n", net.ns("a"), "link", "del", "a0")
            out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert err == f"xdpgen: {json.loads(out)['error']}\n"


def test_what_cannot_start(direct, program):
    """Everything that was open by then is closed: the driver of the last port has no native XDP."""
    direct.exec("c", "ip", "link", "add", "c9", "up", "type", "bridge")
    ports = [direct.port(name) for name in ("a0", "c0", "c9")]
    streams = [stream(flow_choice="zipf", flows=9), stream(id=1, rx_port=2)]
    try:
        line = xdpgen(config(ports, *streams), expect=2, program=program)
        assert line.startswith("xdpgen: cannot attach") and "c9" in line
    finally:
        direct.exec("c", "ip", "link", "del", "c9")
    assert direct.is_clean()


def test_configurations_that_are_refused(direct, program):
    for bad in bad_configurations(direct):
        assert xdpgen(bad, "--check", expect=2, program=program)


def test_a_good_configuration_before_a_bad_one(direct, program):
    """The process ends with the first that fails."""
    good = config([direct.port("a0"), direct.port("c0")])
    text = json.dumps(good) + json.dumps(good | {"batch": 257}) + json.dumps(good)
    done = subprocess.run([program, "-"], input=text, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and done.stderr.startswith("xdpgen: bad configuration: batch")
    assert len(done.stderr.splitlines()) == 1
    assert counts(only(json.loads(done.stdout))) == clean(600)
