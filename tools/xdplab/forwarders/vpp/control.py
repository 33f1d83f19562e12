# SPDX-License-Identifier: Apache-2.0
"""Talking to a running VPP: its binary API and its statistics, through vpp-papi, behind one small class.

Facts about vpp-papi 2.4.2 that shape this module:

* With `bootstrapapi` the message definitions come from VPP itself, so no files of its version are needed.
* Its tables of types and messages are the module's and keep the first definition they met, so each connection has a
  copy of the package: the VPP may be another version, and others may be connected to at the same time.
* It also gives `ipaddress` a method `vapi_af` with the last copy's numbers, which nothing here uses.
* A message that this VPP has not, or has in another form (CRC), is simply absent.
* A reader of the statistics spins while VPP says that it is writing them: for ever when VPP died in that moment.
"""

import atexit
import enum
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from xdplab.forwarders.vpp.segment import papi_stats
from xdplab.hosts.waiting import comes_true
from xdplab.model import PointFailed, Unsupported, XdplabError

#: What VPP's vnet/error.h calls the answers that these forwarders can meet.
_MEANINGS = {
    -1: "unspecified error",
    -2: "invalid sw_if_index",
    -6: "no such entry",
    -7: "invalid value",
    -9: "unimplemented",
    **{-10 - number: f"system call error #{number}" for number in range(1, 11)},
    -30: "feature disabled by configuration",
    -71: "invalid interface",
    -73: "invalid argument",
    -81: "invalid interface name",
    -165: "there is more",
}
#: How long VPP may take to answer.
REPLY_TIMEOUT_S = 5.0
_BUFFERS, _POOL_COLUMNS = "show buffers", ["Total", "Avail", "Cached", "Used"]
_STATISTICS = ("rx", "tx", "drops", "rx-miss", "rx-error", "tx-error", "rx-no-buf", "punt")


class VppRefused(PointFailed):
    """VPP answered a request with an error code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(f"VPP answers {code} ({_MEANINGS.get(code, 'see vnet/error.h of VPP')}) to {message}")
        self.code = code


class VppAway(PointFailed):
    """Nobody listens on VPP's socket."""


def papi_client(address: str) -> Any:
    """A vpp-papi client of the API socket at `address`, not connected yet, with a copy of vpp-papi of its own.

    That package has one table of message types. A client takes what it finds there, whichever VPP it is of, also while
    another thread reads those of the VPP beside it.
    """
    papi = _copy_of_papi()
    made = papi.VPPApiClient(
        bootstrapapi=True, server_address=address, read_timeout=REPLY_TIMEOUT_S, async_thread=False
    )
    atexit.unregister(papi.vpp_papi.vpp_atexit)  # keeps the copy for ever; our VPP ends with the run
    return made


def _copy_of_papi() -> ModuleType:
    """In some 20 ms, 0.2 s the first time."""
    found = find_spec("vpp_papi")
    assert found is not None
    assert found.origin is not None
    name = f"{found.name}_{next(_COPIES)}"
    spec = spec_from_file_location(name, found.origin, submodule_search_locations=found.submodule_search_locations)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = made = module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    finally:
        for each in list(sys.modules):
            if each == name or each.startswith(f"{name}."):
                del sys.modules[each]
    return made


_COPIES = itertools.count(1)


