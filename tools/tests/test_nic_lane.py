# SPDX-License-Identifier: Apache-2.0
"""The host's half of `make nic-test` without QEMU: command line, hang guard, results."""

import dataclasses
import shlex
import subprocess
from pathlib import Path

import pytest
from lab.cpio import members

from nic import lane
from nic.artefact import Artefact
from nic.boot import Job, lane_archive, shares
from nic.errors import Hang, MissingPart
from nic.kernels import KERNELS
from nic.outcome import merged, read_outcome
from nic.qemu import CARDS, IGB, VIRTIO, Card, Share, command
from xdplab.tools import project_root

NONCE = "0123456789abcdef"
ARTEFACT = Artefact(Path("/cache/emulator"), Path("/cache/kernel"))


def test_the_command_line_has_every_card_on_a_port_and_wire_of_its_own(tmp_path: Path) -> None:
    argv = command(ARTEFACT, tmp_path / "guest.cpio", (Share("results", tmp_path, writable=True),), CARDS, 768)
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
    argv = command(ARTEFACT, tmp_path / "x", seen, (Card("igb0", "igb", 1),), 768)
    first, second = (argv[index + 1] for index, word in enumerate(argv) if word == "-virtfs")
    assert "a,,b,mount_tag=share0" in first
    assert first.endswith("readonly=on")
    assert "readonly" not in second


def job(checkout: Path, tmp_path: Path, *argv: str) -> Job:
    return Job(argv or ("true",), (*IGB, *VIRTIO), 768, checkout, (), tmp_path, 60.0)


def test_the_guest_is_given_its_command_mounts_and_cards(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    found = members(lane_archive(job(root, tmp_path, "pytest", "-k", "a b; $(reboot)"), NONCE))
    assert found["init"][0] & 0o111
    command_line = found["lane/command"][1].decode()
    assert shlex.split(command_line)[-1] == "a b; $(reboot)"
    assert f"PYTHONPATH={root}/tools:" in command_line  # .venv may be another checkout's
    mounts = dict(line.split(" ", 2)[::2] for line in found["lane/mounts"][1].decode().splitlines())
    assert mounts == {"share0": "/usr", "share1": str(root), "results": "/results"}
    reported = [line.split() for line in found["lane/cards"][1].decode().splitlines()]
    assert reported == [[card.ifname, card.mac] for card in (*IGB, *VIRTIO)]
    settings = found["lane/settings"][1].decode()
    assert settings == f"NONCE={NONCE}\nLIMIT_S=60\n"


def checkout(tmp_path: Path) -> Path:
    """A folder that has a .venv of its own."""
    (tmp_path / "project/.venv/bin").mkdir(parents=True)
    (tmp_path / "project/.venv/bin/python").symlink_to("/usr/bin/python3")
    return tmp_path / "project"


def test_what_lies_elsewhere_is_seen_too(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".venv").symlink_to(root / ".venv")
    more = dataclasses.replace(job(linked, tmp_path), more=(Path("/etc/alternatives"),))
    seen = {share.path: share.writable for share in shares(more)}
    assert seen == dict.fromkeys([Path("/usr"), linked, Path("/etc/alternatives"), root / ".venv"], False) | {
        tmp_path: True
    }


def test_init_is_a_shell_script_that_parses() -> None:
    subprocess.run(["sh", "-n", str(project_root() / "ci/nic/init")], check=True)


def test_what_the_guest_could_not_see_is_reported(tmp_path: Path) -> None:
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
    guests = KERNELS["7.2"].guests.values()
    assert {card for guest in guests for card in guest.cards} == set(CARDS)
    assert all(guest.files[-1] == "test_9_restored.py" for guest in guests)
    ran = {file for kernel in KERNELS.values() for guest in kernel.guests.values() for file in guest.files}
    assert {file for file in ran if "/" not in file} == tests


def test_the_tests_of_the_project_that_a_kernel_runs_are_there() -> None:
    for kernel in KERNELS.values():
        for test in (file for guest in kernel.guests.values() for file in guest.files if "/" in file):
            file, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}" in (project_root() / file).read_text(encoding="utf-8"), test


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


def test_one_table_comes_of_several_guests_and_their_failures_are_reported_apart(tmp_path: Path) -> None:
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
    ended: dict[str, int | Hang | MissingPart], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ended:
        (tmp_path / name).mkdir()
        results(tmp_path / name / "results", GOOD + (BAD if ended[name] == 1 else ""))
    monkeypatch.setattr(lane, "_run", lambda options, kernel, commands: (dict(ended), tmp_path))
    assert lane.main(["--kernel", "7.2"]) == code
    out, err = capsys.readouterr()
    assert said in err
    assert "passed" in out  # the table of those that ended


def test_all_kernels_are_tested_one_after_another_and_the_worst_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def tests(options: object, kernel: str) -> int:
        ran.append(kernel)
        if len(ran) == 1:
            raise MissingPart("gone")
        return 1

    monkeypatch.setattr(lane, "_tests", tests)
    assert lane.main([]) == 2
    assert ran == list(KERNELS)
    assert lane.main(["--kernel", "6.1", "--kernel", "7.2"]) == 1
    assert ran[len(KERNELS) :] == ["6.1", "7.2"]


def test_without_a_record_there_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(Hang, match="broke"):
        read_outcome(tmp_path, 0)


def test_a_table_of_nothing_but_strings_is_no_markup(tmp_path: Path) -> None:
    text = read_outcome(results(tmp_path / "r", GOOD, '{"t": {"igb": ""}}'), 0).text()
    assert "igb" in text
