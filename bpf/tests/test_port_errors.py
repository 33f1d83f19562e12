# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A trial whose frames a port did not take for another reason than a full ring fails, with the reason."""

import fcntl
import json
import struct

import pytest
from conftest import config, net_up, only, sh, stream, xdpgen_running
from test_tx_drops import IFF_MULTI_QUEUE, Tap

TUNSETQUEUE, IFF_DETACH_QUEUE = 0x400454D9, 0x0400


class TapWithoutQueues(Tap):
    """Its driver refuses what is sent with ENXIO, as those of cards do where a CPU has no transmit queue."""

    flags = IFF_MULTI_QUEUE

    def prepare(self, tap):
        fcntl.ioctl(tap, TUNSETQUEUE, struct.pack("16sH22x", b"", IFF_DETACH_QUEUE))


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


@pytest.mark.parametrize("sender", ["live", "xsk"])
def test_a_port_that_is_removed_during_the_trial(sender):
    with net_up(("a0", "b0"), ("b1", "c0")) as net:
        run = config([net.port("a0", rx="none"), net.port("c0")], stream(), duration_s=2, drain_s=0, sender=sender)
        with xdpgen_running(run, wait_s=1) as process:
            sh("ip", "-n", net.ns("a"), "link", "del", "a0")
            result = failed(process)
    if sender == "xsk":
        assert "xsk sender stopped" in result["error"]
        return
    one = only(result)
    assert one["redirect_errors"] > 0
    assert one["intended"] == one["sent"] + one["redirect_errors"] + one["skipped"] == 4000
    assert result["error"] == f"{one['redirect_errors']} frames not sent: their port was removed during the trial"
