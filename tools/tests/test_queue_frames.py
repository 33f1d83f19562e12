# SPDX-License-Identifier: Apache-2.0
"""Which queues had frames, where none came through: by the names that drivers give their counters."""

from types import SimpleNamespace
from typing import Any

import pytest
from lab.records import result, stream

from xdplab.hosts.base import Completed
from xdplab.hosts.queue_frames import moved, queue_frames
from xdplab.model import Path as Way, PointFailed
from xdplab.runner.proof import prove_path
from xdplab.testbed import Port


class Host:
    """`ethtool -S` prints `counters`; frames that are sent are counted in the links' own."""

    name = "B"

    def __init__(self, **counters: int) -> None:
        self.counters: dict[str, int] = dict(counters)
        self.received = self.sent = 0

    def run(self, argv: Any, *, check: bool = True) -> Completed:
        """Of an interface whose driver has counters of its own, or none."""
        text = "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in self.counters.items())
        return Completed(tuple(argv), 0, text, "") if self.counters else Completed(tuple(argv), 94, "", "no stats")

    def links(self) -> Any:
        """The one link."""
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
    assert queue_frames(host, "p0") == {"rx": {3: 20}, "tx": {12: 7}}


def test_what_moved_is_what_grew() -> None:
    assert moved({"rx": {0: 5, 1: 2}}, {"rx": {0: 5, 1: 9, 2: 1}, "tx": {0: 0}}) == {"rx": {1: 7, 2: 1}, "tx": {}}


def test_where_no_frame_comes_through_each_port_and_queue_says_what_it_counted() -> None:
    """Frames came to a queue that the forwarder does not have; of one driver nothing is known."""
    a0 = Host()
    b0 = Host(rx_queue_0_packets=4, rx_queue_3_packets=1, tx_queue_0_packets=0)
    hosts: dict[str, Any] = {"a0": a0, "b0": b0}
    ports = [Port(role, host, "p0", "", 1500) for role, host in hosts.items()]
    ports.append(Port("c0", a0, "TRex port 0", "", 1500, trex=0))  # type: ignore[arg-type]
    forwarder: Any = SimpleNamespace(name="mine", silent_s=0.0, crashed=lambda: None)
    at: Any = SimpleNamespace(path=Way.HAIRPIN, traffic=SimpleNamespace(smallest=64, headers={}))
    trials = []

    def send(spec: Any) -> Any:
        trials.append(spec)
        a0.sent += 20
        b0.received += 20
        b0.counters["rx_queue_3_packets"] += 20
        return result(stream([], sent=20))

    with pytest.raises(PointFailed) as failed:
        prove_path(at, forwarder, send, lasting=False, ports=ports, queues=2)
    assert len(trials) == 2
    assert str(failed.value) == (
        "mine: no frame came through forward within 0 s; frames of one more trial: a0 received 0 and sent 20, "
        "b0 received 20 (queue 3: 20; queues: 2 in the testbed file) and sent 0 (no queue)"
    )
    gone = [Port("b0", Host(), "p1", "", 1500)]  # type: ignore[arg-type]
    with pytest.raises(PointFailed, match=r"within 0 s; its ports do not say how far frames came: B: p1: there is no"):
        prove_path(at, forwarder, send, lasting=False, ports=gone)
    forwarder.crashed = lambda: "mine: killed by signal 9"
    with pytest.raises(PointFailed, match=r"^mine: killed by signal 9$"):
        prove_path(at, forwarder, send, lasting=False, ports=ports)
