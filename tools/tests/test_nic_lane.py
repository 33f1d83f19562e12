# SPDX-License-Identifier: Apache-2.0
"""The host's half of `make nic-test` without QEMU: command line, hang guard, results."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.cpio import members

from nic.artefact import Artefact
from nic.boot import Job, lane_archive, shares, supervise
from nic.errors import Hang, MissingPart
from nic.outcome import read_outcome
from nic.qemu import CARDS, Card, Share, command
from xdplab.tools import project_root

NONCE = "0123456789abcdef"


def test_the_command_line_has_every_card_on_a_port_and_wire_of_its_own(tmp_path: Path) -> None:
    argv = command(Artefact(tmp_path), tmp_path / "guest.cpio", (Share("results", tmp_path, writable=True),))
    devices = [argv[index + 1] for index, word in enumerate(argv) if word == "-device"]
    cards = [device for device in devices if "mac=" in device]
    assert len(cards) == len(CARDS) == len({device.split("bus=")[1].split(",")[0] for device in cards})
    assert len({card.mac for card in CARDS}) == len(CARDS)
    wires = [card.wire for card in CARDS]
    assert all(wires.count(wire) == 2 for wire in wires)
    for card, device in zip(CARDS, cards, strict=True):
        assert ("iommu_platform=on" in device) == card.ifname.startswith("virt")
        assert f"netdev=net{CARDS.index(card) + 1}," in device
    assert "tcg,thread=multi" in argv
    assert not any("tap" in word or "user," in word for word in argv if not word.startswith("/"))


def test_shares_are_read_only_but_the_results_and_commas_do_not_end_a_path(tmp_path: Path) -> None:
    odd = tmp_path / "a,b"
    seen = (Share("share0", odd), Share("results", tmp_path, writable=True))
    argv = command(Artefact(tmp_path), tmp_path / "x", seen, (Card("igb0", "igb", 1),))
    first, second = (argv[index + 1] for index, word in enumerate(argv) if word == "-virtfs")
    assert "a,,b,mount_tag=share0" in first
    assert first.endswith("readonly=on")
    assert "readonly" not in second


def job(checkout: Path, tmp_path: Path, *argv: str) -> Job:
    return Job(argv or ("true",), checkout, tmp_path, 60.0)


def test_the_guest_is_told_its_command_mounts_and_cards(tmp_path: Path) -> None:
    root = project_root()
    found = members(lane_archive(job(root, tmp_path, "pytest", "-k", "a b; $(reboot)"), NONCE))
    assert found["init"][0] & 0o111
    command_line = found["lane/command"][1].decode()
    assert shlex.split(command_line)[-1] == "a b; $(reboot)"
    mounts = dict(line.split(" ", 2)[::2] for line in found["lane/mounts"][1].decode().splitlines())
    assert mounts == {"share0": "/usr", "share1": str(root), "results": "/results"}
    assert found["lane/cards"][1].decode().splitlines()[0] == f"igb0 {CARDS[0].mac}"
    settings = found["lane/settings"][1].decode()
    assert settings == f"NONCE={NONCE}\nLIMIT_S=60\n"


def test_init_is_a_shell_script_that_parses() -> None:
    subprocess.run(["sh", "-n", str(project_root() / "ci/nic/init")], check=True)


def test_what_the_guest_could_not_see_is_told(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to("/opt/python3")
    with pytest.raises(MissingPart, match="uses /opt/python3"):
        shares(job(tmp_path, tmp_path))
    blank = tmp_path / "a b"
    (blank / ".venv/bin").mkdir(parents=True)
    (blank / ".venv/bin/python").symlink_to("/usr/bin/python3")
    with pytest.raises(MissingPart, match="no path with blanks"):
        lane_archive(job(blank, blank), NONCE)


# the hang guard, with a guest that is a Python script


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str]]]:
    """`guest(script, limit_s)`: exit code and lines shown."""
    monkeypatch.setattr("nic.boot._BOOT_S", 0.6)
    monkeypatch.setattr("nic.boot._POWER_OFF_S", 0.6)
    monkeypatch.setattr("nic.boot._LOOK_S", 0.05)

    def run(script: str, limit_s: float = 5.0) -> tuple[int, list[str]]:
        shown: list[str] = []
        text = f"import os, sys, time\nsay = lambda t: print(t, flush=True)\nnonce = {NONCE!r}\n{script}"
        code = supervise([sys.executable, "-c", text], {}, limit_s, NONCE, tmp_path / "console.log", shown.append)
        return code, shown

    return run


BEGIN = "say('noise'); say(f'nic-lane {nonce} begin');"


def test_the_exit_code_is_the_guests_word(guest: Callable[..., tuple[int, list[str]]]) -> None:
    said = guest(f"{BEGIN} say('one'); say('two'); say(f'[1.0] kernel nic-lane {{nonce}} end 3'); say('off')")
    assert said == (3, ["one", "two"])


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (f"{BEGIN} say('one')", "ended without a word.*one"),
        (f"{BEGIN} say('nic-lane other end 0')", "ended without a word"),
        ("say('panic'); sys.exit(1)", "ended without a word.*panic"),
        (f"{BEGIN} say(f'nic-lane {{nonce}} hang after 5 s; stacks'); say(f'nic-lane {{nonce}} end 0')", "hung: .*5 s"),
    ],
)
def test_a_guest_that_does_not_tell_is_no_success(
    guest: Callable[..., tuple[int, list[str]]], script: str, complaint: str
) -> None:
    with pytest.raises(Hang, match=complaint):
        guest(script)


def test_what_the_guest_misses_is_a_missing_part(guest: Callable[..., tuple[int, list[str]]]) -> None:
    with pytest.raises(MissingPart, match="found no card igb1"):
        guest("say(f'nic-lane {nonce} end no card igb1')")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("before", "complaint"), [(BEGIN, "did not even power off"), ("pass", "did not boot in")], ids=["stuck", "no boot"]
)
def test_a_guest_that_does_not_end_is_ended(
    guest: Callable[..., tuple[int, list[str]]], tmp_path: Path, before: str, complaint: str
) -> None:
    began = time.monotonic()
    with pytest.raises(Hang, match=complaint):
        guest(f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); {before}\ntime.sleep(60)", 0.2)
    assert time.monotonic() - began < 10
    assert not alive(int((tmp_path / "pid").read_text()))


# results


def results(folder_: Path, cases: str, facts: str = '{"zero-copy": {"igb": "flag"}}') -> Path:
    folder_.mkdir(exist_ok=True)
    (folder_ / "tests.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    (folder_ / "facts.json").write_text(facts)
    return folder_


GOOD = '<testcase classname="a" name="one" time="9.5"/>'
BAD = '<testcase classname="a" name="two"><failure message="x"/></testcase>'
SKIPPED = '<testcase classname="a" name="three"><skipped/></testcase>'


def test_results_are_counted_and_shown_without_times(tmp_path: Path) -> None:
    outcome = read_outcome(results(tmp_path / "r", GOOD), 0)
    assert outcome.exit_code == 0
    text = outcome.text()
    assert "igb" in text
    assert "1 passed, 0 failed, 0 skipped" in text
    assert "9.5" not in text


@pytest.mark.parametrize(("cases", "code"), [(GOOD + BAD, 1), (GOOD + SKIPPED, 0), ("", 5)])
def test_a_failed_or_skipped_test_or_none_at_all_is_no_success(tmp_path: Path, cases: str, code: int) -> None:
    outcome = read_outcome(results(tmp_path / "r", cases), code)
    assert outcome.exit_code == 1
    assert all(f"FAILED {name}" in outcome.text() for name in outcome.failed)


@pytest.mark.parametrize(("cases", "code"), [(GOOD, 1), (GOOD + BAD, 0), (GOOD, 2), (GOOD, 139)])
def test_a_record_that_does_not_fit_the_exit_code_is_not_believed(tmp_path: Path, cases: str, code: int) -> None:
    with pytest.raises(Hang):
        read_outcome(results(tmp_path / "r", cases), code)


def test_without_a_record_there_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(Hang, match="broke"):
        read_outcome(tmp_path, 0)


def test_a_table_of_nothing_but_strings_is_no_markup(tmp_path: Path) -> None:
    text = read_outcome(results(tmp_path / "r", GOOD, '{"t": {"igb": ""}}'), 0).text()
    assert "igb" in text
