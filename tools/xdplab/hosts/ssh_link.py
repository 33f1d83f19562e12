# SPDX-License-Identifier: Apache-2.0
"""One session of a host's agent over one SSH connection. When that is lost, the session is over, and so is the link."""

import asyncio
import contextlib
import getpass
import hashlib
import io
import itertools
import json
import os
import posixpath
import shlex
import socket
import stat
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import asyncssh
from pydantic import ConfigDict, Field, Strict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from xdplab.hosts.agent.serve import ANSWER_BYTES
from xdplab.model import HostSpec, InputError, LinkLost, SshAddress, plain

#: The agent waits for an earlier one of ours to end.
_HELLO_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 10.0
#: How long a host may take to answer, next to what it is asked to wait for; and how slow a copy may be.
ANSWER_S = 60.0
_COPY_BYTES_PER_S = 100_000
#: Of what it complains instead of a greeting.
_COMPLAINT_BYTES = 65536
#: Lines that only say that we are there, within the time after which the agent gives us up.
_BEAT = json.dumps({"op": "beat"}).encode() + b"\n"
_BEATS_PER_LEASE = 4


@with_config(ConfigDict(strict=True))
class Facts(TypedDict):
    """What an agent says of its host: some of it becomes part of a path."""

    pid: int
    uid: int
    boot_id: str
    netns: str
    python: str
    cpus: Annotated[list[int], Field(min_length=1)]
    ended: list[str]
    machine_id: Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$")]
    #: Processor architecture (uname(2)), and version of the C library as 2.36; "": another than glibc.
    machine: Annotated[str, Field(pattern=r"^\w{0,32}$")]
    glibc: Annotated[str, Field(pattern=r"^(\d{1,3}\.\d{1,3})?$")]
    #: Interface -> its index, MTU, XDP program (0: none) and what `ports.names` gives, as the last session that had
    #: ports left them. JSON has lists.
    left: dict[str, Annotated[tuple[int, int, int, dict[str, list[str]]], Strict(False)]]
    #: `SSH_CONNECTION`, or "" where sshd sets none.
    ssh: Annotated[str, Field(pattern=r"^([0-9A-Fa-f:][\w.:%-]* \d+ [0-9A-Fa-f:][\w.:%-]* \d+)?$")]


_FACTS = TypeAdapter(Facts)


class AgentError(Exception):
    """Text and kind of what an agent answered instead of a result."""


