# SPDX-License-Identifier: Apache-2.0
"""Run folders: run.json, trials.jsonl (the truth), report.html.

One is read or refused in one line. A trial is on the disk before the next one starts (`append`).
"""

import contextlib
import io
import json
import os
import shutil
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import ValidationError

from xdplab.model import SCHEMA_VERSION, InputError, JournalFailed, Model, RunRecord, TrialRecord, plain
from xdplab.model.base import HEAD_BYTES, READ_BY, read_text, whole_lines

_M = TypeVar("_M", bound=Model)
#: Trials that stay in memory once they were read, some 16 KiB each.
_KEPT = 4096


def read_head(folder: Path) -> dict[str, Any]:
    """run.json as it stands there.

    Raises:
        InputError: not a run folder.
    """
    path = folder / "run.json"
    try:
        data = json.loads(read_text(path, HEAD_BYTES))
    except (OSError, ValueError, RecursionError) as exc:
        raise InputError(f"{folder}: not a run folder: {path.name}: {exc}") from None
    if not isinstance(data, dict):
        raise InputError(f"{folder}: not a run folder: {path.name}: no object")
    return data


def head_as(model: type[_M], data: dict[str, Any], folder: Path) -> _M:
    """run.json as a model.

    Raises:
        InputError: another schema version, or what the model does not take.
    """
    path = folder / "run.json"
    _check_version(data.get("schema_version"), str(path))
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        raise InputError(f"{path}: {first_error(exc)}") from None


class Journal(Sequence[TrialRecord]):
    """The trials of a run in their order. Those of a long run are read from its file again whenever they are asked for.

    A last line that kill -9 cut off is left out, and before the first trial there is no file.
    """

    def __init__(self, path: Path, starts: Sequence[int], of: Sequence[str], kept: Mapping[int, TrialRecord]) -> None:
        self._path = path
        #: Where their lines begin, and of which points they are.
        self._starts, self._of = starts, of
        self._kept = kept

    @classmethod
    def of(cls, path: Path, points: Any) -> "Journal":
        """All of a file, once each line was read; `points` is what run.json has of that name.

        Raises:
            InputError: a line cannot be read, or is of a point that run.json does not have.
        """
        starts, of, at = array("q"), list[str](), 0
        names, kept = dict[str, str](), dict[int, TrialRecord]()
        with path.open("rb") if path.exists() else contextlib.nullcontext(io.BytesIO()) as file:
            for number, line in enumerate(whole_lines(path, file), start=1):
                try:
                    record = TrialRecord.model_validate_json(line)
                except ValidationError as exc:
                    raise InputError(f"{path}:{number}: not a trial record: {first_error(exc)}") from None
                _check_version(record.schema_version, f"{path}:{number}")
                if isinstance(points, dict) and record.point_id not in points:  # else it is for `load` to complain
                    raise InputError(
                        f"{path}:{number}: of point {plain(record.point_id)!r}, which run.json does not have"
                    )
                if number <= _KEPT:
                    kept[at] = record
                starts.append(at)
                of.append(names.setdefault(record.point_id, record.point_id))
                at += len(line)
        return cls(path, starts, of, kept)

    @cached_property
    def by_point(self) -> "Mapping[str, Journal]":
        found: dict[str, array[int]] = defaultdict(lambda: array("q"))
        for start, point_id in zip(self._starts, self._of, strict=True):
            found[point_id].append(start)
        return {each: Journal(self._path, starts, [each] * len(starts), self._kept) for each, starts in found.items()}

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[TrialRecord]:
        with contextlib.ExitStack() as stack:
            file = None
            for start in self._starts:
                record = self._kept.get(start)
                if record is None:
                    file = file or stack.enter_context(self._path.open("rb"))
                    file.seek(start)
                    record = TrialRecord.model_validate_json(file.readline())
                yield record

    @overload
    def __getitem__(self, index: int) -> TrialRecord: ...

    @overload
    def __getitem__(self, index: slice) -> "Journal": ...

    def __getitem__(self, index: int | slice) -> "TrialRecord | Journal":
        if isinstance(index, slice):
            return Journal(self._path, self._starts[index], self._of[index], self._kept)
        return next(iter(Journal(self._path, [self._starts[index]], [self._of[index]], self._kept)))


