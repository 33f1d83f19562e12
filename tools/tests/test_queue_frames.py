# SPDX-License-Identifier: Apache-2.0
"""Which queues had frames, where none came through: by the names that drivers give their counters."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab.records import result, stream

from xdplab.hosts.base import Completed
from xdplab.hosts.frames import by_queue, driver_counters, moved
from xdplab.model import Interrupted, Path as Way, Pipeline, PointFailed
from xdplab.runner.proof import prove_path
from xdplab.testbed import Port, TesterPorts


class Host:
    """`ethtool -S` prints `counters`; frames that are sent are counted in the links' own."""

    name = "B"

    def __init__(self, **counters: int) -> None:
        self.counters: dict[str, int] = dict(counters)
        self.received = self.sent = 0
        self.served: list[int] | None = None

    def run(self, argv: Any, *, check: bool = True) -> Completed:
        """Of an interface whose driver has counters of its own, or none."""
        text = "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in self.counters.items())
        return Completed(tuple(argv), 0, text, "") if self.counters else Completed(tuple(argv), 94, "", "no stats")

    def read(self, path: str) -> str:
        """Of the kernel's own stack: nothing."""
        return ""

    def xdp(self, ifname: str) -> None:
        """No program."""

    def xsk_queues(self, ifname: str) -> list[int] | None:
        return self.served

    def links(self) -> Any:
        return {"p0": SimpleNamespace(counters={"rx": {"packets": self.received}, "tx": {"packets": self.sent}})}


#: Driver -> a counter of frames at queue 3 received and one at queue 12 sent, as its source has them, and others.
NAMES = {
    "igb, ixgbe, ice, igc, virtio_net": ("rx_queue_3_packets", "tx_queue_12_packets", "rx_queue_3_bytes"),
    "veth": ("rx_queue_3_xdp_packets", "tx_queue_12_xdp_xmit", "rx_queue_3_xdp_bytes"),
    "i40e, iavf": ("rx-3.packets", "tx-12.packets", "rx-3.bytes"),
    "mlx5_core, virtio_net of newer kernels": ("rx3_packets", "tx12_packets", "rx3_bytes"),
    "mlx5_core, XDP": ("rx3_xdp_redirect", "tx12_xdp_xmit", "rx3_cache_full"),
    "mlx5_core, AF_XDP": ("rx3_xsk_packets", "tx12_xsk_xmit", "rx3_xsk_wqe_err"),
    "ena": ("queue_3_rx_cnt", "queue_12_tx_cnt", "queue_3_rx_bytes"),
    "bnxt_en": ("[3]: rx_ucast_packets", "[12]: tx_ucast_packets", "[3]: rx_ucast_bytes"),
}
#: Of the port, or by length or priority of frames.
NO_QUEUES = (
    "rx_packets",
    "port.rx_bytes",
    "rx_64_byte_packets",
    "tx_1024_to_1518_pkts",
    "rx_prio3_packets",
    "rx_size_64",
)


@pytest.mark.parametrize("driver", NAMES)
def test_frames_of_a_queue_are_found_under_each_drivers_names(driver: str) -> None:
    came, went, other = NAMES[driver]
    host: Any = Host(**{came: 20, went: 7, other: 1280}, **dict.fromkeys(NO_QUEUES, 99))
    assert by_queue(driver_counters(host, "p0")) == {"rx": {3: 20}, "tx": {12: 7}}


def test_what_moved_is_what_grew() -> None:
    assert moved({"rx": {0: 5, 1: 2}}, {"rx": {0: 5, 1: 9, 2: 1}, "tx": {0: 0}}) == {"rx": {1: 7, 2: 1}, "tx": {}}


@pytest.fixture
def b0(monkeypatch: pytest.MonkeyPatch) -> Host:
    """The machine in the middle, of which nothing is watched; four frames have come to queue 0 before."""
    monkeypatch.setattr("xdplab.hosts.frames.why_not_built", lambda *_: "not built")
    return Host(rx_queue_0_packets=4, rx_queue_3_packets=1, tx_queue_0_packets=0, rx_queue_0_drops=0)


def proven(b0: Host, send: Any, a0: Host, **forwarder: Any) -> str:
    with pytest.raises(PointFailed) as failed:
        prove(b0, send, a0, **forwarder)
    return str(failed.value)


def prove(b0: Host, send: Any, a0: Host, *, reflects: bool = False, **given: Any) -> None:
    hosts: dict[str, Any] = {"a0": a0, "b0": b0}
    first, port = (Port(role, host, "p0", f"02:00:00:00:00:0{role[1]}", 1500) for role, host in hosts.items())
    last = Port("c0", a0, "TRex port 0", "", 1500, trex=0)  # type: ignore[arg-type]
    own = {"name": "mine", "one_way": False, "silent_s": 0.0, "crashed": lambda: None, "pids": lambda: (), **given}
    forwarder: Any = SimpleNamespace(**own)
    at: Any = SimpleNamespace(
        path=Way.REFLECT if reflects else Way.THROUGH,
        pipeline=Pipeline(),
        traffic=SimpleNamespace(smallest=64, headers={}),
    )
    dut: Any = SimpleNamespace(host=b0, ports=(port,), rundir=Path("/nowhere"), queues=2)
    ends = TesterPorts(first, first, last) if reflects else TesterPorts(first, last)
    prove_path(at, forwarder, send, dut=dut, tester=ends, lasting=False)


