# SPDX-License-Identifier: Apache-2.0
"""Putting programs on a host by SFTP: into a folder of the user alone, under a name that holds their hash."""

import hashlib
import io
import posixpath
import stat
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import asyncssh

from xdplab.model import HostSpec, InputError

_MAIN = "from xdplab.hosts.agent.serve import main\n\nmain()\n"
#: Why the host answers with something else, and what fixes it.
SILENT_SHELL = "what ~/.bashrc and the like print there must be for terminals only: `[ -t 1 ] || return` before it"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def agent_zip() -> bytes:
    """The agent as one file that Python runs."""
    package = files("xdplab.hosts.agent")
    members = {"__main__.py": _MAIN, "xdplab/__init__.py": "", "xdplab/hosts/__init__.py": ""}
    for source in sorted(package.iterdir(), key=lambda item: item.name):
        if source.name.endswith(".py"):
            members[f"xdplab/hosts/agent/{source.name}"] = source.read_text(encoding="utf-8")
    return program_zip(members)


def program_zip(members: Mapping[str, str]) -> bytes:
    """A program that Python runs, by name and text of its files; the same bytes for the same sources."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text)
    return data.getvalue()


async def deploy(connection: asyncssh.SSHClientConnection, spec: HostSpec, host: str, name: str, data: bytes) -> str:
    """Have `data` as an executable file on the host; returns its absolute path.

    The file is read back and compared before it is used, whether it has been there or not.

    Raises:
        InputError: the folder is not the user's own, or cannot be written.
    """
    stem, dot, suffix = name.partition(".")
    target = f"{stem}-{hashlib.sha256(data).hexdigest()[:16]}{dot}{suffix}"
    try:
        async with connection.start_sftp_client() as sftp:
            folder = await _own_folder(sftp, spec.deploy, host)
            path = posixpath.join(folder, target)
            if await _content(sftp, path, len(data)) != data:
                partial = f"{path}.{id(data):x}"
                flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_TRUNC
                attributes = asyncssh.SFTPAttrs(permissions=0o700)
                async with sftp.open(partial, flags, attributes, encoding=None) as file:
                    await file.write(data)
                await sftp.chmod(partial, 0o700)
                await sftp.posix_rename(partial, path)
                if await _content(sftp, path, len(data)) != data:
                    raise InputError(f"{host}: {path} does not hold what was put there; is the disk full?")
            return path
    except asyncssh.SFTPConnectionLost:
        raise
    except asyncssh.SFTPBadMessage as exc:
        raise InputError(f"{host}: what it sends is not SFTP ({exc.reason}); {SILENT_SHELL}") from None
    except asyncssh.SFTPError as exc:
        raise InputError(f"{host}: {spec.deploy}: {exc.reason}; choose another folder with `deploy`") from None


async def _own_folder(sftp: asyncssh.SFTPClient, folder: str, host: str) -> str:
    """The folder's absolute path; made if it is missing, refused if others may write there."""
    await sftp.makedirs(folder, asyncssh.SFTPAttrs(permissions=0o700), exist_ok=True)
    found = await sftp.lstat(folder)
    own = (await sftp.stat(".")).uid  # of the home folder
    permissions = found.permissions or 0
    if not stat.S_ISDIR(permissions) or found.uid != own or permissions & 0o022:
        raise InputError(f"{host}: {folder} can be written by others, or is no folder; `chmod 700` it or remove it")
    return str(await sftp.realpath(folder))


async def _content(sftp: asyncssh.SFTPClient, path: str, size: int) -> bytes | None:
    """A file, as far as one byte more than it should have; None: there is none."""
    try:
        if not stat.S_ISREG((await sftp.lstat(path)).permissions or 0):
            return None
        async with sftp.open(path, "rb", encoding=None) as file:
            data = await file.read(size + 1)
            assert isinstance(data, bytes)
            return data
    except asyncssh.SFTPNoSuchFile:
        return None
