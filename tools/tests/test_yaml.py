# SPDX-License-Identifier: Apache-2.0
"""Reading study and testbed files: a line number for what is not YAML, one line for everything else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import Done

from xdplab import app
from xdplab.model import InputError
from xdplab.testbed import load_yaml, read_testbed
from xdplab.tools import project_root

SUITES = project_root() / "suites"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", ":3: not valid YAML: key 'a' given twice"),
        ("a:\n  b: 1\n  b: 2\n", ":3: not valid YAML: key 'b' given twice"),
        ("a: 1\nb: [2\nc: 3\n", ":3: not valid YAML: "),
        ("a: 1\n\tb: 2\n", ":2: not valid YAML: "),
        ("? [a]\n: 1\n", ":1: not valid YAML: "),
        ("a: !!python/object/apply:os.getcwd []\n", ":1: not valid YAML: could not determine a constructor"),
        ("a: \x00\n", ": not valid YAML: "),
        ("- a\n", ": a mapping of keys to values is expected"),
        ("", ": a mapping of keys to values is expected"),
    ],
)
def test_bad_yaml_is_refused_with_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_yaml(path)
    assert str(caught.value).startswith(f"{path}{words}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["a: 2024-13-45\n", "[" * 5000])
def test_yaml_that_breaks_the_parser_is_bad_input(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="not valid YAML"):
        load_yaml(path)


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "s.yaml").touch()
    os.truncate(path, 1 << 30)
    for endless in (path, Path("/dev/zero")):
        with pytest.raises(InputError, match=f"^{endless}: more than the 1 MiB that such a file may have$"):
            load_yaml(endless)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_yaml(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="Is a directory"):
        load_yaml(tmp_path)
    (tmp_path / "latin1.yaml").write_bytes(b"title: \xe9t\xe9\n")
    with pytest.raises(InputError, match="not UTF-8"):
        load_yaml(tmp_path / "latin1.yaml")


def test_set_replaces_inside_and_makes_what_is_not_there(tmp_path: Path) -> None:
    path = studies.study_file(tmp_path)
    spec = app.read_study(path, {"repetitions": 7, "method.drain_s": 0.5, "sweep.outliers_above_us": 200})
    assert (spec.repetitions, spec.method.drain_s) == (7, 0.5)
    assert spec.sweep is not None
    assert spec.sweep.outliers_above_us == 200
    assert spec.method.duration_s == studies.FAKE["method"]["duration_s"]


def test_set_below_a_plain_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"repetitions: a mapping is expected where repetitions.x is set"):
        app.read_study(studies.study_file(tmp_path), {"repetitions.x": 1})


@pytest.mark.parametrize("item", ["repetitions", "=3", "repetitions=["])
def test_a_bad_set_option_is_refused(cli: Callable[..., Done], tmp_path: Path, item: str) -> None:
    cli("run", studies.study_file(tmp_path), "--set", item).refused("--set", item)


def test_an_unknown_testbed_lists_those_there_are() -> None:
    with pytest.raises(InputError, match=r"testbed 'moon': no such file .*there are: .*embedded, fake"):
        read_testbed("moon", SUITES / "testbeds")


def test_a_testbed_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("{schema: 1, name: mine, kind: embedded, mtu: 3498, queues: 2, cpus: [0, 1]}", encoding="utf-8")
    spec = read_testbed(str(path), SUITES / "testbeds")
    assert (spec.name, spec.mtu, spec.queues, spec.cpus) == ("mine", 3498, 2, (0, 1))


@pytest.mark.parametrize("line", ["mtu: 9703", "mtu: 100", "queues: 0", "kind: moon", "name: a/b", "color: red"])
def test_a_bad_testbed_is_refused_with_its_file(tmp_path: Path, line: str) -> None:
    path = tmp_path / "mine.yaml"
    given = {"name": "name: mine", "kind": "kind: fake"}
    given[line.split(":")[0]] = line
    path.write_text("\n".join(given.values()), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_testbed(str(path), SUITES / "testbeds")
    assert str(caught.value).startswith(f"{path}: {line.split(':')[0]}: ")


def test_every_study_of_the_project_can_be_planned() -> None:
    studies = sorted((SUITES / "studies").glob("*.yaml"))
    assert len(studies) > 20
    for path in studies:
        prepared = app.prepare(app.read_study(path))
        assert prepared.plan.order, path
        assert prepared.study.name == path.stem


def test_every_testbed_of_the_project_can_be_read() -> None:
    names = [path.stem for path in (SUITES / "testbeds").glob("*.yaml")]
    assert [read_testbed(name, SUITES / "testbeds").name for name in names] == names != []
