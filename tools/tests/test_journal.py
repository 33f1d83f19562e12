# SPDX-License-Identifier: Apache-2.0
"""A trial is safe once it has been appended: half lines, bad lines, a full disk."""

import errno
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab import studies
from lab.command import Done
from lab.records import point, run_record, trial

from xdplab import results as run_folders
from xdplab.model import InputError, TrialRecord, XdplabError, base
from xdplab.results import RunFolder, find_run, new_run

A = point("fake")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run folder with three trials."""
    made = new_run(tmp_path / "results", "fake-study")
    made.head(run_record(A))
    for repetition in range(3):
        made.append(trial(A, repetition))
    return made


def journal(run: RunFolder) -> Path:
    return run.path / "trials.jsonl"


def test_what_is_written_is_read_back(run: RunFolder) -> None:
    assert run.load() == run_record(A)
    assert [*run.trials()] == [trial(A, repetition) for repetition in range(3)]


@given(
    reason=st.text(max_size=30),
    tail=st.lists(st.text(max_size=20), max_size=3),
    status=st.sampled_from(["ok", "failed"]),
)
def test_any_text_in_a_record_survives(
    tmp_path_factory: pytest.TempPathFactory, reason: str, tail: list[str], status: str
) -> None:
    record = trial(A, 0, status=status, reason=reason, log_tail=tuple(tail))
    made = RunFolder(tmp_path_factory.mktemp("run"))
    made.append(record)
    made.append(record)
    assert [*made.trials()] == [record, record]


def test_each_line_is_on_the_disk_before_append_returns(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        synced.append(os.fstat(fd).st_size)

    monkeypatch.setattr(run_folders.os, "fsync", fsync)
    run.append(trial(A, 3))
    assert synced == [journal(run).stat().st_size]


def test_a_run_folder_is_private_and_latest_points_at_the_newest(tmp_path: Path) -> None:
    first, second = (new_run(tmp_path, "fake-study") for _ in range(2))
    assert first.path != second.path
    assert first.path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "latest").resolve() == second.path
    second.head(run_record(A))
    assert find_run("latest", tmp_path).path == second.path


@pytest.mark.parametrize("before", ["", "calibrates", "drawn again"])
def test_a_refused_run_leaves_latest_as_it_was(
    tmp_path: Path, results: Path, cli: Callable[..., Done], before: str
) -> None:
    if before:
        runs = [new_run(results, f"fake-study-{number}") for number in range(2)]
        for run in runs[: 1 if before == "calibrates" else 2]:  # that one has no trials yet
            run.head(run_record(A))
            run.append(trial(A))
        if before == "drawn again":
            os.utime(runs[0].path, (2**31, 2**31))
    cli("run", studies.study_file(tmp_path, traffic={"probe_pps": 6e6})).refused("calibrated top rate")
    latest = results / "latest"
    assert (latest.resolve() == runs[1].path.resolve()) if before else not latest.is_symlink()


def test_a_run_that_was_forgotten_meanwhile_is_not_latest_again(tmp_path: Path) -> None:
    first, second = (new_run(tmp_path, "fake-study") for _ in range(2))
    first.forget()
    second.forget()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [1, 2, 40, "all but one"])
def test_half_a_last_line_is_left_out_and_mended(run: RunFolder, cut: int | str) -> None:
    data = journal(run).read_bytes()
    last = len(data.splitlines(keepends=True)[-1])
    journal(run).write_bytes(data[: -(last - 1 if cut == "all but one" else int(cut))])
    assert [record.repetition for record in run.trials()] == [0, 1]
    run.repair()
    run.append(trial(A, 7))
    assert [record.repetition for record in run.trials()] == [0, 1, 7]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("point_id", "strange", "of point 'strange', which run.json does not have"),
     ("started", "yesterday", "not a trial record: started: "),
     ("started", "2026-01-02T03:04:05", "a time with its offset from UTC is expected")],
)  # fmt: skip
@pytest.mark.parametrize("command", ["report", "show", "resume"])
def test_a_trial_of_no_point_or_no_time_is_one_line(
    run: RunFolder, cli: Callable[..., Done], field: str, value: str, words: str, command: str
) -> None:
    whole = trial(A, 3).model_dump(mode="json")
    with journal(run).open("a", encoding="utf-8") as file:
        file.write(json.dumps({**whole, field: value}) + "\n")
    before = journal(run).read_bytes()
    cli(*(["run", "--resume", run.path] if command == "resume" else [command, run.path])).refused(
        "trials.jsonl:4: ", words
    )
    assert journal(run).read_bytes() == before


@pytest.mark.parametrize("kept", [0, 2, 4096])
def test_a_long_journal_is_read_again_and_says_the_same(
    run: RunFolder, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folders, "_KEPT", kept)
    found = run.trials()
    assert [*found] == [found[0], found[1], found[-1]] == [trial(A, repetition) for repetition in range(3)]
    assert [*found[1:]] == [trial(A, 1), trial(A, 2)]
    assert {point_id: [*own] for point_id, own in found.by_point.items()} == {A.id: [*found]}
    assert len(found.by_point[A.id]) == len(found) == 3
    read: list[bytes] = []
    monkeypatch.setattr(
        TrialRecord, "model_validate_json", classmethod(lambda cls, line: read.append(line) or trial(A, 9))
    )
    assert [each.repetition for each in found] == [0, 1, 2][:kept] + [9] * (3 - len([0, 1, 2][:kept]))
    assert len(read) == max(0, 3 - kept)


def test_a_line_without_end_is_refused_before_it_fills_memory(run: RunFolder, cli: Callable[..., Done]) -> None:
    with journal(run).open("ab") as file:
        file.truncate(len(journal(run).read_bytes()) + (1 << 30))  # a hole: it takes no room
    tracemalloc.start()
    try:
        for command in (["report", run.path], ["run", "--resume", run.path]):
            cli(*command).refused("trials.jsonl:4: a line of more than 16 MiB")
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()


def test_a_journal_without_end_is_refused(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "JOURNAL_BYTES", journal(run).stat().st_size - 1)
    with pytest.raises(InputError, match=r"trials.jsonl:3: a file of more than 0 MiB"):
        run.trials()


def test_a_head_without_end_is_refused(run: RunFolder, cli: Callable[..., Done]) -> None:
    os.truncate(run.path / "run.json", 1 << 30)
    cli("report", run.path).refused("run.json: more than the 64 MiB")


def test_mending_leaves_a_whole_journal_alone(run: RunFolder) -> None:
    before = journal(run).read_bytes()
    run.repair()
    assert journal(run).read_bytes() == before


@pytest.mark.parametrize("line", [b"", b"{", b"\xff\xfe", b'{"point_id": 1}', b"null"])
def test_a_bad_line_in_the_middle_is_an_error_with_its_number(run: RunFolder, line: bytes) -> None:
    lines = journal(run).read_bytes().splitlines()
    lines[1] = line
    journal(run).write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(InputError, match=r"trials.jsonl:2: not a trial record"):
        run.trials()


def test_a_trial_of_another_schema_version_is_refused(run: RunFolder) -> None:
    run.append(trial(A, 3, schema_version=99))
    with pytest.raises(InputError, match="99"):
        run.trials()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a run folder"),
        ("[]", "not a run folder: run.json: no object"),
        ('{"schema_version": 99}', "schema version 99, this xdplab reads 4$"),
        ('{"schema_version": 2}', "schema version 2, this xdplab reads 4; xdplab 0.1.0 reads it"),
        ('{"schema_version": 4}', "run.json: run_id: Field required"),
    ],
)
def test_a_bad_head_is_refused(run: RunFolder, text: str, words: str) -> None:
    (run.path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        run.load()


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run 'yesterday': no run\.json there"):
        find_run("yesterday", tmp_path)


class FullDisk:
    """os.write on a disk with `room` bytes left."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.real = os.write

    def __call__(self, fd: int, data: bytes) -> int:
        taken = min(self.room, len(data))
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= taken
        return self.real(fd, data[:taken])


