# SPDX-License-Identifier: Apache-2.0
"""Files, names, logs and hosts that mean harm: nothing of theirs runs, and nothing of theirs deceives who reads it."""

import itertools
import re
import string
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab import micro_records, records
from lab.command import Done
from lab.markup import without_our_scripts
from lab.reading import render
from lab.studies import study, study_file

from xdplab.hosts.ssh_link import checked_facts
from xdplab.model import ForwarderSpec, HostSpec, InputError, PortSpec, TestbedSpec, plain, validated
from xdplab.results import new_run
from xdplab.testbed import load_yaml
from xdplab.testbed.state import SystemLock

LAB: dict[str, Any] = {
    "schema": 1,
    "name": "lab",
    "kind": "hosts",
    "hosts": {"t": {"address": "192.0.2.1"}, "dut": {"address": "192.0.2.2"}},
    "ports": {
        "a0": {"host": "t", "ifname": "ens1f0"},
        "b0": {"host": "dut", "ifname": "ens1f0"},
        "b1": {"host": "dut", "ifname": "ens1f1"},
        "c0": {"host": "t", "ifname": "ens1f1"},
    },
}
#: Means something to a shell, to a program that reads options, to a path, to a list, or to a terminal.
_MEANING = set(string.whitespace + "\0;&|<>$`\\\"'(){}[]*?!#~,=/\x1b\x7f\u202e")
EVIL = [
    "; touch owned",
    "$(touch owned)",
    "`touch owned`",
    "-oProxyCommand=touch owned",
    "--help",
    "x\ntouch owned",
    "x touch",
    "../../etc",
    "a,b",
    "x;y",
    "x|y",
    "'x'",
    '"x"',
    "\x1b[2J",
    "x\n",
    "ｅｔｈ０",
    "",
]


def refused(data: dict[str, Any]) -> str:
    """Why, in a line; empty where it is taken."""
    try:
        validated(TestbedSpec, data, "lab.yaml")
    except InputError as exc:
        return "" if "\n" in str(exc) else str(exc)
    return ""


def test_no_field_of_a_host_takes_what_means_something() -> None:
    dut = LAB["hosts"]["dut"]
    for text, field in itertools.product(EVIL, ("address", "user", "folder", "deploy")):
        assert f"hosts.dut.{field}" in refused({**LAB, "hosts": {**LAB["hosts"], "dut": {**dut, field: text}}}), text
        if field in ("address", "user"):
            hosts = {**LAB["hosts"], "dut": {**dut, "jump": {"address": "192.0.2.9", field: text}}}
            assert f"hosts.dut.jump.{field}" in refused({**LAB, "hosts": hosts}), text


@pytest.mark.parametrize("text", EVIL)
def test_no_name_takes_what_means_something(text: str) -> None:
    for key in ("host", "ifname", "driver", "mac", "pci"):
        ports = {**LAB["ports"], "a0": {**LAB["ports"]["a0"], key: text}}
        assert f"ports.a0.{key}" in refused({**LAB, "ports": ports})
    assert "name" in refused({**LAB, "name": text})
    assert "hosts" in refused({**LAB, "hosts": {**LAB["hosts"], text: {"address": "192.0.2.3"}}})


@given(st.text(max_size=20))
def test_what_an_interface_may_be_called(text: str) -> None:
    try:
        name = PortSpec(host="h", ifname=text).ifname
    except ValueError:
        return
    assert not set(name) & _MEANING
    assert 0 < len(name) <= 15
    assert name[0] not in "-."
    assert name.isascii()


@given(st.text(max_size=40))
def test_what_a_host_may_be(text: str) -> None:
    for field in ("address", "user", "folder", "deploy"):
        try:
            spec = HostSpec.model_validate({"address": "h", field: text})
        except ValueError:
            continue
        value = getattr(spec, field)
        allowed = {"/"} if field in ("folder", "deploy") else set()
        assert not set(value) & (_MEANING - allowed)
        assert not value.startswith("-")
        if field == "folder":
            assert value.startswith("/")
            assert ".." not in value.split("/")


