# SPDX-License-Identifier: Apache-2.0
"""A host behind SSH. The connections of all hosts live on one event loop in a thread of its own."""

import contextlib
import hashlib
import inspect
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from xdplab.hosts.base import Host, in_use
from xdplab.hosts.signals import deferred
from xdplab.model import HostLost, HostSpec, InputError, LinkLost, XdplabError
from xdplab.model.plugins import need
from xdplab.tools import provision_command, setup_command

if TYPE_CHECKING:
    import asyncio

    from xdplab.hosts.ssh_link import AgentLink, Facts

_T = TypeVar("_T")
_RETRY_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_RESTORE = "`xdplab restore` puts back what is still changed there"
_loop: "asyncio.AbstractEventLoop | None" = None
_loop_lock = threading.Lock()


def _event_loop() -> "asyncio.AbstractEventLoop":
    import asyncio  # 30 ms, which commands without SSH need not take

    global _loop
    with _loop_lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="xdplab-ssh", daemon=True).start()
        return _loop


def _forget_loop() -> None:
    """Of a process that was forked: the thread of its parent's is not there, and would be waited for without end."""
    global _loop, _loop_lock
    _loop, _loop_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_loop)


def _await(work: Coroutine[Any, Any, _T]) -> _T:
    """Its result; a signal that ends our waiting ends the work too."""
    import asyncio

    if sys.is_finalizing():  # the loop's thread has ended, and nothing would ever be answered
        work.close()
        raise LinkLost("the connections to hosts are closed: xdplab is ending")
    future = asyncio.run_coroutine_threadsafe(work, _event_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


@cache
def _answer_of(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """What a host may answer to an operation."""
    return TypeAdapter(get_type_hints(function)["return"])


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _waits_s(function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]) -> float:
    """How long an operation is asked to wait for something, by its `timeout_s`."""
    return float(_signature(function).bind(None, *args, **given).arguments.get("timeout_s", 0.0))


class SshHost(Host):
    """A machine reached over SSH: its agent carries out the operations (`hosts.agent.serve`)."""

    def __init__(self, name: str, spec: HostSpec, controller: str) -> None:
        need("ssh", f"host {name}")
        from xdplab.hosts.ssh_link import AgentLink  # its library takes 0.2 s to import, 4 s on an emulated machine

        super().__init__(name)
        self._spec = spec
        self._new_link = partial(AgentLink, name, spec, controller)
        self._link = self._new_link()
        self._programs: dict[bytes, str] = {}
        self._gone: HostLost | None = None
        #: How often the connection was lost and made again.
        self.reconnects = 0

    @property
    def missing_hint(self) -> str:
        """The administrator of the host installs it."""
        return " there; install it on that host"

    @property
    def reached_by(self) -> str:
        return self.facts["ssh"]

    @property
    def identity(self) -> dict[str, str]:
        """Host key, and machine-id(5) where it has one."""
        return {"host key": self._link.host_key, "machine-id": self.facts["machine_id"]}

    @property
    def runs_on(self) -> tuple[str, str]:
        return self.facts["machine"], self.facts["glibc"]

    @property
    def session(self) -> int:
        return self.reconnects

    @property
    def facts(self) -> "Facts":
        """What the agent says of its host; `ended`: what an earlier session left running."""
        return self._link.facts

    def open(self) -> None:
        """Connect, unless it is connected.

        Raises:
            InputError: it cannot be reached or used as the testbed file says.
        """
        from xdplab.hosts.ssh_link import Unreachable

        if not self._link.is_open:
            try:
                _await(self._link.open())
            except Unreachable as exc:
                raise InputError(str(exc)) from None

    def reconnect(self) -> bool:
        """Connect again if the connection was lost, within `reconnect_s`; whether it was.

        Raises:
            HostLost: it is not reached, or has booted meanwhile.
        """
        if self._gone is not None:
            raise self._gone
        if not self._link.lost:
            return False
        try:
            link = self._connected_again()
        except HostLost as exc:
            self._gone = exc
            raise
        self._link = link
        self._programs.clear()
        self.reconnects += 1
        return True

    def _connected_again(self) -> "AgentLink":
        from xdplab.hosts.ssh_link import Unreachable

        limit_s, link = self._spec.reconnect_s, self._new_link()
        deadline = time.monotonic() + limit_s
        for delay_s in itertools.chain(_RETRY_S, itertools.repeat(_RETRY_S[-1])):
            try:
                _await(link.open())
                break
            except Unreachable as exc:
                if time.monotonic() + delay_s > deadline:
                    raise HostLost(f"{exc}: not reached again within {limit_s:g} s; {_RESTORE}") from None
                time.sleep(delay_s)
            except InputError as exc:
                raise HostLost(f"{exc}; {_RESTORE}") from None
        if link.facts["boot_id"] != self.facts["boot_id"]:
            _await(link.close())
            raise HostLost(f"{self.name}: the host rebooted while the connection was lost; {_RESTORE}")
        return link

    def close(self) -> None:
        """End what runs there, the agent too, and hang up. Safe to call twice, and when the host is lost."""
        if self._link.is_open:
            with contextlib.suppress(XdplabError):
                self.remove_folder(self.folder)
        _await(self._link.close())

    @property
    def folder(self) -> Path:
        """Where a run may keep files on this host."""
        return Path(self._spec.folder) / "run"

    @property
    def python(self) -> str:
        return self.facts["python"]

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs that a login session may run on."""
        return tuple(self.facts["cpus"])

    def hold_cpus(self, cpus: Sequence[int]) -> None:
        """Have these CPUs for this testbed alone, until `close`.

        Raises:
            InputError: somebody else measures on one of them.
        """
        self._refuse(self.take_cpus(cpus), "CPU ", "cpus")

    def hold_ports(self, ifnames: Sequence[str]) -> None:
        """Have these interfaces for this testbed alone, until `close`; whatever its folder, and whose it is.

        Raises:
            InputError: somebody else measures with one of them.
        """
        self._refuse(self.take_ports(ifnames), "", "ports")

    def _refuse(self, taken: tuple[int | str, int] | None, kind: str, key: str) -> None:
        if taken is not None:
            raise InputError(in_use(f"{self.name}: {kind}{taken[0]}", key, taken[1]))

    def call(self, function: Callable[..., Any], *args: Any, **given: Any) -> Any:
        """Have the agent carry an operation out.

        Raises:
            LinkLost: the connection is lost; nobody knows whether it was carried out.
            XdplabError: what the agent answers with.
        """
        from xdplab.hosts.ssh_link import AgentError

        name = function.__name__
        try:
            answer = _await(self._link.request(name, args, given, _waits_s(function, args, given)))
        except AgentError as exc:
            raise self.error(*exc.args) from None
        except XdplabError:
            raise
        except BaseException:
            if name == "execute":  # interrupted: the command must not go on while everything is put back
                with deferred(), contextlib.suppress(XdplabError, AgentError):
                    self.cancel(args[-1])
            raise
        try:
            return _answer_of(function).validate_python(answer)
        except ValidationError:
            raise XdplabError(f"{self.name}: the agent's answer to {name} cannot be understood") from None

    def program(self, path: Path) -> str:
        """Where a program or script of ours is on this host: copied there, and its hash checked, if need be."""
        data = path.read_bytes()
        if data not in self._programs:
            there = _await(self._link.put(path.name, data))
            if self.sha256(there) != hashlib.sha256(data).hexdigest():
                raise XdplabError(f"{self.name}: {there} differs from what was uploaded")
            self._programs[data] = there
        return self._programs[data]


def how_to_install(host: Host) -> str:
    """The command that brings packages of the distribution to a host: to this machine, or to one of a testbed."""
    return provision_command(options="--tags packages") if isinstance(host, SshHost) else setup_command()
