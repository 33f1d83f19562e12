# SPDX-License-Identifier: Apache-2.0
"""The controller's side of a link to an agent: lines that are none of its, and being heard while nothing is asked."""

import asyncio
import contextlib
import json
import os
import signal
from typing import Any

import pytest

from xdplab.hosts import ssh, ssh_link
from xdplab.hosts.agent.machine import OPERATIONS, Machine
from xdplab.hosts.ssh_link import AgentLink
from xdplab.model import HostSpec, InputError, LinkLost

FACTS = {"pid": 1, "uid": 0, "boot_id": "b", "netns": "n", "python": "p", "cpus": [0], "ended": []}
FACTS |= {"machine_id": "", "machine": "x86_64", "glibc": "2.36", "left": {}, "ssh": ""}
HELLO = json.dumps(FACTS).encode() + b"\n"


class Login:
    """What `create_process` gives: a host that says what it is told to say."""

    def __init__(self, *said: bytes) -> None:
        self.stdout, self.stderr = asyncio.StreamReader(), asyncio.StreamReader()
        self.stdin = self
        self.heard: list[bytes] = []
        for data in said:
            self.stdout.feed_data(data)

    def write(self, data: bytes) -> None:
        self.heard.append(data)

    def write_eof(self) -> None:
        self.stdout.feed_eof()

    async def wait_closed(self) -> None:
        pass

    def abort(self) -> None:
        self.stdout.feed_eof()

    def get_server_host_key(self) -> None:
        """It is not looked at."""

    async def create_process(self, command: str, encoding: None) -> "Login":
        return self


def link(login: Login, monkeypatch: pytest.MonkeyPatch, **spec: Any) -> AgentLink:
    """A link that finds this login behind its connection."""

    async def connect(*_: Any) -> Login:
        return login

    async def deploy(*_: Any) -> str:
        return "agent.pyz"

    monkeypatch.setattr(ssh_link, "connect", connect)
    monkeypatch.setattr(ssh_link, "deploy", deploy)
    return AgentLink("dut", HostSpec(address="192.0.2.1", **spec), "c/t")


@pytest.mark.parametrize(
    "said", [b"Welcome to the lab!\n", b"\xff\xfe\n", b"[1]\n", pytest.param(b"[" * 9000 + b"\n", id="nested"), b"\n"]
)
def test_a_shell_that_talks_before_the_agent_is_reported(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        with pytest.raises(
            InputError, match=r"dut: its login shell prints .* before the agent answers; what ~/\.bashrc"
        ):
            await link(Login(said, HELLO), monkeypatch).open()

    asyncio.run(asyncio.wait_for(scenario(), 5))


@pytest.mark.parametrize(
    "said",
    [b"Broadcast message\n", b'{"ok": 1}\n', b'{"id": [], "ok": 1}\n', b'{"id": 1}\n', b'{"id": 1, "error": "x"}\n'],
)
def test_a_line_that_is_no_reply_ends_the_waiting(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        login = Login(HELLO)
        made = link(login, monkeypatch)
        await made.open()
        asked = asyncio.create_task(made.request("exists", ["/"], {}))
        await asyncio.sleep(0)
        login.stdout.feed_data(said)
        for wait in (asked, made.request("exists", ["/"], {})):
            with pytest.raises(LinkLost, match="came instead of an answer of the agent"):
                await wait
        await made.close()

    asyncio.run(asyncio.wait_for(scenario(), 5))


def test_a_lost_connection_ends_what_was_asked_and_all_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked twice: nobody knows whether it was carried out."""

    async def scenario() -> None:
        login = Login(HELLO)
        made = link(login, monkeypatch)
        await made.open()
        asked = asyncio.create_task(made.request("write", ["/x", "1"], {}))
        await asyncio.sleep(0)
        login.abort()
        for wait in (asked, made.request("exists", ["/"], {}), made.put("x", b"")):
            with pytest.raises(LinkLost, match=r"^lost the connection to host dut$"):
                await wait
        assert not made.is_open
        assert len([line for line in login.heard if b"write" in line]) == 1
        await made.close()

    asyncio.run(asyncio.wait_for(scenario(), 5))


def test_an_agent_that_is_asked_nothing_hears_of_us_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[bytes]:
        login = Login(HELLO)
        made = link(login, monkeypatch, lease_s=2)
        await made.open()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1.2)
        await made.close()
        return login.heard[1:]

    heard = asyncio.run(scenario())
    assert heard == [b'{"op": "beat"}\n'] * 2


def test_a_host_that_does_not_answer_is_given_up_after_what_it_was_asked_to_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ssh_link, "ANSWER_S", 0.1)

    async def scenario() -> None:
        made = link(Login(HELLO), monkeypatch)
        await made.open()
        began = asyncio.get_running_loop().time()
        with pytest.raises(
            LinkLost, match=r"^dut: no answer to wait_process after 0\.4 s; the connection is given up$"
        ):
            await made.request("wait_process", [7, 0.3], {}, 0.3)
        assert asyncio.get_running_loop().time() - began >= 0.4
        assert not made.is_open
        await made.close()

    asyncio.run(asyncio.wait_for(scenario(), 5))


def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_link, "ANSWER_BYTES", 100_000)

    async def scenario() -> None:
        login = Login(HELLO)
        made = link(login, monkeypatch)
        await made.open()
        for _ in range(2):  # one that is just short of it
            asked = asyncio.create_task(made.request("read", ["/x"], {}))
            await asyncio.sleep(0)
            number = json.loads(login.heard[-1])["id"]
            login.stdout.feed_data(json.dumps({"id": number, "ok": "x" * 99_000}).encode() + b"\n")
            assert len(await asked) == 99_000
        asked = asyncio.create_task(made.request("read", ["/x"], {}))
        await asyncio.sleep(0)
        login.stdout.feed_data(b'{"id": 3, "ok": "')
        while made.is_open:
            login.stdout.feed_data(b"x" * 10_000)
            await asyncio.sleep(0.001)
        with pytest.raises(LinkLost, match="dut: an answer of more than"):
            await asked
        await made.close()

    asyncio.run(asyncio.wait_for(scenario(), 5))


@pytest.mark.parametrize(
    ("call", "waits_s"),
    [
        ((Machine.exists, ("/x",), {}), 0.0),
        ((Machine.wait_process, (7, 2.5), {}), 2.5),
        ((Machine.execute, (["ls"], 30.0, "", None, "key"), {}), 30.0),
        ((Machine.ask_rpc, ("/x", "list", []), {"timeout_s": 4}), 4.0),
    ],
    ids=lambda value: value[0].__name__ if isinstance(value, tuple) else "",
)
def test_what_an_operation_waits_for_is_its_own_time_out(call: tuple[Any, Any, Any], waits_s: float) -> None:
    assert ssh._waits_s(OPERATIONS[call[0].__name__], *call[1:]) == waits_s


def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    async def answer() -> int:
        return 7

    assert ssh._await(answer()) == 7
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        os._exit(ssh._await(answer()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
