# SPDX-License-Identifier: Apache-2.0
"""Pipelines of VPP against what the real program said: what is missing is named, what is set is read back."""

from pathlib import Path
from typing import Any

import pytest
from lab.papi import DATA, Playback, changed, forwarder_of

from xdplab.model import PointFailed, Unsupported

NEWEST = DATA / "26.10"


@pytest.mark.parametrize(
    ("kind", "message", "plugin"),
    [
        ("vxlan", "vxlan_add_del_tunnel_v3", "vxlan"),
        ("meter", "policer_add", "policer"),
        ("acl", "acl_add_replace", "acl"),
        ("conntrack", "acl_add_replace", "acl"),
        ("nat", "nat44_ed_plugin_enable_disable", "nat"),
    ],
)
def test_a_pipeline_without_its_plugin_names_the_package_before_a_port_is_touched(
    kind: str, message: str, plugin: str, tmp_path: Path
) -> None:
    playback = Playback(NEWEST / f"afxdp-{kind}.json.xz")
    at = next(i for i, step in enumerate(playback.left) if step.get("message", {}).get("name") == "show_version")
    playback.left[at + 1 :] = [{"message": {"name": message}, "answer": "absent"}]
    words = rf"^pipeline {kind}: VPP 26.10\S* has no {plugin} plugin \(FD.io's package vpp-plugin-core\)$"
    with pytest.raises(Unsupported, match=words):
        forwarder_of(playback).start(playback.dut(tmp_path))
    assert playback.left == []


@pytest.mark.parametrize(
    ("kind", "message", "fields", "words"),
    [
        ("acl", "acl_dump", {"count": 2}, "an access list of 3 rules was given, VPP has 2"),
        ("acl", "acl_dump", {"r": [{}, {}, {}]}, "rule 1 of an access list was given as .* VPP has {}"),
        ("acl", "acl_interface_list_dump", {"acls": []}, "access lists .* were set, VPP has"),
        ("conntrack", "acl_interface_list_dump", {"n_input": 2}, "access lists .* were set, VPP has"),
        ("nat", "nat44_interface_dump", {"flags": 0x10}, "translation between .* was set, VPP has"),
        ("mirror", "sw_interface_span_dump", {"state": 1}, "copies .* were asked for, VPP makes"),
        ("vxlan", "l2_xconnect_dump", {"tx_sw_if_index": 9}, "cross-connects .* were set, VPP has"),
    ],
)
def test_what_a_pipeline_is_in_vpp_is_read_back(
    kind: str, message: str, fields: dict[str, Any], words: str, tmp_path: Path
) -> None:
    playback = changed(NEWEST / f"afxdp-{kind}.json.xz", message, **fields)
    with pytest.raises(PointFailed, match=words):
        forwarder_of(playback).start(playback.dut(tmp_path))


def test_rules_of_an_access_list_are_counted_as_vpp_counts_them(tmp_path: Path) -> None:
    playback = Playback(NEWEST / "afxdp-acl.json.xz")
    forwarder = forwarder_of(playback)
    forwarder.start(playback.dut(tmp_path))
    forwarder.counters()
    hits = forwarder.rule_hits()
    assert set(hits) == {"forth", "back"}
    assert all(50 <= number <= 200 for number in hits.values())


def test_the_policer_is_counted_for_vpp_does_not_tell_where_it_has_one(tmp_path: Path) -> None:
    playback = Playback(NEWEST / "afxdp-meter.json.xz")
    passed = "/err/l2-policer-input/Packets Transmitted"
    forwarder = forwarder_of(playback)
    forwarder.start(playback.dut(tmp_path))
    counters = forwarder.counters()
    assert forwarder.rule_hits() == {"meter": sum(each["rx"] for each in counters.values() if "rx" in each)}
    playback.left.insert(0, {"errors": {}, "answer": {passed.replace("policer", "xconnect"): 200}})
    assert forwarder.rule_hits() == {"meter": 0}
