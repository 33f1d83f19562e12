# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 on a testbed without a direct link: the medium is the top load, or it is unsupported, with what to do."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done

from xdplab import tools
from xdplab.cli.doctor import direct_link
from xdplab.model import TestbedSpec
from xdplab.testbed.fake import FakeTestbed
from xdplab.testbed.load import load_yaml

LAB = load_yaml(tools.testbeds_folder() / "lab-example.yaml")
#: 64-byte frames with 20 bytes between them.
FRAME_BITS = 84 * 8


def lab(*, speeds: dict[str, int | None] | None = None, direct: bool = False) -> TestbedSpec:
    ports = {role: dict(port) for role, port in LAB["ports"].items() if direct or role not in ("d0", "d1")}
    for role, speed in (speeds or {}).items():
        ports[role]["speed_mbps"] = speed
    if direct:
        ports |= {f"d{n}": {**ports[role], "ifname": f"ens3f{n}"} for n, role in enumerate(("a0", "c0"))}
    return TestbedSpec.model_validate({**LAB, "ports": ports})


def test_the_slowest_port_of_the_path_is_the_line_rate() -> None:
    assert lab().line_rate_bps == 25e9
    assert lab(speeds={"b1": 10_000}).line_rate_bps == 10e9
    assert lab(speeds={"c0": None}).line_rate_bps is None
    assert studies.a_testbed().line_rate_bps is None


@pytest.mark.parametrize(
    ("spec", "state", "found", "fix"),
    [
        (lab(direct=True), "ok", "d0 and d1", ""),
        (lab(), "advice", "searches up to the 25 Gbit/s of its ports", "call them d0 and d1"),
        (lab(speeds={"a0": None}), "advice", "no top load of RFC 2544 is known", "or give speed_mbps of each port"),
    ],
)
def test_the_doctor_has_a_row_for_the_direct_link(spec: TestbedSpec, state: str, found: str, fix: str) -> None:
    row = direct_link(spec)
    assert (row.name, row.state) == ("direct link", state)
    assert found in row.found
    assert fix in row.fix


@pytest.fixture
def no_direct_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTestbed, "direct_ports", lambda _: None)


def searched(cli: Callable[..., Done], folder: Path, *options: str) -> list[dict[str, Any]]:
    path = studies.study_file(folder, forwarders=["fake"], repetitions=1, method={"name": "throughput"})
    done = cli("run", path, *options)
    assert "Traceback" not in done.err
    rows: list[dict[str, Any]] = cli("show", "--json").json()
    return rows


def test_without_any_ceiling_the_point_says_what_to_give(
    cli: Callable[..., Done], tmp_path: Path, no_direct_link: None
) -> None:
    (row,) = searched(cli, tmp_path)
    assert row["status"] == "unsupported"
    assert "give speed_mbps of each of its ports, or traffic.line_rate_bps" in row["reason"]


@pytest.mark.parametrize("where", ["method", "traffic", "testbed"])
def test_the_line_rate_is_the_top_load(
    cli: Callable[..., Done], tmp_path: Path, no_direct_link: None, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Below what the simulated forwarder carries: the search ends at the line's frames per second."""
    bps = 100_000 * FRAME_BITS
    if where == "testbed":
        monkeypatch.setattr(TestbedSpec, "line_rate_bps", bps)
    given = {} if where == "testbed" else {"--set": f"{where}.line_rate_bps={bps}"}
    (row,) = searched(cli, tmp_path, *itertools.chain(*given.items()))
    assert row["status"] == "ok"
    assert row["ndr_pps"] == pytest.approx(100_000, rel=0.01)
