# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Order is kept within a flow: frames of two flows may overtake each other, as on a switch with several queues."""

import pytest
from conftest import config, only, stream, xdpgen
from test_drain import TESTERS
from xsk import xsk

PPS = 1000.0
#: Each leaves after its successor, which is of the next flow.
SWAPPED = [50, 100, 250]
#: It leaves after frames of its own flow.
LATE = {150: 0.05}


def through_the_forwarder(net, tester, flows):
    timing = {"warmup_s": 0, "duration_s": 0.4, "drain_s": 0.3, "max_burst": 1_000_000}
    sent = stream(pps=PPS, flows=flows)
    if tester == "xdpgen":
        return only(xdpgen(config([net.port("a0"), net.port("c0")], sent, **timing)))
    ports = [{"netns": net.path(name[0]), "ifname": name} for name in ("a0", "c0")]
    with xsk(net, "a", "probe", ports=ports, streams=[sent], **timing) as probe:
        return only(probe.finish(signal=False))


@TESTERS
@pytest.mark.parametrize(("flows", "reordered"), [(1, len(SWAPPED) + 1), (2, 1), (7, 1), (10000, 0)])
def test_reordering_is_that_of_a_flow(middle, tmp_path, tester, flows, reordered):
    with middle.forwarder(tmp_path, swap=SWAPPED, delay=LATE):
        got = through_the_forwarder(middle, tester, flows)
    assert (got["sent"], got["received"], got["lost"]) == (400, 400, 0)
    assert got["out_of_order"] == reordered
    assert got["gaps"]["trailing"] == 0
