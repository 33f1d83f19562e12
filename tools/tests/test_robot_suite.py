# SPDX-License-Identifier: Apache-2.0
"""The suites on the simulated testbed."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from lab import command, studies
from lab.command import environment

from xdplab.tools import project_root

SUITES = project_root() / "suites"


def robot(tmp_path: Path, suite: str = "latency.robot", **variables: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit code, and test or suite -> (status, message)."""
    given = {"TESTBED": "fake", "TESTER": "fake", "REPETITIONS": "2", "DURATION": "0.1", **variables}
    options = [word for name, value in given.items() for word in ("-v", f"{name}:{value}")]
    folder = tmp_path / "robot"
    unlogged = ("--outputdir", folder, "--log", "NONE", "--report", "NONE")
    done = command.robot(*unlogged, *options, SUITES / suite, env=environment())
    root = ET.parse(folder / "output.xml").getroot()
    status = {
        each.attrib["name"]: each.find("status")
        for kind in ("test", "suite")
        for each in root.iter(kind)
        if "name" in each.attrib
    }
    assert "Traceback" not in done.out + done.err
    return done.code, {
        name: (each.attrib["status"], each.text or "") for name, each in status.items() if each is not None
    }


def test_the_latency_suite_passes_on_the_simulated_testbed(tmp_path: Path, results: Path) -> None:
    code, tests = robot(tmp_path, FORWARDERS="fake fake:base_latency_us=9.0")
    assert code == 0
    assert tests["Every Other Forwarder Asked For"] == ("PASS", "")
    assert tests["OVS on AF_PACKET, with our patches"][0] == "SKIP"
    assert "ovs-afpacket:build=patched was not asked for" in tests["OVS on AF_PACKET, with our patches"][1]
    assert "PASS" in {status for status, _ in tests.values()}
    assert "FAIL" not in {status for status, _ in tests.values()}
    run = studies.only_run(results)
    assert run.report.is_file()
    assert len(studies.measured(run.trials())) == 32  # 2 forwarders, 2 rounds, 4 turns, 2 loads


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"FORWARDERS": "fake fake:fail_to_start=true"}, "did not start, as its option"),
        ({"FORWARDERS": "nothing"}, "forwarder 'nothing': unknown"),
    ],
    ids=["a forwarder fails", "bad input"],
)
def test_the_suite_fails_with_the_reason(tmp_path: Path, variables: dict[str, str], words: str) -> None:
    code, tests = robot(tmp_path, **variables)
    assert code > 0
    assert any(words in message for status, message in tests.values() if status == "FAIL")


def test_a_suite_of_what_this_machine_has_not_got_is_skipped_with_the_reason(tmp_path: Path, results: Path) -> None:
    code, tests = robot(tmp_path, FORWARDERS="fake:unsupported_reason=fake-switch_is_not_installed")
    assert code == 0
    assert {status for status, _ in tests.values()} == {"SKIP"}
    assert all(
        "no point of it can be measured here: fake-switch_is_not_installed" in message for _, message in tests.values()
    )
    assert not results.exists() or list(results.iterdir()) == []


def test_the_log_has_tables_the_picture_and_links_that_move_with_it(tmp_path: Path, results: Path) -> None:
    label = "a <b>&\"'"
    one = fake_study(tmp_path, "figures", {"ovs-afxdp": {"capacity_pps": 1e6}, label: {"capacity_pps": 5e5}})
    two = fake_study(tmp_path, "ablation", {"stock": {}, "patched": {}}, answer=["patched", "stock"])
    robot(tmp_path, "ovs_comparison.robot", FIGURES=one, ABLATION=two, REPETITIONS="1")
    root = ET.parse(tmp_path / "robot" / "output.xml").getroot()
    html = [each.text or "" for each in root.iter("msg") if each.attrib.get("html") == "true"]
    whole = [each for each in html if "<a href=" in each]
    assert len(whole) == 2
    for text in whole:
        assert re.search(r"<tr><th[^>]*>forwarder</th>.*NDR kpps", text)
        assert text.count("<svg") == text.count("</svg>") == 1
        (link,) = re.findall(r'<a href="([^"]*)">', text)
        assert (tmp_path / "robot" / unquote(link)).resolve().is_file()
        assert not link.startswith(("/", "file:"))
        assert f"[{link}|report.html]" in {each.text for each in root.iter("meta")}
        assert str(results) not in text
    assert "a &lt;b&gt;&amp;&#34;&#39;" in "".join(html)
    assert not any(label in text or "<script" in text or "file://" in text for text in html)
    own = [text for text in html if text not in whole]
    assert any("<td" in text and "patched" in text and "stock" not in text for text in own)  # the row of a forwarder