class AgentLink:
    """All methods run on the event loop of `hosts.ssh`."""

    def __init__(self, name: str, spec: HostSpec, controller: str) -> None:
        self._name = name
        self._spec = spec
        self._hello = {
            "controller": controller,
            "label": f"xdplab on {socket.gethostname()} (testbed {controller.rpartition('/')[2]})",
            "lease_s": spec.lease_s,
        }
        self._numbers = itertools.count(1)
        #: Request -> where its answer is waited for.
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._connection: asyncssh.SSHClientConnection | None = None
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        #: Why it is of no more use; empty while it is.
        self.lost = ""
        self.facts = Facts(
            pid=0, uid=0, boot_id="", netns="", python="", cpus=[], ended=[], machine_id="", machine="", glibc="",
            left={}, ssh="",
        )  # fmt: skip
        self.host_key = ""

    @property
    def is_open(self) -> bool:
        """From `open` until it is lost or closed."""
        return self._process is not None and not self.lost

    async def open(self) -> None:
        """Connect, put the agent there, and start it.

        Raises:
            Unreachable: it may work later.
            InputError: it will not: the host cannot be used as the testbed file says.
        """
        connection = await connect(self._spec, self._name)
        try:
            async with asyncio.timeout(ANSWER_S):
                agent = await deploy(connection, self._spec, self._name, "agent.pyz", agent_zip())
                sudo = ["sudo", "-n", "--"] if self._spec.sudo else []
                # the one command line that a shell on the host sees; all other commands go to the agent as JSON
                argv = [*sudo, "python3", "-I", "-S", agent, self._spec.folder]
                process = await connection.create_process(shlex.join(argv), encoding=None)
            self.facts = await asyncio.wait_for(self._greet(process), _HELLO_TIMEOUT_S)
        except (OSError, asyncssh.Error, TimeoutError) as exc:
            connection.abort()
            raise Unreachable(f"{self._name}: {str(exc) or 'the agent does not answer'}") from None
        except BaseException:
            connection.abort()
            raise
        key = connection.get_server_host_key()
        self.host_key = key.get_fingerprint() if key else ""
        self._connection, self._process = connection, process
        self._tasks = [asyncio.create_task(self._read(process)), asyncio.create_task(self._beat(process))]

    async def close(self) -> None:
        """Hang up, and wait until the agent has ended; safe to call twice."""
        process, self._process = self._process, None
        if process is not None and not self.lost:
            with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
                process.stdin.write_eof()
                await asyncio.wait_for(process.wait_closed(), _END_TIMEOUT_S)
        for task in self._tasks:
            task.cancel()
        if self._connection is not None:
            self._connection.abort()

    async def request(self, op: str, args: Sequence[Any], given: Mapping[str, Any], waits_s: float = 0.0) -> Any:
        """What the agent answers. `waits_s`: how long it is asked to wait for something itself.

        Raises:
            LinkLost: the connection is lost, or given up because no answer comes.
            AgentError: what the agent answers with instead.
        """
        process = self._process
        if process is None or self.lost:
            raise LinkLost(self.lost or f"{self._name}: not connected")
        number = next(self._numbers)
        asked = {"id": number, "op": op, "args": args, "given": given}
        self._pending[number] = answer = asyncio.get_running_loop().create_future()
        try:
            with contextlib.suppress(OSError, asyncssh.Error):  # the reader sees it too
                process.stdin.write(json.dumps(asked, default=str).encode() + b"\n")
            async with asyncio.timeout(waits_s + ANSWER_S):
                return await answer
        except TimeoutError:
            self._lose(f"{self._name}: no answer to {op} after {waits_s + ANSWER_S:g} s; the connection is given up")
            raise LinkLost(self.lost) from None
        finally:
            del self._pending[number]

    async def put(self, name: str, data: bytes) -> str:
        """Have a program on the host as `ssh_deploy.deploy` does; its path.

        Raises:
            LinkLost: the connection is lost.
        """
        try:
            if self._connection is None or self.lost:
                raise OSError
            async with asyncio.timeout(ANSWER_S + len(data) / _COPY_BYTES_PER_S):
                return await deploy(self._connection, self._spec, self._name, name, data)
        except (OSError, asyncssh.DisconnectError, asyncssh.ChannelOpenError, asyncssh.SFTPConnectionLost):
            self._lose(f"lost the connection to host {self._name}")
            raise LinkLost(self.lost) from None

    async def _greet(self, process: asyncssh.SSHClientProcess[bytes]) -> Facts:
        process.stdin.write(json.dumps(self._hello).encode() + b"\n")
        try:
            line = await process.stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            said = (await _up_to(process.stderr, _COMPLAINT_BYTES)).decode("utf-8", "replace").strip().splitlines()
            if not said:
                raise Unreachable(f"{self._name}: the connection was closed before the agent answered") from None
            hint = "; `sudo -n` must work: see docs/security.md" if said[-1].startswith("sudo:") else ""
            raise InputError(f"{self._name}: {said[-1][:200]}{hint}") from None
        facts = _object(line)
        if facts is None:
            shell = plain(line.decode("utf-8", "replace").strip())[:80]
            raise InputError(f"{self._name}: its login shell prints {shell!r} before the agent answers; {SILENT_SHELL}")
        if "error" in facts:
            raise InputError(f"{self._name}: {plain(str(facts['error']))}")
        return checked_facts(facts, self._name)

    async def _read(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        rest, why = bytearray(), f"lost the connection to host {self._name}"
        try:
            while data := await process.stdout.read(65536):
                rest += data
                if b"\n" in data:
                    *lines, rest = rest.split(b"\n")
                    for line in lines:
                        self._take(bytes(line))
                if len(rest) > ANSWER_BYTES:
                    raise ValueError(f"{self._name}: an answer of more than {ANSWER_BYTES >> 20} MiB")
        except (OSError, asyncssh.Error):
            pass
        except Exception as exc:  # whatever it sent, those who wait hear of it
            why = str(exc)
        self._lose(why)

    def _take(self, line: bytes) -> None:
        reply = _object(line)
        if reply is None or type(reply.get("id")) is not int or not ("ok" in reply or {"error", "kind"} <= set(reply)):
            said = plain(line.decode("utf-8", "replace"))[:80]
            raise ValueError(f"{self._name}: {said!r} came instead of an answer of the agent")
        answer = self._pending.get(reply["id"])
        if answer is None or answer.done():
            return  # nobody waits any more
        if "ok" in reply:
            answer.set_result(reply["ok"])
        else:
            answer.set_exception(AgentError(str(reply["error"]), str(reply["kind"])))

    def _lose(self, why: str) -> None:
        if self._process is not None and not self.lost:
            self.lost = why
        if self._connection is not None:
            self._connection.abort()
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(LinkLost(why))

    async def _beat(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        """Be heard by the agent also while nothing is asked."""
        with contextlib.suppress(OSError, asyncssh.Error):
            while True:
                await asyncio.sleep(self._spec.lease_s / _BEATS_PER_LEASE)
                process.stdin.write(_BEAT)


async def _up_to(stream: asyncssh.SSHReader[bytes], limit: int) -> bytes:
    """All that comes until the end, if it is not more than that."""
    try:
        return await stream.readexactly(limit)
    except asyncio.IncompleteReadError as exc:
        return exc.partial


def _object(line: bytes) -> dict[str, Any] | None:
    """A line as a JSON object; None when it is something else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def checked_facts(facts: Any, name: str) -> Facts:
    """What a host says of itself.

    Raises:
        InputError: it is not of the right kind.
    """
    try:
        found = _FACTS.validate_python(facts)
    except ValidationError:
        raise InputError(f"{name}: the agent's greeting cannot be understood") from None
    return {**found, "ended": [plain(each)[:40] for each in found["ended"]]}


# Opening SSH connections: host keys are always checked, passwords are never asked for, nothing is read but the file.
#
# Keys come from the file that the testbed names, else from ssh-agent and ~/.ssh. The user's ssh_config is not read, so
# that a testbed file says all there is to say.

_CONNECT_TIMEOUT_S = 10.0
_KEEPALIVES = 3


class Unreachable(Exception):
    """Not now; it may be worth another try."""


@contextlib.asynccontextmanager
async def _jumped(spec: HostSpec, name: str, dead_after_s: float):  # type: ignore[no-untyped-def]
    if spec.jump is None:
        yield None
        return
    tunnel = await _connect(spec.jump, f"{name}: jump host", dead_after_s, None)
    try:
        yield tunnel
    except BaseException:
        tunnel.abort()
        raise


async def connect(spec: HostSpec, name: str) -> asyncssh.SSHClientConnection:
    """A connection to a host of a testbed, through its jump host if it has one.

    Raises:
        InputError: the host key or the user is refused, or a file is missing: trying again is of no use.
        Unreachable: no answer.
    """
    async with _jumped(spec, name, spec.dead_after_s) as tunnel:
        return await _connect(spec, name, spec.dead_after_s, tunnel)


async def _connect(
    to: SshAddress, name: str, dead_after_s: float, tunnel: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    where = f"{name} ({to.address} port {to.port})"
    user = to.user or getpass.getuser()
    known_hosts = Path(to.known_hosts).expanduser()
    if not known_hosts.is_file():
        raise InputError(f"{where}: no file {known_hosts} with its host key; {_learn(to, known_hosts)}")
    key = Path(to.key).expanduser() if to.key else None
    if key is not None and not key.is_file():
        raise InputError(f"{where}: no private key file {key}")
    keys = {"client_keys": [str(key)], "agent_path": None} if key else {}
    try:
        return await asyncssh.connect(
            to.address,
            to.port,
            tunnel=tunnel,
            config=None,
            username=user,
            known_hosts=str(known_hosts),
            preferred_auth="publickey",
            ignore_encrypted=key is None,  # those of ~/.ssh that we cannot read are left out; one that was named is not
            connect_timeout=_CONNECT_TIMEOUT_S,
            login_timeout=_CONNECT_TIMEOUT_S,
            keepalive_interval=dead_after_s / _KEEPALIVES,
            keepalive_count_max=_KEEPALIVES - 1,
            compression_algs=None,
            **keys,
        )
    except asyncssh.HostKeyNotVerifiable as exc:
        raise InputError(f"{where}: host key not verified: {exc.reason}; {_learn(to, known_hosts)}") from None
    except asyncssh.PermissionDenied:
        with_key = f"key {key}" if key else "any key of ssh-agent or ~/.ssh"
        raise InputError(f"{where}: user {user} is refused with {with_key}; `ssh-copy-id` puts a key there") from None
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as exc:
        raise InputError(f"{where}: key {key}: {exc}; a key with a passphrase belongs in ssh-agent") from None
    except (OSError, asyncssh.Error) as exc:
        why = os.strerror(exc.errno) if isinstance(exc, OSError) and exc.errno else str(exc)
        raise Unreachable(f"{where}: {why or 'no answer'}") from None


def _learn(to: SshAddress, known_hosts: Path) -> str:
    """How to put a host key where it is looked for."""
    learn = f"ssh-keyscan -p {to.port} {to.address} >> {known_hosts}"
    return f"`{learn}` puts it there: compare its fingerprint with the host's"


# Putting programs on a host by SFTP: into a folder of the user alone, under a name that holds their hash.

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
