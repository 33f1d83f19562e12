# SPDX-License-Identifier: Apache-2.0
"""Writing files of a run so that what is there is whole and on the disk, and nobody else's file is written."""

import contextlib
import os
import tempfile
from pathlib import Path


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