def fake_study(tmp_path: Path, name: str, forwarders: dict[str, dict[str, object]], **changes: object) -> str:
    """A study of simulated boxes under the titles of real forwarders."""
    study = {
        "schema": 1,
        "name": name,
        "testbed": "fake",
        "tester": "fake",
        "forwarders": [{"name": "fake", "label": label, "options": box} for label, box in forwarders.items()],
        "method": {
            "name": "throughput",
            "preset": "quick",
            "loss_ratios": [0.0],
            "budget_s": 3,
            "equal_load": {"latency_pps": 20_000, "overload_pps": 2_000_000},
        },
        **changes,
    }
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    return str(path)


def test_the_ovs_comparison_ends_with_both_figures_and_the_ablation(tmp_path: Path, results: Path) -> None:
    ours = {"ovs-afxdp": 1.0e6, "ovs-afpacket": 2.5e5, "ovs-dpdk": 1.1e6}
    figures = fake_study(
        tmp_path,
        "figures",
        {name: {"capacity_pps": pps} for name, pps in ours.items()},
        answer=["ovs-afxdp", "ovs-afpacket"],
        reproduces=["intel-afxdp-guide/figure-2", "intel-afxdp-guide/figure-3"],
    )
    boxes: dict[str, dict[str, object]] = {"stock": {"capacity_pps": 1.0e6}}
    boxes |= {"patched": {"capacity_pps": 1.0e6, "seed": 1}, "best-together": {"capacity_pps": 1.3e6}}
    boxes["busy-poll"] = {"unsupported_reason": "no NAPI id"}
    ablation = fake_study(tmp_path, "variants", boxes, answer=["patched", "stock"])
    code, tests = robot(tmp_path, "ovs_comparison.robot", FIGURES=figures, ABLATION=ablation, REPETITIONS="5")
    assert code == 0
    passed = {name for name, (status, _) in tests.items() if status == "PASS"}
    assert {"Figure 2: AF_XDP Against AF_PACKET", "Figure 3: OVS-DPDK With The AF_XDP PMD"} < passed
    assert {"Patched With Its Defaults", "The Best Together", "Patched Or Stock"} < passed
    assert "no NAPI id" in tests["Busy Poll"][1]
    assert "was not asked for" in tests["Smaller Rings"][1]
    runs = sorted(path for path in results.iterdir() if not path.is_symlink())
    assert [path.name.split("-")[0] for path in runs] == ["figures", "variants"]
    first, second = ((path / "report.html").read_text(encoding="utf-8") for path in runs)
    for words in ("Figure 2: OVS with AF_XDP", "Figure 3: OVS-DPDK", "3.69 to 7.07", "M. Karlsson", ">published<"):
        assert words in first
    assert "What each variant contributes" in second
    # the budget ends these searches within a tenth, which is what they resolve then
    more = r"best-together.*?forwards (?:at least )?\d[.\d]* % more; at overload forwards [23]\d"
    assert re.search(more, second, re.DOTALL)
    for words in ("2,000 kpps are offered", "Forwarding rate at overload (RFC 2285"):
        assert words in second
    assert "no difference seen in " in second


def test_a_variant_that_cannot_be_measured_is_skipped_and_one_that_fails_fails(tmp_path: Path) -> None:
    figures = fake_study(tmp_path, "figures", {"ovs-afxdp": {}}, reproduces=["intel-afxdp-guide/figure-2"])
    ablation = fake_study(
        tmp_path, "ablation", {"stock": {}, "patched": {"fail_to_start": True}}, answer=["patched", "stock"]
    )
    code, tests = robot(tmp_path, "ovs_comparison.robot", FIGURES=figures, ABLATION=ablation, REPETITIONS="1")
    assert code == 2
    assert tests["Figure 2: AF_XDP Against AF_PACKET"][0] == "SKIP"
    assert "did not start" in tests["Patched With Its Defaults"][1]
    assert "Smaller Rings" in {name for name, (status, _) in tests.items() if status == "SKIP"}


def test_a_sweep_of_five_configurations_is_skipped_with_how_many_are_needed(tmp_path: Path, results: Path) -> None:
    study = {
        "schema": 1,
        "name": "five",
        "testbed": "fake",
        "tester": "fake",
        "forwarders": ["fake"],
        "options": {"fake": {"base_latency_us": [5.0, 6.0, 7.0, 8.0, 9.0]}},
        "sweep": {},
    }
    path = tmp_path / "five.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    code, tests = robot(tmp_path, "sweep.robot", STUDY=str(path), MATTERS="base_latency_us")
    words = (
        "Which settings matter is undecided: too few configurations: 5 were measured on one path and traffic, 6 are "
        "needed."
    )
    assert code == 0
    for name in ("It Is Said Which Settings Matter", "What Is Known To Matter Shows"):
        assert tests[name] == ("SKIP", words)
    assert tests["Every Configuration Was Measured"][0] == "PASS"
