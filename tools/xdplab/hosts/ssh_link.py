# SPDX-License-Identifier: Apache-2.0
"""A link to a host's agent that outlives its connection: requests without a reply are repeated after a reconnect."""

import asyncio
import contextlib
import itertools
import json
import secrets
import shlex
import socket
import time
from typing import Any

import asyncssh

from xdplab.hosts.ssh_connect import Unreachable, connect
from xdplab.hosts.ssh_deploy import SILENT_SHELL, agent_zip, deploy
from xdplab.model import HostLost, HostSpec, InputError, MissingProgram, XdplabError, plain

_RETRY_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_HELLO_TIMEOUT_S = 15.0
#: Lines that only say that we are there, within the time after which the agent gives us up.
_BEAT = json.dumps({"op": "beat"}).encode() + b"\n"
_BEATS_PER_LEASE = 4
_RESTORE = "`xdplab restore` puts back what is still changed there"


class AgentLink:
    """One agent. All methods run on the event loop of `hosts.ssh`."""

    def __init__(self, name: str, spec: HostSpec, controller: str) -> None:
        self._name = name
        self._spec = spec
        self._hello = {
            "controller": controller,
            "session": secrets.token_hex(8),
            "label": f"xdplab on {socket.gethostname()} (testbed {controller.rpartition('/')[2]})",
            "lease_s": spec.lease_s,
        }
        self._numbers = itertools.count(1)
        #: Request -> its line and where its reply is waited for.
        self._pending: dict[int, tuple[bytes, asyncio.Future[Any]]] = {}
        self._acknowledge: list[int] = []
        self._connection: asyncssh.SSHClientConnection | None = None
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._lost: XdplabError | None = None
        #: What the agent says of its host; empty until `open`.
        self.facts: dict[str, Any] = {}
        #: How often the connection was made anew.
        self.reconnects = 0

    async def open(self) -> None:
        """Connect, put the agent there, start it, and keep the connection from then on.

        Raises:
            InputError: the host cannot be reached or used as the testbed file says.
        """
        try:
            await self._connect()
        except Unreachable as exc:
            raise InputError(str(exc)) from None
        self._tasks = [asyncio.create_task(self._keep()), asyncio.create_task(self._beat())]

    async def close(self) -> None:
        """Hang up; the agent stays until its lease is over, or ends when it was asked to."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._connection is not None:
            self._connection.abort()

    async def request(self, op: str, **asked: Any) -> Any:
        """Ask the agent, however often the connection drops meanwhile.

        Raises:
            HostLost: it did not come back in time, or is another one than before.
            XdplabError: what the agent answers with.
        """
        if self._lost is not None:
            raise self._lost
        number = next(self._numbers)
        done, self._acknowledge = self._acknowledge, []
        line = json.dumps({"id": number, "op": op, "ack": done, **asked}).encode() + b"\n"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = (line, future)
        self._send(line)
        try:
            return await future
        except asyncio.CancelledError:
            if op == "run" and self._lost is None:
                cancel = next(self._numbers)
                self._send(json.dumps({"id": cancel, "op": "cancel", "target": number}).encode() + b"\n")
                self._acknowledge.append(cancel)
            raise
        finally:
            self._pending.pop(number, None)
            self._acknowledge.append(number)

    async def put(self, name: str, data: bytes) -> str:
        """Have a program on the host as `ssh_deploy.deploy` does, however often the connection drops; its path."""
        deadline = time.monotonic() + self._spec.reconnect_s
        while True:
            if self._lost is not None:
                raise self._lost
            connection = self._connection
            try:
                if connection is None:
                    raise OSError
                return await deploy(connection, self._spec, self._name, name, data)
            except (OSError, asyncssh.DisconnectError, asyncssh.ChannelOpenError, asyncssh.SFTPConnectionLost):
                if time.monotonic() > deadline:
                    raise HostLost(f"{self._name}: the connection drops each time {name} is copied there") from None
                await asyncio.sleep(_RETRY_S[2])

    # -- the connection

    async def _connect(self) -> None:
        """One attempt: connection, agent, hello, and everything that has no reply yet.

        Raises:
            Unreachable: it may work later.
            InputError: it will not.
        """
        connection = await connect(self._spec, self._name)
        try:
            agent = await deploy(connection, self._spec, self._name, "agent.pyz", agent_zip())
            sudo = ["sudo", "-n", "--"] if self._spec.sudo else []
            # the one command line that a shell on the host sees; all other commands go to the agent as JSON
            argv = [*sudo, "python3", "-I", "-S", agent, "attach", self._spec.folder]
            process = await connection.create_process(shlex.join(argv), encoding=None)
            facts = await asyncio.wait_for(self._greet(process), _HELLO_TIMEOUT_S)
        except (OSError, asyncssh.Error, TimeoutError) as exc:
            connection.abort()
            raise Unreachable(f"{self._name}: {exc or 'the agent does not answer'}") from None
        except BaseException:
            connection.abort()
            raise
        if self.facts and facts["agent"] != self.facts["agent"]:
            connection.abort()
            cause = "rebooted" if facts["boot_id"] != self.facts["boot_id"] else "ended what ran there"
            raise HostLost(f"{self._name}: the host {cause} while the connection was down; {_RESTORE}")
        self.facts = self.facts or facts
        self._connection, self._process = connection, process
        for line, _ in list(self._pending.values()):
            self._send(line)

    async def _greet(self, process: asyncssh.SSHClientProcess[bytes]) -> dict[str, Any]:
        process.stdin.write(json.dumps(self._hello).encode() + b"\n")
        try:
            line = await process.stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            said = (await process.stderr.read()).decode("utf-8", "replace").strip().splitlines()
            if not said:
                raise Unreachable(f"{self._name}: the connection was closed before the agent answered") from None
            hint = "; `sudo -n` must work: see docs/security.md" if said[-1].startswith("sudo:") else ""
            raise InputError(f"{self._name}: {said[-1][:200]}{hint}") from None
        facts = _object(line)
        if facts is None:
            shell = plain(line.decode("utf-8", "replace").strip())[:80]
            raise InputError(f"{self._name}: its shell says {shell!r} instead of the agent's answer; {SILENT_SHELL}")
        if "error" in facts:
            raise InputError(f"{self._name}: {facts['error']}")
        return _checked(facts, self._name)

    async def _keep(self) -> None:
        """Read replies; connect again when the connection drops, and give up after `reconnect_s`."""
        try:
            while True:
                await self._read()
                if self._connection is not None:
                    self._connection.abort()
                self._connection = self._process = None
                await self._reconnect()
        except (XdplabError, Unreachable) as exc:
            self._give_up(exc if isinstance(exc, HostLost) else HostLost(f"{exc}; {_RESTORE}"))
        except Exception as exc:  # whatever it is: nobody may wait for ever
            self._give_up(HostLost(f"{self._name}: {type(exc).__name__}: {exc}; {_RESTORE}"))

    def _give_up(self, lost: HostLost) -> None:
        self._lost = lost
        for _, future in self._pending.values():
            if not future.done():
                future.set_exception(lost)

    async def _beat(self) -> None:
        """Be heard by the agent also while nothing is asked."""
        while True:
            await asyncio.sleep(self._spec.lease_s / _BEATS_PER_LEASE)
            self._send(_BEAT)

    async def _read(self) -> None:
        """Replies, until the connection ends."""
        assert self._process is not None
        rest = b""
        with contextlib.suppress(OSError, asyncssh.Error, asyncio.IncompleteReadError):
            while True:
                data = await self._process.stdout.read(65536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(line)

    def _take(self, line: bytes) -> None:
        reply = _object(line)
        if reply is None or type(reply.get("id")) is not int or not ("ok" in reply or {"error", "kind"} <= set(reply)):
            said = plain(line.decode("utf-8", "replace"))[:80]
            raise HostLost(f"{self._name}: {said!r} came instead of a reply of the agent; {_RESTORE}")
        _, future = self._pending.get(reply["id"], (b"", None))
        if future is None or future.done():
            return  # nobody waits any more, or it was sent twice
        if "error" not in reply:
            future.set_result(reply["ok"])
        elif reply["kind"] == "missing":
            future.set_exception(
                MissingProgram(f"{self._name}: program {reply['error']!r} not found there; install it on that host")
            )
        else:
            future.set_exception(AgentError(reply["error"], reply["kind"]))

    async def _reconnect(self) -> None:
        limit_s = self._spec.reconnect_s
        deadline = time.monotonic() + limit_s
        for delay in itertools.chain(_RETRY_S, itertools.repeat(_RETRY_S[-1])):
            try:
                await self._connect()
            except Unreachable as exc:
                if time.monotonic() + delay > deadline:
                    raise HostLost(f"{exc}: not reached again within {limit_s:g} s; {_RESTORE}") from None
                await asyncio.sleep(delay)
            else:
                self.reconnects += 1
                return

    def _send(self, line: bytes) -> None:
        """A line that gets lost on the way is sent again after the reconnect."""
        if self._process is not None:
            with contextlib.suppress(OSError, asyncssh.Error):
                self._process.stdin.write(line)


def _object(line: bytes) -> dict[str, Any] | None:
    """A line as a JSON object; None when it is something else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _checked(facts: Any, name: str) -> dict[str, Any]:
    """What a host says of itself, as far as it is of the right kind: some of it becomes part of a path."""
    kinds = {"agent": str, "pid": int, "uid": int, "boot_id": str, "netns": str, "python": str, "cpus": list}
    good = isinstance(facts, dict) and all(type(facts.get(key)) is kind for key, kind in kinds.items())
    if not good or not facts["cpus"] or not all(type(cpu) is int for cpu in facts["cpus"]):
        raise InputError(f"{name}: the agent's greeting cannot be understood")
    ended = facts.get("ended") or ()
    return {**{key: facts[key] for key in kinds}, "ended": [plain(str(each))[:40] for each in ended]}


class AgentError(XdplabError):
    """What an agent answered instead of a result; the host adds its name and what was asked."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind
