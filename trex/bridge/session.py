# SPDX-License-Identifier: Apache-2.0
"""What the bridge does with a client: look at the server before any traffic, and run trials."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from client import BridgeError

#: Oldest server whose histograms and counters are read here.
OLDEST = (3, 0)
#: Time that a paced stream may be late, as a share of its duration and in s; frames later than that are not sent.
_LATE_SHARE, _LATE_MIN_S = 0.02, 0.02
_SETTLE_S = 0.02
#: How long the server's counters may be behind, which another thread of it adds up, and how often they are read then.
_BEHIND_S, _AGAIN_S = 3.0, 0.05


class Session:
    """A connection, its ports, and the next free stream number."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._ports: list[int] = []
        self._next_id = 1
        self._connected = False

    def connect(self, request: dict[str, Any]) -> dict[str, Any]:
        """Connect, check version and mode, take the ports, and see that the server keeps histograms."""
        answer = self._client.connect(request["server"], request["sync_port"], request["async_port"], request["user"])
        self._connected = True
        _check_version(answer)
        ports = request["ports"]
        known = {port["index"]: port for port in answer["ports"]}
        missing = [port for port in ports if port not in known]
        if missing:
            raise BridgeError("client", f"the server has no port {missing[0]}; it has {sorted(known)}")
        self._client.acquire(ports)
        self._ports = ports
        probe = {"kind": "latency", "port": ports[0], "frame": request["frame"], "pps": 1000.0, "count": 1}
        probe |= {"delay_us": 0.0, "flows": 1, "flow_offset": 0}
        (found,) = self._phase([probe], 0.1, _SETTLE_S)["streams"]
        if found.get("hdrh") is None:
            raise BridgeError(
                "histogram",
                "the server keeps no latency histograms; start it with --hdrh (TRex's average is a filter, not a mean)",
            )
        return {"version": answer["version"], "drivers": [known[port]["driver"] for port in ports]}

    def ports(self, request: dict[str, Any]) -> dict[str, Any]:
        """The server's ports, with their MAC addresses; none is taken."""
        answer = self._client.connect(request["server"], request["sync_port"], request["async_port"], request["user"])
        self._connected = True
        _check_version(answer)
        return {"ports": answer["ports"]}

    def trial(self, request: dict[str, Any], stopping: Callable[[], bool]) -> dict[str, Any]:
        """Warm up, send, let it drain, and count."""
        streams, warmup_s = request["streams"], request["warmup_s"]
        if warmup_s:
            warm = [each for each in streams if each["delay_us"] < warmup_s * 1e6]
            warm = [each | {"count": _warm_count(each, warmup_s)} for each in warm]
            self._phase(warm, warmup_s, _SETTLE_S, stopping)
        return self._phase(streams, request["duration_s"], request["drain_s"], stopping)

    def close(self) -> None:
        """Disconnect, which gives the ports back; a server that is gone has nothing to give back."""
        if self._connected:
            self._connected = False
            self._client.close()

    def _phase(
        self,
        streams: list[dict[str, Any]],
        duration_s: float,
        drain_s: float,
        stopping: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """Traffic from start to counters. Stream numbers are never used twice, so that counters start from zero."""
        numbered = [each | {"pg_id": self._next_id + number} for number, each in enumerate(streams)]
        self._next_id += len(numbered)
        senders = sorted({each["port"] for each in numbered})
        endless = any(not each["count"] for each in numbered)
        longest = duration_s if endless else duration_s + max(_LATE_MIN_S, _LATE_SHARE * duration_s)
        try:
            for port in senders:
                self._client.add(port, [each for each in numbered if each["port"] == port])
            before = self._client.counters(self._ports)
            self._client.start(senders, longest)
            took_s = self._client.wait(senders, longest, stopping)
            self._client.drain(senders, drain_s)
            after = self._client.counters(self._ports)
            counted = self._counted(numbered)
        except BridgeError:
            with contextlib.suppress(BridgeError):  # the first error is the cause
                self._client.remove(senders)
            raise
        self._client.remove(senders)
        return {
            "streams": [counted["streams"][str(each["pg_id"])] for each in numbered],
            "ports": {
                port: {name: value - before[port].get(name, 0) for name, value in after[port].items()} for port in after
            },
            "strays": counted["strays"],
            "took_s": took_s,
        }

    def _counted(self, numbered: list[dict[str, Any]]) -> dict[str, Any]:
        """Counters of streams that agree: none received more than it sent, and where one sent too few, read twice."""
        deadline, before = time.monotonic() + _BEHIND_S, None
        while True:
            counted: dict[str, Any] = self._client.stream_counters([each["pg_id"] for each in numbered])
            found = [(each["count"], counted["streams"][str(each["pg_id"])]) for each in numbered]
            wrong = any(one["sent"] < one["received"] for _, one in found)
            short = any(one["sent"] < count for count, one in found)
            if (not wrong and (not short or counted == before)) or time.monotonic() > deadline:
                return counted
            before = counted
            time.sleep(_AGAIN_S)


def _check_version(answer: dict[str, Any]) -> None:
    if answer.get("mode") not in (None, "STL"):
        raise BridgeError("version", f"the server runs in mode {answer['mode']}; start it with -i --stl")
    numbers = str(answer["version"]).lstrip("v").split(".")
    try:
        version = tuple(int(number) for number in numbers[:2])
    except ValueError:
        raise BridgeError("version", f"the server's version {answer['version']!r} cannot be read") from None
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise BridgeError("version", f"the server is {answer['version']}; v{oldest} or later is needed")


def _warm_count(stream: dict[str, Any], warmup_s: float) -> int:
    if not stream["count"]:
        return 0
    frames: float = stream["pps"] * (warmup_s - stream["delay_us"] / 1e6)
    return max(1, round(frames))
