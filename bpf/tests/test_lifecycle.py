# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Start, stop, interruption and death; nothing stays attached."""

import contextlib
import json
import os
import signal
import subprocess
import time

import pytest
from conftest import XDPGEN, clean, config, counts, only, stream, xdpgen, xdpgen_running

RECEIVERS = [{"rx": "xdp"}, {"rx": "tc"}, {"rx": "tc", "tc_hook": "clsact"}]


def long_run(net, **receiver):
    ports = [net.port("a0", tx_cpu=0), net.port("c0", **receiver)]
    return config(ports, stream(pps=10000.0), duration_s=60, progress=True)


@pytest.mark.parametrize("sender", ["live", "xsk"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_result_so_far(direct, number, sender):
    begin = time.monotonic()
    with xdpgen_running(long_run(direct) | {"sender": sender}) as process:
        assert direct.attached("c0")["xdp"]
        progress = process.stderr.readline()  # after the first second, however late it began
        longest_s = time.monotonic() - begin
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    result = json.loads(out)
    one = only(result)
    assert result["interrupted"] is True
    assert 0.9 <= result["elapsed_s"] < longest_s + 0.2
    assert one["sent"] + one["skipped"] == pytest.approx(result["elapsed_s"] * 10000, abs=2)
    assert counts(one) == clean(one["sent"])
    assert one["lateness"]["count"] in (one["sent"], one["sent"] - 1)
    assert len(err.splitlines()) <= result["elapsed_s"]  # a busy machine leaves some out
    assert progress.startswith("progress ")
    assert 0.95 <= json.loads(progress.removeprefix("progress "))["t"] < longest_s
    assert direct.is_clean()


def test_a_hangup_leaves_no_filter_and_nohup_survives_it(direct):
    """The classic hook has no link that ends with the process."""
    run = long_run(direct, **RECEIVERS[2])
    with xdpgen_running(run) as process:
        assert direct.attached("c0")["filters"] == 1
        process.send_signal(signal.SIGHUP)
        assert json.loads(process.communicate(timeout=60)[0])["interrupted"]
    assert direct.is_clean()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with xdpgen_running(run | {"duration_s": 1}) as process:
            process.send_signal(signal.SIGHUP)
            assert not json.loads(process.communicate(timeout=60)[0])["interrupted"]
    finally:
        signal.signal(signal.SIGHUP, before)
    assert direct.is_clean()


@pytest.mark.parametrize("receiver", RECEIVERS, ids=lambda r: "-".join(r.values()))
def test_nothing_is_received_while_the_result_is_read(direct, receiver):
    """Its output is full: it stands in the middle of writing what it has counted."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filler = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filler += os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    ports = [direct.port("a0"), direct.port("c0", **receiver)]
    with subprocess.Popen([XDPGEN, "-"], stdin=subprocess.PIPE, stdout=writer, text=True) as process:
        os.close(writer)
        process.stdin.write(json.dumps(config(ports)))
        process.stdin.close()
        time.sleep(2)
        assert process.poll() is None
        attached = direct.attached("c0")
        with open(reader, "rb") as pipe:
            result = json.loads(pipe.read()[filler:])
    assert not any(attached.values())
    assert counts(only(result)) == clean(600)


def soon(look, good):
    """What `look` gives once it is `good`: an emulated guest takes seconds for what takes milliseconds here."""
    deadline = time.monotonic() + 20
    while not good(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("receiver", RECEIVERS, ids=lambda r: "-".join(r.values()))
@pytest.mark.parametrize("after", RECEIVERS[::2], ids=lambda r: "then-" + "-".join(r.values()))
def test_kill_9(direct, receiver, after):
    with xdpgen_running(long_run(direct, **receiver)) as process:
        # not `any`: the qdisc comes before the filter, and a slow guest may be asked between the two
        programs = ("xdp", "tcx", "filters")
        attached = soon(lambda: direct.attached("c0"), lambda found: any(found[each] for each in programs))
        process.kill()
        process.wait(30)
    if not attached["filters"]:
        soon(direct.is_clean, bool)
        return
    time.sleep(0.1)
    # the classic hook (before Linux 6.6 there is no other) outlives us: the next run removes what is ours
    assert attached["filters"] == direct.attached("c0")["filters"] == 1
    one = only(xdpgen(config([direct.port("a0"), direct.port("c0", **after)])))
    assert counts(one) == clean(600)
    assert direct.is_clean()


def test_a_clsact_of_another_stays(direct):
    """Also when a killed run has used it."""
    receiver = RECEIVERS[2]
    direct.exec("c", "tc", "qdisc", "add", "dev", "c0", "clsact")
    try:
        with xdpgen_running(long_run(direct, **receiver)) as process:
            process.kill()
            process.wait(30)
        assert direct.attached("c0")["filters"] == 1
        xdpgen(config([direct.port("a0"), direct.port("c0", **receiver)]))
        assert direct.attached("c0") == {"xdp": False, "tcx": 0, "filters": 0, "clsact": True}
    finally:
        direct.exec("c", "tc", "qdisc", "del", "dev", "c0", "clsact")


def test_a_filter_of_another_stays(direct):
    """In the clsact that a run has made for itself, which stays with it."""
    own = ["filter", "add", "dev", "c0", "egress", "prio", "7", "protocol", "all", "u32", "match", "u32", "0", "0"]
    try:
        with xdpgen_running(long_run(direct, **RECEIVERS[2])) as process:
            direct.exec("c", "tc", *own)
            process.terminate()
            process.wait(10)
        assert direct.attached("c0") == {"xdp": False, "tcx": 0, "filters": 0, "clsact": True}
        assert "u32" in direct.exec("c", "tc", "filter", "show", "dev", "c0", "egress")
    finally:
        direct.exec("c", "tc", "qdisc", "del", "dev", "c0", "clsact")


def test_progress_is_for_a_terminal(direct):
    """It wakes the main thread on the core of the sender."""
    run = config([direct.port("a0"), direct.port("c0")], stream(), duration_s=1.3)
    del run["progress"]
    text = json.dumps(run)
    done = subprocess.run([XDPGEN, "-"], input=text, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    master, terminal = os.openpty()
    try:
        subprocess.run(
            [XDPGEN, "-"], input=text, stdout=subprocess.PIPE, stderr=terminal, text=True, timeout=30, check=True
        )
        assert os.read(master, 1000).startswith(b"progress ")
    finally:
        os.close(master)
        os.close(terminal)


def test_a_busy_port_is_refused(direct):
    with xdpgen_running(long_run(direct)):
        line = xdpgen(config([direct.port("a0"), direct.port("c0")]), expect=2)
        assert xdpgen(config([direct.port("a0"), direct.port("c0", rx="tc")]), "--check", expect=2)
    assert "port busy: a0 carries XDP program" in line
    assert direct.is_clean()


def test_runs_follow_each_other(direct):
    """No frame of one run counts in the next, and nothing piles up."""
    ports = [direct.port("a0"), direct.port("c0")]
    for _ in range(5):
        result = xdpgen(config(ports, stream(pps=None, count=1000), warmup_s=0, drain_s=0.01))
        assert counts(only(result)) == clean(1000)
    assert direct.is_clean()
