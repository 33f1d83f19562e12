# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Above 1.2 Mpps the sender has code for its streams only: whatever they are, each frame leaves as it was asked for."""

import pytest
from conftest import config, net_up, stream, xdpgen
from test_trials import serving

FAST = {"kind": "load", "pps": None}
SHAPES = {
    "one": [FAST],
    "time stamps": [FAST | {"kind": "latency"}],
    "paced": [FAST | {"pps": 1.5e6}],
    "poisson": [FAST | {"pps": 1.5e6, "departures": "poisson"}],
    "bursts": [FAST | {"pps": 1.5e6, "burst": 32}],
    "zipf": [FAST | {"flows": 50, "flow_choice": "zipf"}],
    "addresses": [FAST | {"flows": 60, "src_addresses": 3, "dst_addresses": 5}],
    "sizes": [FAST, FAST | {"id": 1, "frame_bytes": 1500}, FAST | {"id": 2, "frame_bytes": 200}],
    "a probe": [FAST, {"id": 1, "pps": 1000.0}],
    "a count": [FAST | {"count": 1000}],
}


def check(result):
    for one in result["streams"]:
        assert one["sent"] == one["received"] > 200
        assert (one["lost"], one["duplicated"], one["out_of_order"]) == (0, 0, 0)
        assert one["gaps"]["last_lost"] is None
        figures = one["flow_figures"]
        assert figures["sent"] == figures["received"]
    assert [port["other"] for port in result["ports"]] == [0, 0]


@pytest.mark.parametrize("name", SHAPES)
def test_every_frame_arrives_and_is_of_its_flow(direct, name):
    ports = [direct.port("a0", rx="xdp", tx_cpu=0), direct.port("c0")]
    run = config(ports, *(stream(**each) for each in SHAPES[name]), flow_figures=True, max_burst=200)
    result = xdpgen(run)
    check(result)
    if name == "a count":
        assert result["streams"][0]["sent"] == 1000
        assert result["streams"][0]["achieved_pps"] > 1e5


def test_one_after_the_other(direct):
    """In one process, which loads the sender again; what is slow has code for everything."""
    ports = [direct.port("a0", rx="xdp", tx_cpu=0), direct.port("c0")]
    with serving() as process:
        for name in ("one", "zipf", "sizes", "one"):
            run = config(ports, *(stream(**each) for each in SHAPES[name]), flow_figures=True, max_burst=200)
            check(process.trial(run))
            check(process.trial(config(ports, stream(flows=10), flow_figures=True)))


def test_programs_that_are_held_are_at_no_port_of_the_process_s_own_namespace(direct):
    """A tap device holds them, whose number some other interface has here: both are the first of their namespaces."""
    ports = [direct.port("a0", rx="xdp", tx_cpu=0), direct.port("c0")]
    with net_up(("x0", "y0")) as net, serving("nsenter", f"--net={net.path('x')}") as process:
        for name in ("one", "zipf", "one"):
            process.trial(config(ports, *(stream(**each) for each in SHAPES[name]), flow_figures=True, max_burst=200))
            assert net.is_clean("x0")


def test_top_rate_looks_at_the_clock_once_for_eight_frames(direct):
    """Where nobody asks when each of them left."""
    ports = [direct.port("a0", rx="none", tx_cpu=0), direct.port("c0")]
    for kind, most in (("load", 0.3), ("latency", 1.5)):
        result = xdpgen(config(ports, stream(kind=kind, pps=None)))
        looks = result["threads"][0]["polls"] / result["streams"][0]["sent"]
        assert most / 3 < looks < most
