# SPDX-License-Identifier: Apache-2.0
"""Which points of a run are to be compared with one another."""

from collections.abc import Sequence

from xdplab.measure.point import PointSummary


def named(title: str, summaries: Sequence[PointSummary]) -> list[PointSummary]:
    """By title; a bare name also finds its first variant (`ovs-afxdp` finds `ovs-afxdp:xdp_mode=generic`)."""
    exact = [summary for summary in summaries if summary.forwarder == title]
    loose = [summary for summary in summaries if summary.forwarder.split(":")[0] == title]
    return exact or [summary for summary in loose if summary.forwarder == loose[0].forwarder]


def pairs_of(first: str, second: str, summaries: Sequence[PointSummary]) -> list[tuple[PointSummary, PointSummary]]:
    """Two forwarders at each setting that both have, in the study's order.

    Settings that one of them cannot have are left out where there are others; one that failed, or that the run has not
    come to, is not: which setting is said must not depend on what was measured.
    """
    alike = [
        (one, other)
        for one in named(first, summaries)
        for other in named(second, summaries)
        if one.setting == other.setting
    ]
    return [pair for pair in alike if all(each.status != "unsupported" for each in pair)] or alike