def trials_by_point(trials: Iterable[TrialRecord]) -> Mapping[str, Sequence[TrialRecord]]:
    """Point id -> its trials in their order; points without any are not there."""
    if isinstance(trials, Journal):
        return trials.by_point
    found: dict[str, list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        found[trial.point_id].append(trial)
    return found


def _check_version(found: Any, where: str) -> None:
    if found != SCHEMA_VERSION:
        reader = f"; xdplab {READ_BY[found]} reads it" if found in READ_BY else ""
        raise InputError(f"{where}: schema version {found}, this xdplab reads {SCHEMA_VERSION}{reader}")


def first_error(exc: ValidationError) -> str:
    """What is wrong first, and where."""
    error = exc.errors(include_url=False)[0]
    return ": ".join(filter(None, (".".join(map(str, error["loc"])), error["msg"])))


class RunFolder:
    """`results/<run>/`, which a run is written to as it happens."""

    def __init__(self, path: Path, latest_before: Path | None = None) -> None:
        self.path = path
        self._trials = path / "trials.jsonl"
        #: What `latest` pointed at before this run was made.
        self._latest_before = latest_before

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def head(self, record: RunRecord) -> None:
        try:
            write_whole(self.path / "run.json", record.model_dump_json(indent=1, by_alias=True) + "\n")
        except OSError as exc:
            raise JournalFailed(f"{self.path / 'run.json'}: {exc.strerror}; what was measured is kept") from None

    def append(self, record: TrialRecord) -> None:
        """Append one line and wait for the disk.

        Raises:
            JournalFailed: it cannot be written; the file is cut back to its last whole line.
        """
        line = record.model_dump_json().encode() + b"\n"
        try:
            append_whole(self._trials, line)
        except OSError as exc:
            raise JournalFailed(
                f"{self._trials}: {exc.strerror}; the trials before are kept; make room and use "
                f"`xdplab run --resume {self.path}`"
            ) from None

    def load(self) -> RunRecord:
        """run.json as a model.

        Raises:
            InputError: not a run folder, or written by another version.
        """
        return head_as(RunRecord, read_head(self.path), self.path)

    def trials(self) -> Journal:
        """Those of trials.jsonl.

        Raises:
            InputError: as `Journal.of`.
        """
        head = self.path / "run.json"
        return Journal.of(self._trials, read_head(self.path).get("points") if head.exists() else None)

    def repair(self) -> None:
        """Cut off half a last line, before a resumed run appends to it."""
        if self._trials.exists():
            with self._trials.open("rb") as file:
                whole = sum(map(len, whole_lines(self._trials, file)))
            if whole < self._trials.stat().st_size:
                os.truncate(self._trials, whole)

    def forget(self) -> None:
        """Remove a run in which nothing was measured; where `latest` points at it, it points again where it did."""
        latest = self.path.parent / "latest"
        if latest.is_symlink() and latest.readlink() == Path(self.name):
            before = self._latest_before
            if before is not None and (latest.parent / before).is_dir():  # not itself forgotten meanwhile
                _point(latest, before)
            else:
                latest.unlink()
        shutil.rmtree(self.path, ignore_errors=True)


def new_run(results: Path, study: str) -> RunFolder:
    """A new folder `results/<study>-<time>`, private to the user, with `results/latest` pointing at it.

    Raises:
        InputError: it cannot be made.
    """
    latest = results / "latest"
    if latest.exists() and not latest.is_symlink():
        raise InputError(f"{latest}: not a link to the newest run; rename it, or choose another folder with --results")
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        path = results / f"{study}-{stamp}{suffix}"
        try:
            if not results.exists():
                results.mkdir(parents=True, exist_ok=True)
                give_back(results)
            path.mkdir(mode=0o700)
            give_back(path)
        except FileExistsError:
            continue
        except OSError as exc:
            raise InputError(f"{path}: {exc.strerror}; choose another folder with --results") from None
        before = latest.readlink() if latest.is_symlink() else None
        _point(latest, Path(path.name))
        return RunFolder(path, before)
    raise InputError(f"{results}: no free name for a run of {study}")


def _point(latest: Path, run: Path) -> None:
    """Make `latest` a link to a run, at once."""
    link = latest.with_name(f".latest.{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(run)
    give_back(link)
    link.replace(latest)


def find_run(name: str, results: Path) -> RunFolder:
    """The run folder of that name within `results`, or of that path.

    Raises:
        InputError: there is none.
    """
    for path in (results / name, Path(name)):
        if (path / "run.json").is_file():
            return RunFolder(path.resolve())
    raise InputError(f"run {name!r}: no run.json there or in {results}; `xdplab run` makes runs")


# Writing files of a run so that what is there is whole and on the disk, and nobody else's file is written.


def give_back(made: int | Path) -> None:
    """What root has made for somebody who called sudo becomes that user's; a link itself, not where it leads."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and user.isdecimal() and group.isdecimal():
        if isinstance(made, int):
            os.fchown(made, int(user), int(group))
        else:
            os.chown(made, int(user), int(group), follow_symlinks=False)


def write_whole(path: Path, text: str) -> None:
    """Replace a file by one with this text, readable by its user only; all of it or nothing.

    It is written under a name that nobody can foresee (O_EXCL): the folder may be one that others write to.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    fd, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        give_back(fd)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def append_whole(path: Path, line: bytes) -> None:
    """Append a line and wait for the disk: all of it, or none of it.

    Raises:
        OSError: it cannot be written; the file is cut back to what it was.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        before = os.fstat(fd).st_size
        if not before:
            give_back(fd)
        try:
            written = os.write(fd, line)
            if written < len(line):
                os.write(fd, line[written:])  # a full disk says so on the second call
            os.fsync(fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)
