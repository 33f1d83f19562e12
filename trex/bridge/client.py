# SPDX-License-Identifier: Apache-2.0
"""Everything that is asked of TRex's own client library, which `replay.py` can stand in for."""

import time
from collections.abc import Callable
from typing import Any

#: Seconds that the server may take to answer a command; its low-end mode answers from the core that also sends.
ANSWER_TIMEOUT_S = 10
# a server that takes turns with others is asleep meanwhile
SILENCE_S = 600
#: How much later than its schedule TRex may have sent it all.
_LATE_S = 30.0
_POLL_S = 0.01
#: Counters of DPDK's extended statistics that tell the tester's own losses from those of the forwarder.
_PORT_COUNTERS = ("tx_good_packets", "rx_good_packets", "tx_errors", "rx_missed_errors", "rx_errors")


class BridgeError(Exception):
    """What went wrong, and of which kind: see `bridge.py`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Client:
    """One connection to a TRex server in stateless mode. It is made once `trex.stl.api` can be imported."""

    def __init__(self) -> None:
        from streams import make_stream
        from trex.stl.api import STLClient, TRexError

        self._make_stream, self._client_class, self._error = make_stream, STLClient, TRexError
        self._client: Any = None  # TRex has no type information

    def connect(self, server: str, sync_port: int, async_port: int, user: str) -> dict[str, Any]:
        """Version, mode and ports of the server."""
        client = self._client_class(
            username=user,
            server=server,
            sync_port=sync_port,
            async_port=async_port,
            verbose_level="none",
            sync_timeout=ANSWER_TIMEOUT_S,
            async_timeout=SILENCE_S,
        )
        try:
            client.connect()
        except self._error as exc:
            kind = "version" if "mismatch" in str(exc) else "server"
            raise BridgeError(kind, f"server {server}:{sync_port}: {_line(exc)}") from None
        self._client = client
        answer = client.get_server_version()
        ports = [
            {key: info.get(key) for key in ("index", "driver", "is_virtual", "src_mac")}
            for info in client.get_port_info()
        ]
        return {"version": answer["version"], "mode": answer.get("mode"), "ports": ports}

    def acquire(self, ports: list[int]) -> None:
        """Take the ports, unless somebody has them; what an earlier session of ours left on them is removed."""
        try:
            self._client.acquire(ports, force=False, sync_streams=False)
        except self._error as exc:
            owners = {port: self._client.get_port(port).get_owner() for port in ports}
            taken = [f"{port} by {owner!r}" for port, owner in owners.items() if owner]
            raise BridgeError("owned", f"ports in use: {', '.join(taken) or _line(exc)}") from None
        self._call(self._client.stop, ports)
        self._call(self._client.remove_all_streams, ports)
        self._call(self._client.set_port_attr, ports, promiscuous=True)

    def add(self, port: int, streams: list[dict[str, Any]]) -> None:
        """Add streams to a port."""
        self._call(self._client.add_streams, [self._make_stream(each) for each in streams], ports=[port])

    def start(self, ports: list[int], duration_s: float) -> None:
        """Start all streams of the ports, for `duration_s` at the most."""
        self._call(self._client.start, ports=ports, duration=duration_s, force=True)

    def wait(self, ports: list[int], longest_s: float, stopping: Callable[[], bool]) -> float:
        """Wait until the ports have sent all, which takes `longest_s` unless TRex cannot keep up.

        `stopping()` true ends it early. Answers how long it took, in s.
        """
        began = time.monotonic()
        while self._call(self._client.is_traffic_active, ports=ports):
            waited = time.monotonic() - began
            overdue = waited > longest_s + _LATE_S
            if stopping() or overdue:
                self._call(self._client.stop, ports=ports)
                if overdue:
                    raise BridgeError("server", f"the ports still sent after {waited:.1f} s")
                raise BridgeError("stopped", "the trial was stopped")
            if not self._client.is_connected():
                raise BridgeError("server", f"the server is gone: {self._cause()}")
            time.sleep(_POLL_S)
        return round(time.monotonic() - began, 3)

    def drain(self, ports: list[int], drain_s: float) -> None:
        """Let frames on their way arrive before the receive filters are removed: always as long as `drain_s`."""
        self._call(
            self._client.wait_on_traffic, ports=ports, timeout=ANSWER_TIMEOUT_S, rx_delay_ms=round(drain_s * 1e3)
        )

    def counters(self, ports: list[int]) -> dict[str, dict[str, int]]:
        """What the ports' driver has counted so far."""
        found = {}
        for port in ports:
            values = self._call(self._client.get_xstats, port)
            found[str(port)] = {name: values[name] for name in _PORT_COUNTERS if name in values}
        return found

    def stream_counters(self, pg_ids: list[int]) -> dict[str, Any]:
        """What was sent and received of each stream, with errors and histogram of latency streams."""
        answer = self._call(self._client.get_pgid_stats, pg_ids)
        found = {}
        for pg_id in pg_ids:
            flow = answer["flow_stats"].get(pg_id)
            if flow is None:
                raise BridgeError("client", f"the server has no counters of stream {pg_id}")
            stream: dict[str, Any] = {"sent": int(flow["tx_pkts"]["total"]), "received": int(flow["rx_pkts"]["total"])}
            latency = answer.get("latency", {}).get(pg_id)
            if latency is not None:
                stream["errors"] = latency["err_cntrs"]
                stream["average_us"] = _number(latency["latency"].get("average"))
                stream["hdrh"] = latency["latency"].get("hdrh")
            found[str(pg_id)] = stream
        strays = answer.get("latency", {}).get("global", {})
        return {"streams": found, "strays": {name: int(value) for name, value in strays.items()}}

    def remove(self, ports: list[int]) -> None:
        """Remove the streams of a trial."""
        self._call(self._client.remove_all_streams, ports)

    def close(self) -> None:
        """Give the ports back."""
        client, self._client = self._client, None
        if client is not None and client.is_connected():
            client.disconnect()

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except self._error as exc:
            gone = not self._client.is_connected() or "RPC" in str(exc)
            text = f"the server is gone: {_line(exc)}" if gone else _line(exc)
            raise BridgeError("server" if gone else "client", text) from None

    def _cause(self) -> str:
        return _line(self._client.conn.get_disconnection_cause() or "no data from it any more")


def _line(error: object) -> str:
    return " ".join(str(error).replace("*** ", "").split())


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