@pytest.mark.parametrize("waited_s", [0.5, 60.0])
def test_frames_that_come_late_prove_the_path(waited_s: float, b0: Host) -> None:
    """Those that hops are asked about all come through; then a proof with their time is tried once more."""
    a0 = Host()

    def send(spec: Any) -> Any:
        asked_about = any(stream.count for stream in spec.streams)
        came = asked_about or spec.drain_s >= waited_s
        counts = {"sent": 200, "received": 200 * came, "lost": 200 * (not came)}
        return result(*(stream([], **counts, direction=each.direction) for each in spec.streams))

    if waited_s < 1:
        prove(b0, send, a0)
    else:
        assert proven(b0, send, a0) == "mine: no frame came through forward or backward within 0 s"


def test_an_interruption_is_no_reason(b0: Host) -> None:
    """Ctrl-C while the hops' counters are read ends the run; an error of that would be part of the reason."""

    def send(spec: Any) -> Any:
        if any(stream.count for stream in spec.streams):
            raise Interrupted("ended by SIGINT")
        return result(*(stream([], sent=200, received=0, lost=200, direction=each.direction) for each in spec.streams))

    with pytest.raises(Interrupted):
        prove(b0, send, Host())


def test_frames_that_come_to_a_queue_without_a_socket_are_found_there(b0: Host) -> None:
    a0 = Host()
    trials = []

    def send(spec: Any) -> Any:
        trials.append(spec)
        ways = [stream.direction for stream in spec.streams]
        if "forward" in ways:
            a0.sent += 200
            b0.received += 200
            b0.counters["rx_queue_3_packets"] += 200
        lost = {"forward": 200, "backward": 0}
        return result(*(stream([], sent=200, received=200 - lost[way], lost=lost[way], direction=way) for way in ways))

    b0.served = [0, 1]
    said = proven(b0, send, a0)
    assert said == (
        "mine: no frame came through forward within 0 s; of 200 frames A→C, 200 arrived at queue 3 of b0, "
        "and its AF_XDP sockets are at queue 0, 1 (queues: 2 in the testbed file), "
        "200 met no XDP program at b0 and ended in B's own stack"
    )
    (stream_of_last,) = trials[-1].streams
    assert (stream_of_last.count, stream_of_last.direction) == (200, "forward")


def test_what_a_port_drops_is_said_where_nothing_else_is_known(b0: Host) -> None:
    a0 = Host()

    def send(spec: Any) -> Any:
        a0.sent += 200
        b0.counters["rx_queue_0_drops"] += 190
        return result(*(stream([], sent=200, direction=each.direction) for each in spec.streams))

    assert proven(b0, send, a0).startswith(
        "mine: no frame came through forward or backward within 0 s; "
        "of 200 frames A→C, 0 arrived at b0, a0 sent 200, b0 counted rx_queue_0_drops 190"
    )


def test_frames_of_a_warmup_are_among_those_that_hops_count(b0: Host) -> None:
    a0 = Host()

    def send(spec: Any) -> Any:
        a0.sent += 360
        b0.received += 360
        sent = result(*(stream([], sent=200, direction=each.direction) for each in spec.streams))
        return sent.model_copy(update={"detail": {"warmup": {"sent": 160, "received": 0}}})

    assert "of 360 frames A→C, 360 met no XDP program at b0" in proven(b0, send, a0)


def test_a_forwarder_that_ended_is_the_reason_and_nobody_looks_further(b0: Host) -> None:
    def send(spec: Any) -> Any:
        return result(*(stream([], sent=20, direction=each.direction) for each in spec.streams))

    assert proven(b0, send, Host(), crashed=lambda: "mine: killed by signal 9") == "mine: killed by signal 9"
    b0.name = "gone"
    b0.links = dict  # type: ignore[method-assign]
    assert "what hops count of frames A→C cannot be read: gone: p0: there is no such interface" in proven(
        b0, send, Host()
    )


def test_the_queues_that_frames_came_into_are_named(b0: Host) -> None:
    a0 = Host()

    def send(spec: Any) -> Any:
        a0.sent += 200
        b0.received += 200
        b0.sent += 200
        b0.counters["rx_queue_3_packets"] += 200
        return result(*(stream([], sent=200, direction=each.direction, lost=200) for each in spec.streams))

    assert proven(b0, send, a0) == (
        "mine: no frame came through forward or backward within 0 s; of 200 frames A→C, 200 arrived at b0 (queue 3: "
        "200), b0 sent 200; of 200 frames C→A, 200 arrived at b0 (queue 3: 200), b0 sent 200, 0 arrived at a0"
    )


def test_frames_that_the_far_end_sends_back_are_where_they_belong(b0: Host) -> None:
    """On path reflect a frame at A has come through: it was not sent out of the port where it came in."""
    a0 = Host()

    def send(spec: Any) -> Any:
        a0.sent += 200
        a0.received += 150
        b0.received += 200
        b0.sent += 200
        return result(*(stream([], sent=200, direction=each.direction, lost=200) for each in spec.streams))

    said = proven(b0, send, a0, reflects=True)
    assert said.endswith("of 200 frames A→C, 200 arrived at b0, b0 sent 200, 150 arrived at a0")
    assert "out of the port where they came in" not in said