def test_folders_do_not_climb() -> None:
    for folder in ("/run/../etc", "/", "//", "/run/.hidden", "run/x"):
        with pytest.raises(ValueError, match="folder"):
            HostSpec(address="h", folder=folder)
    for folder in ("../x", "a/../b", "/x/.."):
        with pytest.raises(ValueError, match="deploy"):
            HostSpec(address="h", deploy=folder)


def test_there_is_no_field_for_a_password() -> None:
    schema = str(TestbedSpec.model_json_schema())
    assert "passphrase" not in schema
    assert "password" not in schema.replace("no password", "").replace("asks for a password", "")
    for key in ("password", "sudo_password", "passphrase"):
        hosts = {**LAB["hosts"], "dut": {**LAB["hosts"]["dut"], key: "x"}}
        assert "unknown key" in refused({**LAB, "hosts": hosts})


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch owned']",
        "!!python/name:os.system",
        "!!python/object/new:subprocess.Popen [[touch, owned]]",
        "x: !!python/module:os",
    ],
)
def test_yaml_makes_no_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "evil.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"evil.yaml:1: not valid YAML"):
        load_yaml(path)
    assert not (tmp_path / "owned").exists()


def test_a_bomb_of_aliases_is_refused_in_no_time(tmp_path: Path, cli: Callable[..., Done]) -> None:
    lines = ['a: &a ["x","x","x","x","x","x","x","x","x"]']
    lines += [f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]" for n in range(12)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    cli("run", path).refused("bomb.yaml")
    path.write_text("\n".join([*lines, "name: x", "forwarders: *m"]), encoding="utf-8")
    cli("run", path).refused("bomb.yaml")


ESCAPES = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script>\u202egnp.exe"


def test_names_and_logs_are_shown_as_they_are_in_a_report() -> None:
    point = records.point()
    evil = point.model_copy(update={"forwarder": type(point.forwarder)(name="fake", label=ESCAPES)})
    failed = records.trial(evil, status="failed", reason=ESCAPES, log_tail=(ESCAPES, "</pre><script>"))
    run = records.run_record(evil, study={"title": ESCAPES, "forwarders": [{"name": "fake", "label": ESCAPES}]})
    html = render(run, [records.trial(evil, 1), failed])
    assert "<script" not in without_our_scripts(html)
    assert "&lt;script&gt;" in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", html)
    assert "\\x1b]0;owned" in html
    assert not re.search(r'(src|href)="?(https?:)?//', html), "a report loads nothing"


@pytest.mark.parametrize("label", ["a\nb is ahead", "a\n", "a\tb"])
def test_a_label_makes_no_row_of_its_own(label: str) -> None:
    (made,) = study(forwarders=[{"name": "fake", "label": label}]).forwarders
    assert made.title == label.replace("\n", "\\n").replace("\t", "\\t")
    assert ForwarderSpec(name="fake", options={"unsupported_reason": label}).title.isprintable()


def test_names_and_reasons_do_nothing_to_a_terminal(cli: Callable[..., Done], tmp_path: Path) -> None:
    study = study_file(
        tmp_path,
        title=ESCAPES,
        forwarders=[{"name": "fake", "label": ESCAPES}, {"name": "fake", "options": {"unsupported_reason": ESCAPES}}],
    )
    done = cli("run", study)
    for text in (done.out, done.err, cli("show").out, cli("run", tmp_path / f"{ESCAPES[:9]}.yaml").err):
        assert "\x1b" not in text
        assert "\x07" not in text


