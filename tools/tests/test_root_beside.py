# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev bench-beside` takes turns alone, between those of others, and beside them asleep."""

import pytest

from dev.bench_beside import KINDS, bench_beside, order_of
from xdplab.model import InputError
from xdplab.runner import Listener

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("in_process"), pytest.mark.xdist_group("testbed")]


def test_each_kind_has_its_figure_at_both_loads() -> None:
    rows = bench_beside(["xdp", "linux-bridge"], 3, 1, Listener())
    assert [(row.load, row.kind) for row in rows] == [
        (load, kind) for load in dict.fromkeys(row.load for row in rows) for kind in KINDS
    ]
    assert {row.load for row in rows} == {"load", "light load"}
    assert all(row.p50_us > 0 and row.low is not None for row in rows)
    assert [row.ratio for row in rows if row.kind == KINDS[0]] == [1.0, 1.0]


def test_the_order_of_a_round_is_the_opposite_of_the_one_before() -> None:
    assert order_of(0) == KINDS == order_of(1)[::-1]


def test_one_that_cannot_stand_beside_others_is_refused() -> None:
    with pytest.raises(InputError, match="two forwarders or more"):
        bench_beside(["xdp"], 3, 1, Listener())
    with pytest.raises(InputError, match="a setting of the whole machine, so it stands alone"):
        bench_beside(["xdp", "ovs-dpdk:hugepages=true"], 3, 1, Listener())