class VppControl:
    """One connection to one VPP. Replies are plain dictionaries: enums as numbers, addresses as text."""

    def __init__(
        self,
        api: str,
        stats: str,
        client: Callable[[str], Any] = papi_client,
        reader: Callable[[str], Any] = papi_stats,
    ) -> None:
        """Connect.

        Args:
            api: path of the API socket.
            stats: path of the statistics socket, which hands over shared memory.
            client: makes the API client, `papi_client` or a test's.
            reader: makes the statistics reader.

        Raises:
            VppAway: nobody listens there, or not yet.
            PointFailed: there is no VPP that answers.
        """
        self._stats_address = stats
        self._make_reader = reader
        self._reader: Any = None
        with _as_point_failed("connect"):
            self._client = client(api)
            self._client.connect("xdplab")

    def call(self, message: str, **fields: Any) -> dict[str, Any]:
        """Send a request and wait for its reply.

        Raises:
            VppRefused: its retval is not 0.
            Unsupported: this VPP has no such message.
            PointFailed: no reply; VPP is gone or hangs.
        """
        found = self._request(message, fields)
        assert isinstance(found, dict)
        code = int(found.get("retval", 0))
        if code:
            raise VppRefused(message, code)
        return found

    def dump(self, message: str, **fields: Any) -> list[dict[str, Any]]:
        """The same for requests that are answered by a list."""
        found = self._request(message, fields)
        assert isinstance(found, list)
        return found

    def cli(self, command: str) -> str:
        """What VPP prints for a CLI command."""
        return str(self.call("cli_inband", cmd=command)["reply"])

    def has(self, message: str) -> bool:
        """Whether this VPP knows a request."""
        return hasattr(self._client.api, message)

    def members(self, type_name: str) -> dict[str, int]:
        """Members of an enum as this VPP defines it; {} when it has no such type."""
        found = self._client.get_type(type_name)
        return {} if found is None else {name: int(member) for name, member in found.enum.__members__.items()}

    def interface_statistics(self, index: int) -> dict[str, int]:
        """Counters of an interface over all threads: packets of `rx` and `tx`, and every other one that is not 0.

        Raises:
            PointFailed: the statistics cannot be read.
        """
        with _as_point_failed("read the statistics"):
            reader = self._settled_reader()
            found = {}
            for name in _STATISTICS:
                column = reader[f"/if/{name}"][:, index]
                value = column.sum_packets() if hasattr(column, "sum_packets") else column.sum()
                if value or name in ("rx", "tx"):
                    found[name] = int(value)
            return found

    def list_matches(self, number: int, rule: int) -> int:
        """Packets that met a rule of an access list, over all threads."""
        with _as_point_failed("read the statistics"):
            return int(self._settled_reader()[f"/acl/{number}/matches"][:, rule].sum_packets())

    def errors(self) -> dict[str, int]:
        """Error counters that are not 0: `/err/NODE/ERROR` without its first part."""
        with _as_point_failed("read the statistics"):
            found = self._settled_reader().set_errors()
            return {name.removeprefix("/err/"): int(value) for name, value in found.items()}

    def free_buffers(self) -> int:
        """Of all pools: those that are in no ring and hold no frame (`format_vlib_buffer_pool` of vlib/buffer.c).

        Raises:
            PointFailed: what VPP prints is not understood.
        """
        text = self.cli(_BUFFERS)
        head, *pools = [line for line in text.splitlines() if line.strip()] or [""]
        if head.split()[-4:] != _POOL_COLUMNS or not pools:
            raise PointFailed(f"VPP: {_BUFFERS}: not understood: {text.strip()!r}")
        return sum(int(avail) + int(cached) for *_, avail, cached, _used in (line.split() for line in pools))

    def close(self) -> None:
        """Leave; a VPP that is gone is no error."""
        if self._reader is not None:
            self._reader.disconnect()
        try:
            self._client.disconnect()
        except OSError:
            return

    def _request(self, message: str, fields: dict[str, Any]) -> dict[str, Any] | list[dict[str, Any]]:
        with _as_point_failed(message):
            if not self.has(message):
                raise Unsupported(f"this VPP has no API message {message} (its plugin is missing, or its form differs)")
            answer = getattr(self._client.api, message)(**fields)
            if isinstance(answer, list):
                return [plain(item) for item in answer]
            found = plain(answer)
            assert isinstance(found, dict)
            return found

    def _settled_reader(self) -> Any:
        """The statistics reader, once VPP is not in the middle of changing the segment's directory."""
        if self._reader is None:
            self._reader = self._make_reader(self._stats_address)
            self._reader.connect()
        if not comes_true(lambda: not self._reader.in_progress, 1.0):
            raise OSError("VPP has been writing for 1 s")
        return self._reader


def plain(value: Any) -> Any:
    """A value of vpp-papi as JSON would have it: message -> dictionary, enum -> number, address -> text."""
    if hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items() if name not in ("_0", "context")}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return int(value.value)
    return value if isinstance(value, bool | int | float | str | type(None)) else str(value)


@contextmanager
def _as_point_failed(what: str) -> Iterator[None]:
    """Whatever vpp-papi raises, as the end of the point."""
    try:
        yield
    except XdplabError:
        raise
    except Exception as exc:  # vpp-papi has seven kinds of its own, derived from four built-in ones
        text = " ".join(str(part) for part in exc.args) or type(exc).__name__
        kind = VppAway if isinstance(exc, ConnectionRefusedError | FileNotFoundError) else PointFailed
        raise kind(f"VPP does not answer ({what}): {text}") from None
