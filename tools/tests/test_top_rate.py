# SPDX-License-Identifier: Apache-2.0
"""A tester that cannot send as fast as it can is asked for twice as much as long as that brings more."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from xdplab.model import Calibration
from xdplab.testers.trex import Trex, TrexOptions


def link(top_pps: float, stalls: set[int]) -> Any:
    """What comes through of a rate: less than the most where more is asked for; the trials of `stalls` carry little."""
    asked: list[float] = []

    def send(pps: float) -> Any:
        asked.append(pps)
        came = min(pps, top_pps * (top_pps / max(pps, top_pps)) ** 0.2)
        return SimpleNamespace(streams=[SimpleNamespace(rx_pps=came / 10 if len(asked) in stalls else came)])

    return send, asked


@pytest.mark.parametrize("stalls", [set(), {2}])
@pytest.mark.parametrize(("top_pps", "found"), [(40e3, 62_500.0), (900e3, 1e6), (5e6, 8e6)])
def test_it_is_found_on_the_direct_link(top_pps: float, found: float, stalls: set[int]) -> None:
    tester = Trex()
    send, asked = link(top_pps, stalls)
    tester.find_top_rate(send)
    assert tester._top_pps == pytest.approx(found, rel=0.5)
    assert max(asked) <= 4 * max(top_pps, 62_500)


def test_what_was_found_before_or_given_is_taken() -> None:
    tester = Trex()
    tester.calibrated(cast(Calibration, SimpleNamespace(top_pps=420e3)))
    assert tester._top_pps == 420e3
    given = Trex(TrexOptions(top_pps=2e6))
    given.find_top_rate(lambda pps: pytest.fail("asked"))
    given.calibrated(cast(Calibration, SimpleNamespace(top_pps=420e3)))
    assert given._top_pps == 2e6
