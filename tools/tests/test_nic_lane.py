# SPDX-License-Identifier: Apache-2.0
"""The host's half of `make nic-test` without QEMU: command line, hang guard, results."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.cpio import members

from nic import lane
from nic.artefact import Artefact
from nic.boot import Guest, Job, lane_archive, shares, supervise
from nic.errors import Hang, MissingPart
from nic.outcome import merged, read_outcome
from nic.qemu import CARDS, IGB, VIRTIO, Card, Share, command
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
    return Job(argv or ("true",), (*IGB, *VIRTIO), checkout, tmp_path, 60.0)


def test_the_guest_is_told_its_command_mounts_and_cards(tmp_path: Path) -> None:
    root = project_root()
    found = members(lane_archive(job(root, tmp_path, "pytest", "-k", "a b; $(reboot)"), NONCE))
    assert found["init"][0] & 0o111
    command_line = found["lane/command"][1].decode()
    assert shlex.split(command_line)[-1] == "a b; $(reboot)"
    mounts = dict(line.split(" ", 2)[::2] for line in found["lane/mounts"][1].decode().splitlines())
    assert mounts == {"share0": "/usr", "share1": str(root), "results": "/results"}
    told = [line.split() for line in found["lane/cards"][1].decode().splitlines()]
    assert told == [[card.ifname, card.mac] for card in (*IGB, *VIRTIO)]
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


def test_the_guests_have_all_cards_and_all_tests_between_them() -> None:
    """Each ends with its cards as they were: what one guest has set, another cannot see."""
    folder = Path(lane.__file__).with_name("guest")
    tests = {path.name for path in folder.glob("test_*.py")}
    assert {card for cards, _ in lane._GUESTS.values() for card in cards} == set(CARDS)
    assert {file for _, files in lane._GUESTS.values() for file in files} == tests
    assert all(files[-1] == "test_9_restored.py" for _, files in lane._GUESTS.values())


# the hang guard, with guests that are Python scripts


Ended = int | Hang | MissingPart
Guests = Callable[..., tuple[list[Ended], list[str]]]


@pytest.fixture
def guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guests:
    """`guests(script, ..., limit_s=)`: what each ended with, and all lines shown."""
    monkeypatch.setattr("nic.boot._BOOT_S", 0.6)
    monkeypatch.setattr("nic.boot._POWER_OFF_S", 0.6)
    monkeypatch.setattr("nic.boot._LOOK_S", 0.05)

    def run(*scripts: str, limit_s: float = 5.0) -> tuple[list[Ended], list[str]]:
        shown: list[str] = []
        texts = [f"import os, sys, time\nsay = lambda t: print(t, flush=True)\nnonce = {NONCE!r}\n{s}" for s in scripts]
        made = {
            str(number): Guest(
                [sys.executable, "-c", text], {}, limit_s, NONCE, tmp_path / f"console-{number}", shown.append
            )
            for number, text in enumerate(texts)
        }
        ended = supervise(made)
        return [ended[name] for name in made], shown

    return run


BEGIN = "say('noise'); say(f'nic-lane {nonce} begin');"
GOOD_END = "say(f'nic-lane {nonce} end 0')"


def test_the_exit_code_is_the_guests_word(guests: Guests) -> None:
    said = guests(f"{BEGIN} say('one'); say('two'); say(f'[1.0] kernel nic-lane {{nonce}} end 3'); say('off')")
    assert said == ([3], ["one", "two"])


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (f"{BEGIN} say('one')", "ended without a word.*one"),
        (f"{BEGIN} say('nic-lane other end 0')", "ended without a word"),
        ("say('panic'); sys.exit(1)", "ended without a word.*panic"),
        (f"{BEGIN} say(f'nic-lane {{nonce}} hang after 5 s; stacks'); {GOOD_END}", "hung: .*5 s"),
    ],
)
def test_a_guest_that_does_not_tell_is_no_success(guests: Guests, script: str, complaint: str) -> None:
    ((error,), _) = guests(script)
    assert isinstance(error, Hang)
    assert re.search(complaint, str(error))


def test_what_the_guest_misses_is_a_missing_part(guests: Guests) -> None:
    ((error,), _) = guests("say(f'nic-lane {nonce} end no card igb1')")
    assert isinstance(error, MissingPart)
    assert "found no card igb1" in str(error)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("before", "complaint"), [(BEGIN, "did not even power off"), ("pass", "did not boot in")], ids=["stuck", "no boot"]
)
def test_a_guest_that_does_not_end_is_ended_and_the_other_is_not(
    guests: Guests, tmp_path: Path, before: str, complaint: str
) -> None:
    began = time.monotonic()
    stuck = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); {before}\ntime.sleep(60)"
    longer = f"{BEGIN} time.sleep(0.9); say('after it'); {GOOD_END}"  # than the limit of a guest that does not boot
    (error, other), shown = guests(stuck, longer, limit_s=0.2)
    assert isinstance(error, Hang)
    assert complaint in str(error)
    assert (other, shown) == (0, ["after it"])
    assert time.monotonic() - began < 10
    assert not alive(int((tmp_path / "pid").read_text()))


def test_when_we_are_stopped_all_guests_are(tmp_path: Path) -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt

    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); print(sys.argv[2], flush=True)"
    words = {"quiet": "", "loud": f"nic-lane {NONCE} begin\nfirst line"}
    pids = {name: tmp_path / name for name in words}
    made = {
        name: Guest(
            [sys.executable, "-c", f"{script}; time.sleep(60)", str(pids[name]), word],
            {}, 5.0, NONCE, tmp_path / f"{name}.log", stop,
        )
        for name, word in words.items()
    }  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        supervise(made)
    assert not any(path.exists() and alive(int(path.read_text())) for path in pids.values())


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


def test_one_table_comes_of_several_guests_and_their_failures_are_told_apart(tmp_path: Path) -> None:
    one = read_outcome(results(tmp_path / "1", GOOD, '{"zero-copy": {"igb": "a"}, "RSS": {"igb": "b"}}'), 0)
    two = read_outcome(results(tmp_path / "2", GOOD + BAD, '{"zero-copy": {"virtio_net": "c"}}'), 1)
    both = merged({"first": one, "second": two})
    assert both.facts == {"zero-copy": {"igb": "a", "virtio_net": "c"}, "RSS": {"igb": "b"}}
    assert both.exit_code == 1
    assert "FAILED second: a::two" in both.text()
    assert "2 passed, 1 failed" in both.text()
    assert merged({"first": one}).exit_code == 0
    assert merged({}).exit_code == 1


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        ({"a": 0, "b": 0}, 0, ""),
        ({"a": 0, "b": 1}, 1, ""),
        ({"a": 0, "b": Hang("it hung")}, 1, "nic-test: b: it hung"),
        ({"a": Hang("it hung"), "b": MissingPart("no card igb1")}, 2, "nic-test: b: no card igb1"),
        ({"a": 0, "b": 139}, 1, "nic-test: b: pytest in the guest broke (exit code 139)"),
    ],
)
def test_one_exit_code_comes_of_several_guests(
    ended: dict[str, Ended], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ended:
        (tmp_path / name).mkdir()
        results(tmp_path / name / "results", GOOD + (BAD if ended[name] == 1 else ""))
    monkeypatch.setattr(lane, "_run", lambda options, commands: (dict(ended), tmp_path))
    assert lane.main([]) == code
    out, err = capsys.readouterr()
    assert said in err
    assert "passed" in out  # the table of those that ended


def test_without_a_record_there_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(Hang, match="broke"):
        read_outcome(tmp_path, 0)


def test_a_table_of_nothing_but_strings_is_no_markup(tmp_path: Path) -> None:
    text = read_outcome(results(tmp_path / "r", GOOD, '{"t": {"igb": ""}}'), 0).text()
    assert "igb" in text
