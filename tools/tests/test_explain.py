# SPDX-License-Identifier: Apache-2.0
"""Everything can be found from the tool itself: what there is, what it is, how it is called, and what was meant."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from lab import studies
from lab.command import BIN, Done, environment

from dev.commands import leaves
from xdplab.cli.main import cli as commands
from xdplab.cli.parts import names
from xdplab.forwarders.base import forwarder_class
from xdplab.measure import method_names
from xdplab.model import pipeline, plugins
from xdplab.tools import project_root

ROOT = project_root()


def files(folder: str, ending: str) -> list[str]:
    return [path.stem for path in (ROOT / "suites" / folder).glob(f"*.{ending}")]


KINDS = {
    "forwarders": plugins.names("xdplab.forwarders"),
    "testers": plugins.names("xdplab.testers"),
    "knobs": plugins.names("xdplab.knobs"),
    "pipelines": pipeline.KINDS,
    "methods": method_names(),
    "studies": files("studies", "yaml"),
    "testbeds": files("testbeds", "yaml"),
    "suites": files(".", "robot"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_a_kind_are_listed_with_a_sentence(cli: Callable[..., Done], kind: str) -> None:
    found = dict(re.findall(r"^  (\S+) +(\S.*)$", cli("list", kind).out, re.MULTILINE))
    assert set(found) == set(KINDS[kind])
    assert all(len(sentence) > 8 for sentence in found.values()), found


def test_a_list_of_all(cli: Callable[..., Done]) -> None:
    assert re.findall(r"^(\w+):$", cli("list").out, re.MULTILINE) == [*KINDS]
    assert {name for kind in KINDS.values() for name in kind} == set(names())


def test_each_part_is_explained(cli: Callable[..., Done]) -> None:
    """By all that it is: `latency` is a method, a study and a suite."""
    singular = {"studies": "study"}
    for name in {name for kind in KINDS.values() for name in kind}:
        heads = [f"{singular.get(kind, kind[:-1])} {name}" for kind, all_of_it in KINDS.items() if name in all_of_it]
        reported = cli("explain", name).out
        assert [line for line in reported.splitlines() if line in heads] == heads
        assert "PEP 3119" not in reported, name  # the docstring of an alien module


def test_each_option_is_there_with_its_type(cli: Callable[..., Done]) -> None:
    for name in plugins.names("xdplab.forwarders"):
        reported = cli("explain", name).out
        for field in forwarder_class(name).options_model.model_fields:
            assert re.search(rf"^    {field}: \w.*; (default|must be given)", reported, re.MULTILINE), (name, field)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ovs-afxdp", ["xdp_mode: best-effort or native-with-zerocopy or native or generic; default \"native\"",
                       "Open vSwitch's options:busy-poll, with patch netdev-afxdp-Add-preferred-busy-polling",
                       "no NAPI id, as veth, cannot busy-poll"]),
        ("napi_defer_hard_irqs", ["How many empty polls NAPI makes", "values: a whole number from 0 to 2147483647",
                                  "Documentation/networking/napi.rst"]),
        ("irq_suspend_timeout", ["where: The kernel must list NAPIs of each port, with this setting (6.13)."]),
        ("governor", ["outlives a run that is killed"]),
        ("trex", ["no figures of `reset`: TRex does not measure"]),
        ("throughput", ["RFC 2544 §26.1", "ndr_pps: throughput without loss, kpps", "EqualLoadSpec:"]),
        ("rfc2544", ["xdplab run rfc2544 --dry-run", "-v PRESET:\n"]),
        ("lab-example", ["xdplab doctor --testbed lab-example"]),
    ],
)  # fmt: skip
def test_an_explanation_has_values_defaults_sources_and_limits(
    cli: Callable[..., Done], name: str, words: list[str]
) -> None:
    reported = cli("explain", name).out
    in_one_line = " ".join(reported.split())
    assert [each for each in words if each not in reported and each not in in_one_line] == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["explain", "ovs-afxpd"], "did you mean 'ovs-afxdp'?"),
        (["list", "knob"], "did you mean 'knobs'?"),
        (["lst"], "Did you mean 'list'?"),
        (["run", "latncy"], "did you mean 'latency'?"),
        (["doctor", "--testbed", "embeded"], "did you mean 'embedded'?"),
        (["run", "latency", "--dryrun"], "--dry-run"),
        (["run", "latency", "--set", "repetition=3"], "did you mean 'repetitions'?"),
        (["run", "latency", "--set", "forwarders=[ovs-afpaket]"], "did you mean 'ovs-afpacket'?"),
        (["run", "latency", "--set", "knobs={governer: [performance]}"], "did you mean 'governor'?"),
        (["run", "latency", "--set", "method.name=latncy"], "did you mean 'latency'?"),
    ],
    ids=lambda each: each[-1] if isinstance(each, list) else "",
)
def test_what_was_meant_is_asked(cli: Callable[..., Done], args: list[str], words: str) -> None:
    cli(*args).refused(words)


@pytest.mark.parametrize("name", ["latency", "latency.yaml"])
def test_a_study_is_run_by_its_name(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    fake = ["--testbed", "fake", "--set", "tester=fake", "--set", "forwarders=[fake]"]
    assert "1 point, design factorial" in cli("run", name, *fake, "--dry-run").out


def test_a_file_goes_before_a_name(cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    studies.study_file(tmp_path, name="latency")
    assert "2 points" in cli("run", "latency.yaml", "--dry-run").out


def test_a_place_is_reported_and_another_refused(cli: Callable[..., Done]) -> None:
    assert cli("where", "studies").out.strip() == str(ROOT / "suites" / "studies")
    assert len(cli("where").out.splitlines()) == 9
    cli("where", "suite").refused("where: 'suite': unknown", "did you mean 'suites'?", "there are suites, studies")


def test_each_help_has_an_example_that_can_be_typed() -> None:
    for words, command in leaves(typer.main.get_command(commands), "xdplab"):
        found = re.findall(r"^Example: (.*)$", command.help, re.MULTILINE)
        assert len(found) == 1, (words, found)
        given, typed = shlex.split(found[0]), words.split()
        assert given[: len(typed)] == typed
        command.make_context(typed[-1], given[len(typed) :])


def test_the_shell_completes_names_of_studies_and_parts() -> None:
    for typed, found in (("run lat", "latency"), ("explain ovs-afx", "ovs-afxdp"), ("rest", "restore")):
        line = f"xdplab {typed}"
        asked = {"_XDPLAB_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(typed.split()))}
        done = subprocess.run([BIN / "xdplab"], env=environment(asked), capture_output=True, text=True, check=False)
        assert found in done.stdout.split(), done.stderr


def test_make_alone_changes_nothing_and_tells_every_target() -> None:
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    reported = {name for line in done.stdout.splitlines() for name in line.split(":")[0].split()[1:]}
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert reported == set(phony.split())
