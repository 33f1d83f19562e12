# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Start, stop, interruption and death; nothing stays attached."""

import json
import signal
import time

import pytest
from conftest import clean, config, counts, only, stream, xdpgen, xdpgen_running

RECEIVERS = [{"rx": "xdp"}, {"rx": "tc"}, {"rx": "tc", "tc_hook": "clsact"}]


def long_run(net, **receiver):
    ports = [net.port("a0", tx_cpu=0), net.port("c0", **receiver)]
    return config(ports, stream(pps=10000.0), duration_s=60, progress=True)


@pytest.mark.parametrize("sender", ["live", "xsk"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_the_result_so_far(direct, number, sender):
    begin = time.monotonic()
    with xdpgen_running(long_run(direct) | {"sender": sender}) as process:
        assert direct.attached("c0")["xdp"]
        time.sleep(max(0, begin + 1.4 - time.monotonic()))
        longest_s = time.monotonic() - begin
        process.send_signal(number)
        out, err = process.communicate(timeout=5)
    assert process.returncode == 0
    result = json.loads(out)
    one = only(result)
    assert result["interrupted"] is True
    assert 0.8 < result["elapsed_s"] < longest_s + 0.2
    assert one["sent"] + one["skipped"] == pytest.approx(result["elapsed_s"] * 10000, abs=2)
    assert counts(one) == clean(one["sent"])
    assert one["lateness"]["count"] in (one["sent"], one["sent"] - 1)
    progress, *more = err.splitlines()
    assert len(more) == int(result["elapsed_s"]) - 1
    assert progress.startswith("progress ")
    assert json.loads(progress.removeprefix("progress "))["t"] == pytest.approx(1.0, abs=0.05)
    assert direct.is_clean()


@pytest.mark.parametrize("receiver", RECEIVERS, ids=lambda r: "-".join(r.values()))
def test_kill_9(direct, receiver):
    with xdpgen_running(long_run(direct, **receiver)) as process:
        attached = direct.attached("c0")
        assert any(attached.values())
        process.kill()
        process.wait(5)
    time.sleep(0.1)
    left = direct.attached("c0")
    if receiver.get("tc_hook") != "clsact":
        assert direct.is_clean()
        return
    # the classic hook outlives us: the next run replaces the filter
    assert left["filters"] == 1
    one = only(xdpgen(config([direct.port("a0"), direct.port("c0", **receiver)])))
    assert counts(one) == clean(600)
    assert direct.attached("c0")["filters"] == 0
    direct.exec("c", "tc", "qdisc", "del", "dev", "c0", "clsact")


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
