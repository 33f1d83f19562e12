# SPDX-License-Identifier: Apache-2.0
"""Files that somebody else may have written are read up to a limit: no file, and no line without end, fills memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from xdplab.model.errors import InputError

MIB = 1 << 20
#: Of run.json, of a line of trials.jsonl (usual: 3 KiB), and of that file.
HEAD_BYTES, LINE_BYTES, JOURNAL_BYTES = 64 * MIB, 16 * MIB, 4096 * MIB
#: Of a study, a testbed, a description; and of the rules that it names.
YAML_BYTES, RULES_BYTES = MIB, 64 * MIB


def read_text(path: Path, limit: int) -> str:
    """A whole file of UTF-8.

    Raises:
        InputError: it has more than `limit` bytes.
        OSError, UnicodeDecodeError: as `Path.read_text`.
    """
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"{path}: more than the {limit // MIB} MiB that such a file may have")
    return data.decode("utf-8")


def whole_lines(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Lines with their ends; a last one without is left out.

    Raises:
        InputError: a line, or the file, is longer than one of a journal.
    """
    number = size = 0
    while line := file.readline(LINE_BYTES + 1):
        number, size = number + 1, size + len(line)
        if len(line) > LINE_BYTES or size > JOURNAL_BYTES:
            what = "a line" if len(line) > LINE_BYTES else "a file"
            limit = LINE_BYTES if len(line) > LINE_BYTES else JOURNAL_BYTES
            raise InputError(f"{path}:{number}: {what} of more than {limit // MIB} MiB, which no journal has")
        if line.endswith(b"\n"):
            yield line
