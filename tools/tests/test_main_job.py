# SPDX-License-Identifier: Apache-2.0
"""The study of `make latency`: which builds of Open vSwitch it compares, and what it asks of two other forwarders."""

import re

import pytest

from xdplab import app
from xdplab.tools import project_root


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (["ovs-afxdp", "ovs-afpacket"], None),
        (["ovs-afxdp:build=patched", "xdp"], ("ovs-afxdp:build=patched", "ovs-afpacket:build=patched")),
    ],
)
def test_two_other_forwarders_are_asked_about_themselves(given: list[str], answer: tuple[str, str] | None) -> None:
    """Also the way to an answer where our build of Open vSwitch is not there."""
    study = app.read_study(app.find_study("latency"), {"forwarders": given})
    assert study.answer == answer


def test_the_main_job_compares_one_build_with_itself_and_has_the_other_beside_it() -> None:
    study = app.read_study(app.find_study("latency"))
    specs = {each.title: each for each in study.forwarders}
    assert study.answer is not None
    asked = [specs[title] for title in study.answer]
    assert [each.name for each in asked] == ["ovs-afxdp", "ovs-afpacket"]
    assert [each.options for each in asked] == [{"build": "patched"}] * 2
    assert "ovs-afxdp" in specs
    assert len(specs) <= 9
    suite = (project_root() / "suites" / "latency.robot").read_text(encoding="utf-8")
    assert [title for title in specs if not re.search(rf"    {re.escape(title)}$", suite, re.MULTILINE)] == []
