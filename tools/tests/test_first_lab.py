# SPDX-License-Identifier: Apache-2.0
"""docs/first-lab.md: its figures are those of the published files and of arithmetic, its commands are understood."""

import math
import re
import shlex

import yaml
from typer.main import get_command

from dev.commands import commands_in
from xdplab.analysis.documents import find_document
from xdplab.cli.main import cli
from xdplab.cli.reproduce import planned
from xdplab.model import TestbedSpec, TrafficSpec
from xdplab.model.digits import duration
from xdplab.model.published import published, published_figure
from xdplab.tools import project_root, studies_folder

TEXT = (project_root() / "docs" / "first-lab.md").read_text(encoding="utf-8")
FLAT = " ".join(TEXT.split())


def study(name: str) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((studies_folder() / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def test_rates_are_those_that_others_published() -> None:
    for reference, row in (("figure-2", "Open vSwitch on AF_XDP"), ("figure-3", "OVS-DPDK over the AF_XDP PMD")):
        _, figure = published_figure(f"intel-afxdp-guide/{reference}")
        low, high = figure.series[0].mpps
        assert re.search(rf"^\| {row}.* \| {low:g} to {high:g} \|", TEXT, re.MULTILINE)
    assert "reached 11.5 Mpps" in str(published_figure("intel-afxdp-guide/figure-2")[1].note)
    assert "| 11.5 |" in TEXT
    functions = study("network-functions")["method"]["published"]["modes_mpps"]  # type: ignore[index]
    swap = functions["pass-through"]["macswap"]
    assert f"| {swap['xdp']:.2f}, {swap['af_xdp']:.2f}, {swap['af_xdp-bp']:.2f} |" in TEXT
    micro = study("afxdp-micro")["method"]["published"]["mpps"]  # type: ignore[index]
    assert f"| {micro['rxdrop']['after']:g} |" in TEXT
    means = [each.mean_us for each in published("understanding-delays-afxdp", "test").tables["mlx5"].clusters]
    assert f"{min(means):.2f} µs at the best" in FLAT
    assert f"{max(means):.2f} µs at the worst" in FLAT


def test_line_rates_and_cores_are_arithmetic() -> None:
    full, imix, small = (
        TrafficSpec.model_validate({"frame_bytes": size}).line_pps(100e9) / 1e6 for size in (1518, "imix", 64)
    )
    assert f"carries {small:.1f} Mpps of 64 bytes, {imix:.1f} Mpps of IMIX, {full:.2f} Mpps of 1518 bytes" in FLAT
    low, high = published_figure("intel-afxdp-guide/figure-2")[1].series[0].mpps
    cores = [f"{math.ceil(each / high)} {word} {math.ceil(each / low)}" for each, word in ((full, "or"), (imix, "to"))]
    assert f"with {cores[0]} cores at 1518 bytes and {cores[1]} at IMIX" in FLAT
    assert f"at 64 bytes it would take {math.ceil(small / high)} to {math.ceil(small / low)}" in FLAT


def test_how_long_studies_take_is_what_is_planned() -> None:
    rows = re.findall(r"^\| `([\w-]+)`(?:, for each card)? \| (\d+ (?:h|min) .*) \|$", TEXT, re.MULTILINE)
    assert len(rows) >= 7
    for name, takes in rows:  # to a second: sums of floats have another last digit from Python 3.12 on
        about_s = planned(name)[0]
        assert takes in {duration(about_s + more) for more in (-0.5, 0.0, 0.5)}, name
    name, changes = next((part.lab, part.afternoon) for part in find_document("understanding-delays-afxdp").parts)
    options = " ".join(f"--set {each}" for each in changes)
    assert f"| the same with `{options}` | {planned(name, changes)[1]} |" in TEXT


def test_the_largest_mtu_is_that_of_the_model() -> None:
    (most,) = [each.le for each in TestbedSpec.model_fields["mtu"].metadata if hasattr(each, "le")]
    assert f"goes up to {most}" in FLAT


def test_its_commands_are_understood() -> None:
    blocks = re.findall(r"^```text\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    ours = [words[1:] for words in lines if words[:1] == ["xdplab"]]
    assert [words[0] for words in ours] == ["lab", "doctor", "run", "run", "lab", "run"]
    for words in ours:
        command = get_command(cli)
        while words and (inner := commands_in(command).get(words[0])):
            command, words = inner, words[1:]
        command.make_context("xdplab", words, resilient_parsing=False)