def test_a_run_of_sockets_that_means_harm_is_shown_plainly(cli: Callable[..., Done], results: Path) -> None:
    published = {"source": ESCAPES, "setup": ESCAPES, "finding": ESCAPES, "mpps": {"rxdrop": {ESCAPES: 1}}}
    method = {"name": "micro", "workloads": ["rxdrop"], "published": published}
    study = micro_records.study((ESCAPES,), title=ESCAPES, method=method)
    (at,) = micro_records.points_of(study)
    runs = [
        micro_records.store(
            results,
            study,
            [
                *(micro_records.trial(at, pps, repetition=n, mode={"label": ESCAPES}) for n in range(5)),
                micro_records.trial(at, None, repetition=5, status="failed", reason=ESCAPES),
            ],
            environment=records.environment(
                kernel=f"{ESCAPES}{pps}", versions={ESCAPES: f"{pps}"}, kernel_version=ESCAPES
            ),
        ).path
        for pps in (1e6, 2e6, 3e6)
    ]
    # as somebody else's program may have written them: what is made plain on writing is put back
    for path in (each / name for each in runs for name in ("run.json", "trials.jsonl")):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(r"\\x1b", r"\u001b").replace(r"\\x07", r"\u0007").replace(r"\\u202e", r"\u202e"))
        assert "\\u001b]0;owned" in path.read_text(encoding="utf-8")
    cli("report", runs[0])
    html = (runs[0] / "report.html").read_text(encoding="utf-8")
    for text in (cli("show", runs[0]).out, cli("compare", *runs).out, html):
        assert "\\x1b]0;owned" in text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert "<script" not in without_our_scripts(html)
    assert "&lt;script&gt;" in html


@given(st.text())
def test_plain_text_stays_and_is_made_plain_once(text: str) -> None:
    shown = plain(text)
    assert plain(shown) == shown
    if text.isprintable():
        assert shown == text


def test_a_run_folder_is_the_users_alone(tmp_path: Path, cli: Callable[..., Done], results: Path) -> None:
    cli("run", study_file(tmp_path))
    (run,) = [path for path in results.iterdir() if not path.is_symlink()]
    assert run.stat().st_mode & 0o777 == 0o700
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in run.iterdir()}
    assert modes == dict.fromkeys(("run.json", "trials.jsonl", "report.html"), "0o600")


def test_a_run_cannot_be_named_out_of_its_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        validated(TestbedSpec, {**LAB, "name": "../../etc/x"}, "lab.yaml")
    assert new_run(tmp_path, "fine").path.parent == tmp_path


FACTS: dict[str, Any] = {
    "pid": 7,
    "uid": 0,
    "boot_id": "b",
    "netns": "net:[1]",
    "python": "/usr/bin/python3",
    "cpus": [0, 1],
    "ended": [],
    "machine_id": "0123456789abcdef",
    "machine": "x86_64",
    "glibc": "2.36",
    "left": {"p0": [2, 1500, 0, {"qdiscs": ["clsact ffff: at ffff:fff1"]}]},
    "ssh": "192.0.2.1 50000 fe80::1%eth0 22",
}


@pytest.mark.parametrize(
    "lie",
    [
        {"pid": "../../etc"},
        {"pid": True},
        {"cpus": ["0; reboot"]},
        {"cpus": []},
        {"cpus": "01"},
        {"boot_id": None},
        {"netns": ["x"]},
        {"uid": "0"},
        {"ssh": "-x 1 2 3"},
        {"machine_id": "../x"},
        {"machine": "x86_64; reboot"},
        {"glibc": "2.x"},
        {"left": {"p0": ["2", 1500, 0, {}]}},
        {"left": {"p0": [2, 1500, 0, {"qdiscs": [2]}]}},
        {"left": {"p0": [2, 1500, 0]}},
        {"left": {"p0": []}},
        {"ssh": "a b"},
    ],
)
def test_a_host_that_lies_about_numbers_is_refused(lie: dict[str, Any]) -> None:
    assert checked_facts(FACTS, "b")["pid"] == 7
    with pytest.raises(InputError, match="greeting"):
        checked_facts({**FACTS, **lie}, "b")
    with pytest.raises(InputError, match="greeting"):
        checked_facts([FACTS], "b")


def test_what_a_host_found_running_is_shown_plainly() -> None:
    assert checked_facts({**FACTS, "ended": ["\x1b[2J" + "x" * 100]}, "b")["ended"] == ["\\x1b[2J" + "x" * 33]


def test_what_a_host_says_of_its_boot_is_no_part_of_a_path(state: Path) -> None:
    host: Any = SimpleNamespace(name="b", read=lambda path: "../../../etc/cron.d/x")
    lock = SystemLock(host)
    lock.acquire()
    lock.release()
    assert lock.path.parent == state
    assert [path.parent for path in state.rglob("*.lock")] == [state]
