# SPDX-License-Identifier: Apache-2.0
"""What a running Open vSwitch tells of itself, and how that proves or disproves its options."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import ovs_host
from lab.ovs_host import ALL_KEYS, CONFIG, MakeDut, OvsHost, dut_maker, forwarder

from xdplab.forwarders.ovs.readback import (
    afxdp_show,
    coverage_totals,
    datapath_lookups,
    free_mbufs,
    port_configs,
    rxq_places,
)
from xdplab.model import PointFailed


@pytest.fixture
def dut(tmp_path: Path) -> MakeDut:
    """`dut(host)`: two ports on that host."""
    return dut_maker(tmp_path)


def started(host: OvsHost, dut: MakeDut, text: str) -> Any:
    made = forwarder(text)
    made.start(dut(host))
    return made


@pytest.mark.parametrize(
    ("text", "config", "status", "words"),
    [
        ("xsk_rx_ring=512", "xsk-rx-ring=512", "", None),
        ("xsk_rx_ring=512", "xsk-rx-ring=2048", "", "b0: xsk-rx-ring is 2048, not 512"),
        ("xsk_rx_ring=512", "x=y", "", "b0: the port does not report xsk-rx-ring"),
        ("busy_poll_us=20", "busy-poll=20", '["busy-poll-active","true"]', None),
        ("busy_poll_us=20", "busy-poll=20", '["busy-poll-active","false"]', "active is false, not true .*veth"),
        ("busy_poll_us=0", "busy-poll=0", '["busy-poll-active","false"]', None),
        ("umem_frames=0", "umem-frames=16384", "", None),
        ("umem_hugepages=2M", "x=y", '["umem-pages","4K"]', "umem-pages is 4K, not 2M"),
        ("umem_hugepages=none", "x=y", '["umem-pages","4K"]', None),
        ("prefer_busy_poll=true", "prefer-busy-poll=true", "", None),
    ],
)  # fmt: skip
def test_what_is_not_in_force_is_reported(text: str, config: str, status: str, words: str | None, dut: MakeDut) -> None:
    host = OvsHost(ALL_KEYS)
    host.configs = {"b0": f"{CONFIG}, {config}", "b1": f"{CONFIG}, {config}"}
    host.status = {"b0": status, "b1": status}
    found = started(host, dut, f"ovs-afxdp:{text}").ineffective()
    if words is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(f"{text} is not in force: ")
        assert re.search(words, found), found


#: A port of 3.1.0 with our patches, as `dpctl/show` and the status column told it on veth, Linux 6.18.
PATCHED_CONFIG = (
    "busy-poll=20, busy-poll-budget=64, n_rxq=1, prefer-busy-poll=true, umem-frame-size=2048, umem-frames=8192, "
    "umem-headroom=0, use-need-wakeup=true, xdp-mode=native, xdp-mode-in-use=native, xsk-comp-ring=512, "
    "xsk-fill-ring=1024, xsk-rx-ring=512, xsk-tx-ring=512"
)
PATCHED_STATUS = '["busy-poll-active","false"],["driver_name","veth"],["napi-id","0"],["umem-size","16777216"]'


def test_what_the_patched_daemon_tells_proves_its_options_and_busy_poll_not(dut: MakeDut) -> None:
    host = OvsHost(ALL_KEYS)
    host.configs = {"b0": PATCHED_CONFIG, "b1": PATCHED_CONFIG}
    host.status = {"b0": PATCHED_STATUS, "b1": PATCHED_STATUS}
    proven = (
        "xsk_rx_ring=512,xsk_tx_ring=512,xsk_fill_ring=1024,xsk_comp_ring=512,umem_frames=8192,umem_frame_size=2048,"
        "umem_headroom=0,busy_poll_budget=64,prefer_busy_poll=true,use_need_wakeup=true"
    )
    assert started(host, dut, f"ovs-afxdp:{proven}").ineffective() is None
    assert "no NAPI id, as veth" in started(host, dut, "ovs-afxdp:busy_poll_us=20").ineffective()
    reported = started(host, dut, "ovs-afxdp").mode()["ovs"]["b0"]
    assert (reported["umem-size"], reported["napi-id"], reported["xsk-rx-ring"]) == ("16777216", "0", "512")


def test_a_mode_that_ovs_replaced_by_another_is_reported(dut: MakeDut) -> None:
    host = OvsHost()
    host.configs["b1"] = CONFIG.replace("in-use=native", "in-use=generic")
    assert "b1: xdp-mode-in-use is generic, not native" in started(host, dut, "ovs-afxdp").ineffective()


def test_newer_versions_tell_the_mode_in_the_status(dut: MakeDut) -> None:
    host = OvsHost()
    host.configs = {"b0": "n_rxq=1, xdp-mode=native", "b1": "n_rxq=1, xdp-mode=native"}
    host.status = {"b0": '["xdp-mode","native"]', "b1": '["xdp-mode","generic"]'}
    assert "b1: xdp-mode is generic, not native" in started(host, dut, "ovs-afxdp").ineffective()


def test_best_effort_takes_what_it_gets(dut: MakeDut) -> None:
    host = OvsHost()
    host.configs["b1"] = CONFIG.replace("in-use=native", "in-use=generic")
    assert started(host, dut, "ovs-afxdp:xdp_mode=best-effort").ineffective() is None


SLEEPS = {
    "3.1.0": "dpif_netdev|INFO|PMD max sleep request is 20 usecs.",
    "4.0.0": "dpif_netdev|INFO|Default PMD thread max sleep:   20 us.",
}


@pytest.mark.parametrize("log", [*SLEEPS.values(), "dpif_netdev|INFO|PMD max sleep request is 200 usecs.", ""])
def test_a_setting_of_the_daemon_is_proven_by_its_log(log: str, dut: MakeDut) -> None:
    found = started(OvsHost(log=log), dut, "ovs-afxdp:pmd_sleep_max_us=20").ineffective()
    assert (found is None) == (log in SLEEPS.values())


def test_queues_polled_elsewhere_than_the_affinity_says_are_reported(dut: MakeDut) -> None:
    assert started(OvsHost(), dut, "ovs-afxdp:rxq_affinity=0:1").ineffective() is None
    found = started(OvsHost(), dut, "ovs-afxdp:rxq_affinity=0:3").ineffective()
    assert found == "rxq_affinity=0:3 is not in force: queue 0 of b0 is polled on CPU 1"


def test_answers_of_the_daemon_are_read() -> None:
    configs = port_configs(ovs_host.DPCTL_SHOW.format(b0=CONFIG, b1=CONFIG))
    assert configs["b0"] == {
        "type": "afxdp",
        "n_rxq": "1",
        "use-need-wakeup": "true",
        "xdp-mode": "native",
        "xdp-mode-in-use": "native",
    }
    assert set(configs) == {"b0", "b1", "ovs-netdev", "xdplab0"}
    assert port_configs("  port 1: b1-640f\n") == {"b1-640f": {}}
    places = rxq_places(ovs_host.RXQ_SHOW)
    assert [(place.port, place.queue, place.core) for place in places] == [("b0", 0, 1), ("b1", 0, 1)]
    assert coverage_totals(ovs_host.COVERAGE) == {"afxdp_cq_empty": 17}
    assert afxdp_show("not JSON") == {}


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (port_configs, "  port 2: b0 afxdp: n_rxq=1"),
        (rxq_places, "pmd thread numa_id 0 core_id 1:\n  port: b0 queue 0"),
        (rxq_places, "  port: b0                queue-id:  0 (enabled)   pmd usage:  0 %"),
        (datapath_lookups, "  flows: 3"),
        (datapath_lookups, "  lookups: hit:1 lost:0"),
        (coverage_totals, "afxdp_cq_empty  0.0/sec"),
    ],
)
def test_a_line_that_lacks_a_field_fails(reader: Callable[[str], Any], text: str) -> None:
    """It must not read as a port, a queue or an event that is not there."""
    with pytest.raises(PointFailed):
        reader(text)


#: Of OVS-DPDK 3.1.0 with DPDK 22.11, but for the caches of other threads.
_MEMPOOL = """\
mempool <ovs6ffa666e00021580032768>@0x1101d2bc0
  flags=10
  size=32768
  populated_size=32768
  internal cache infos:
    cache_size=512
    cache_count[0]=0
    cache_count[1]=513
    total_cache_count=513
  common_pool_count=32255
  no statistics available
"""


def test_free_buffers_of_all_mempools() -> None:
    assert free_mbufs(_MEMPOOL) == 32768
    assert free_mbufs(_MEMPOOL + _MEMPOOL.replace("32255", "31000")) == 32768 + 31513
    assert free_mbufs("") is None
