# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A trial whose frames a port did not take for another reason than a full ring fails, with the reason."""

import json
import time

import pytest
from conftest import config, net_up, only, sh, stream, xdpgen_running
from test_tx_drops import TapWithoutQueues


def failed(process):
    """(result, line on stderr) of a trial that fails."""
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    result = json.loads(out)
    assert err == f"xdpgen: {result['error']}\n"
    return result


@pytest.mark.parametrize("batch", [1, 64])
def test_a_card_that_refuses_every_frame(middle, batch):
    with TapWithoutQueues(middle) as card:
        run = config([card.port(), middle.port("c0")], stream(), drain_s=0, batch=batch)
        with xdpgen_running(run, wait_s=0) as process:
            result = failed(process)
    one = only(result)
    assert (one["sent"], one["tx_drops"]) == (0, 600)
    assert result["error"].startswith("600 frames refused by the card's driver (No such device or address)")


def lost_port(sender, *break_it, **options):
    """(result, seconds it took) of a trial of 5 s through a bridge in which something happens to a port."""
    with net_up(("a0", "b0"), ("b1", "c0")) as net:
        sh("ip", "-n", net.ns("b"), "link", "add", "br0", "type", "bridge")
        for port in ("b0", "b1"):
            sh("ip", "-n", net.ns("b"), "link", "set", port, "master", "br0")
        sh("ip", "-n", net.ns("b"), "link", "set", "br0", "up")
        run = config([net.port("a0", rx="none"), net.port("c0")], stream(), duration_s=5, drain_s=0, sender=sender)
        with xdpgen_running(run | options, wait_s=1) as process:
            began = time.monotonic()
            for argv in break_it:
                sh("ip", "-n", net.ns(argv[0]), *argv[1:])
            if options.get("link_changes"):
                out, err = process.communicate(timeout=30)
                assert (process.returncode, err) == (0, "")
                return json.loads(out), time.monotonic() - began
            return failed(process), time.monotonic() - began


NOBODYS = "during the trial: what was lost is nobody's"
FLAP = [("b", "link", "set", "b1", "down"), ("b", "link", "set", "b1", "up")]


@pytest.mark.parametrize("sender", ["live", "xsk"])
@pytest.mark.parametrize("port", ["a0", "c0"])
def test_a_port_that_is_removed_ends_the_trial(sender, port):
    result, took_s = lost_port(sender, (port[0], "link", "del", port))
    assert result["error"] == f"port {port} was removed {NOBODYS}" or "xsk sender stopped" in result["error"]
    assert took_s < 4


@pytest.mark.parametrize("what", [FLAP[:1], FLAP])
def test_a_receiver_that_loses_its_carrier_ends_the_trial(what):
    """For however short: a link that goes and comes is one message, or none until it is asked for."""
    result, took_s = lost_port("live", *what)
    assert result["error"] == f"port c0 lost its carrier {NOBODYS}"
    assert took_s < 4


def test_where_links_may_change_the_trial_goes_on(tmp_path):
    """A forwarder that is started again takes the links of its cards down."""
    result, took_s = lost_port("live", *FLAP, link_changes=True)
    assert took_s > 3
    assert [port["link_changes"] for port in result["ports"]] == [0, 1]
    one = only(result)
    assert one["sent"] == 10_000
    assert one["received"] > 5000


def test_traffic_waits_for_the_carrier(direct):
    """A card that was reset for its XDP program has none for seconds."""
    sh("ip", "-n", direct.ns("c"), "link", "set", "c0", "down")
    try:
        run = config([direct.port("a0"), direct.port("c0")], stream())
        with xdpgen_running(run, wait_s=0) as process:
            time.sleep(1)
            assert process.poll() is None
            sh("ip", "-n", direct.ns("c"), "link", "set", "c0", "up")
            out, err = process.communicate(timeout=30)
    finally:
        sh("ip", "-n", direct.ns("c"), "link", "set", "c0", "up")
    assert err == ""
    assert only(json.loads(out))["lost"] == 0