@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_full_disk_keeps_the_trials_before(run: RunFolder, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    before = journal(run).read_bytes()
    monkeypatch.setattr(run_folders.os, "write", FullDisk(room))
    with pytest.raises(
        XdplabError, match="No space left on device; the trials before are kept; make room and use"
    ) as caught:
        run.append(trial(A, 3))
    assert str(run.path) in str(caught.value)
    assert caught.value.exit_code == 1
    assert journal(run).read_bytes() == before


def test_a_journal_that_cannot_be_opened_is_one_line(run: RunFolder) -> None:
    journal(run).unlink()
    run.path.joinpath("run.json").unlink()
    run.path.rmdir()
    with pytest.raises(XdplabError, match="No such file"):
        run.append(trial(A, 3))


def whole_trial(tmp_path: Path, cli: Callable[..., Done]) -> int:
    """Bytes of one measured line, from a run without trouble."""
    cli("run", studies.study_file(tmp_path), "--results", tmp_path / "sized")
    return max(len(line) for line in (tmp_path / "sized/latest/trials.jsonl").read_bytes().splitlines(keepends=True))


def trials_on_a_disk(
    tmp_path: Path, results: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, whole: float
) -> tuple[Done, list[TrialRecord]]:
    room = int(whole * whole_trial(tmp_path, cli))
    monkeypatch.setattr(run_folders.os, "write", FullDisk(room))
    done = cli("run", studies.study_file(tmp_path, repetitions=5))
    return done, studies.only_run(results).trials()


@pytest.mark.parametrize("room", [1.3, 2.6, 3.1])
def test_a_disk_that_fills_up_ends_the_run_with_what_was_measured(
    tmp_path: Path, results: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, room: float
) -> None:
    done, trials = trials_on_a_disk(tmp_path, results, cli, monkeypatch, room)
    assert trials
    assert all(record.status == "ok" for record in trials)  # a full disk is no failed point
    assert "No space left" in studies.only_run(results).report.read_text(encoding="utf-8")
    done.refused("No space left on device", "--resume", code=1)


def test_nothing_measured_leaves_no_run_folder(tmp_path: Path, results: Path, cli: Callable[..., Done]) -> None:
    path = studies.study_file(tmp_path, forwarders="fake:unsupported_reason=no such card")
    cli("run", path).refused("no point of it can be measured here: no such card")
    assert list(results.iterdir()) == []


def test_results_that_cannot_be_made_are_refused(tmp_path: Path, cli: Callable[..., Done]) -> None:
    (tmp_path / "file").touch()
    args: list[Any] = ["run", studies.study_file(tmp_path), "--results", tmp_path / "file" / "results"]
    cli(*args).refused("choose another folder with --results")
