# SPDX-License-Identifier: Apache-2.0
"""Options and builds of the OVS forwarders: their ranges, what OVS is told, what is refused, and what proves them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import ovs_host
from lab.ovs_host import CONFIG, OvsHost

from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.ovs_options import Key, OvsAfxdpOptions, OvsDpdkOptions, OvsOptions, cpu_set, keys
from xdplab.forwarders.ovs_readback import afxdp_show, coverage_totals, port_configs, port_counters, rxq_places
from xdplab.model import CpuLayout, ForwarderSpec, InputError
from xdplab.model import Path as Way
from xdplab.testbed import Port

#: Every option of the series as afxdp-facts 1.8 names it: option of the forwarder -> (key, a value, patch).
PATCHED = {
    "xsk_rx_ring": ("xsk-rx-ring", "512", "P1"),
    "xsk_tx_ring": ("xsk-tx-ring", "512", "P1"),
    "xsk_fill_ring": ("xsk-fill-ring", "1024", "P1"),
    "xsk_comp_ring": ("xsk-comp-ring", "1024", "P1"),
    "umem_frames": ("umem-frames", "8192", "P1"),
    "umem_frame_size": ("umem-frame-size", "2048", "P2"),
    "umem_headroom": ("umem-headroom", "0", "P2"),
    "umem_hugepages": ("umem-hugepages", "2M", "P3"),
    "busy_poll_us": ("busy-poll", "20", "P4"),
    "busy_poll_budget": ("busy-poll-budget", "128", "P4"),
    "prefer_busy_poll": ("prefer-busy-poll", "true", "P4"),
    "rx_wakeup": ("rx-wakeup", "recvfrom", "P6"),
    "tx_skb_budget": ("tx-skb-budget", "64", "P6"),
    "shared_umem": ("shared-umem", "group1", "P7"),
    "tx_copy": ("tx-copy", "auto", "P7"),
}
ALL_KEYS = (*ovs_host.STOCK_KEYS, *(key for key, _, _ in PATCHED.values()), "netdev-afxdp/show")
LAYOUT = CpuLayout(tester_tx=0, forwarder=1, housekeeping=(0,))
#: As `ovs/build` writes it.
BUILD = {
    "base": "3.1.0",
    "series": "patched",
    "asan": False,
    "source": {"path": "/usr/src/openvswitch/openvswitch.tar.gz", "sha256": "c" * 64},
    "patches": [{"name": "0001-fixes.patch", "sha256": "a" * 64}, {"name": "0002-rings.patch", "sha256": "b" * 64}],
    "configure": ["--enable-afxdp"],
    "compiler": "gcc (Debian 12.2.0-14) 12.2.0",
    "versions": ["ovs-vswitchd (Open vSwitch) 3.1.0"],
}
MakeDut = Callable[..., Dut]


@pytest.fixture
def dut(tmp_path: Path) -> MakeDut:
    """`dut(host)`: two ports on that host."""

    def make(host: OvsHost, layout: CpuLayout = LAYOUT) -> Dut:
        ports = tuple(Port(role, host, role, "02:00:00:00:00:01", 1500, "/run/netns/B") for role in ("b0", "b1"))
        return Dut(host, ports, Way.THROUGH, layout, tmp_path)

    return make


def forwarder(text: str) -> Any:
    return make_forwarder(ForwarderSpec.model_validate(text))


def test_every_option_of_the_series_is_there_under_its_key_and_patch() -> None:
    table = {
        field: key
        for field, info in OvsAfxdpOptions.model_fields.items()
        for key in info.metadata
        if isinstance(key, Key)
    }
    assert {field: (key.names, key.patch) for field, key in table.items() if key.patch} == {
        field: ((key,), patch) for field, (key, _, patch) in PATCHED.items()
    }
    assert len(keys(OvsAfxdpOptions)) == sum(len(key.names) for key in table.values())  # none twice


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ovs-afxdp:xsk_rx_ring=1000", "xsk_rx_ring: .*power of two.*'1000'"),
        ("ovs-afxdp:xsk_tx_ring=32", "xsk_tx_ring: .*'32'"),
        ("ovs-afxdp:xsk_comp_ring=65536", "xsk_comp_ring: .*'65536'"),
        ("ovs-afxdp:umem_frame_size=3072", "umem_frame_size: .*'3072'"),
        ("ovs-afxdp:umem_headroom=2000", "umem_headroom: .*'2000'"),
        ("ovs-afxdp:umem_hugepages=4K", "umem_hugepages: .*'4K'"),
        ("ovs-afxdp:busy_poll_budget=0", "busy_poll_budget: .*'0'"),
        ("ovs-afxdp:rx_wakeup=epoll", "rx_wakeup: .*'epoll'"),
        ("ovs-afxdp:tx_skb_budget=16", "tx_skb_budget: .*'16'"),
        ("ovs-afxdp:shared_umem=a b", "shared_umem: .*'a b'"),
        ("ovs-afxdp:build=newest", "build: .*3.1.0-patched.*absolute path.*'newest'"),
        ("ovs-afxdp:pmd_cores=2,pmd_cpus=1+2", "exclude each other"),
        ("ovs-afxdp:pmd_cpus=1-2", r"pmd_cpus: .*'1-2'"),
        ("ovs-afxdp:rxq_affinity=1", "rxq_affinity: .*0:1"),
        ("ovs-afxdp:type=afxdp-nonpmd,pmd_cores=1", "no PMD thread"),
        ("ovs-afpacket:pmd_cores=1", "unknown key"),
    ],
)
def test_a_value_out_of_range_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        forwarder(text)


def test_a_list_of_cpus_has_plus_signs_or_commas() -> None:
    assert cpu_set("3+1") == cpu_set("3,1") == (3, 1)


@pytest.mark.parametrize("option", PATCHED)
def test_an_option_that_the_build_does_not_know_is_unsupported(option: str, dut: MakeDut) -> None:
    key, value, patch = PATCHED[option]
    there = forwarder(f"ovs-afxdp:{option}={value}")
    reason = there.supported(dut(OvsHost()))
    assert reason == (
        f"{option}={value}: OVS build 'stock' (Open vSwitch 3.1.0) has no {key}; patch {patch} of ovs/ brings it"
    )
    assert forwarder(f"ovs-afxdp:{option}={value}").supported(dut(OvsHost(ALL_KEYS))) is None


def test_need_wakeup_is_unsupported_where_ovs_took_it_out_and_not_written_unless_asked_for(dut: MakeDut) -> None:
    newer = OvsHost([key for key in ovs_host.STOCK_KEYS if key != "use-need-wakeup"])
    assert "has no use-need-wakeup" in forwarder("ovs-afxdp:use_need_wakeup=true").supported(dut(newer))
    plain = forwarder("ovs-afxdp")
    assert plain.supported(dut(newer)) is None
    assert plain.interface(0, dut(newer)) == ("b0", ["type=afxdp", "options:xdp-mode=native", "options:n_rxq=1"])


def test_every_option_becomes_a_column(dut: MakeDut) -> None:
    text = ",".join(f"{option}={value}" for option, (_, value, _) in PATCHED.items())
    name, columns = forwarder(f"ovs-afxdp:type=afxdp-nonpmd,{text}").interface(1, dut(OvsHost(ALL_KEYS)))
    assert (name, columns[0]) == ("b1", "type=afxdp-nonpmd")
    assert set(columns[1:]) == {"options:xdp-mode=native", "options:n_rxq=1"} | {
        f"options:{key}={value}" for key, value, _ in PATCHED.values()
    }


@pytest.mark.parametrize("sleep_key", ["pmd-maxsleep", "pmd-sleep-max"])
def test_settings_of_the_daemon_take_the_name_that_the_build_knows(sleep_key: str, dut: MakeDut) -> None:
    host = OvsHost([*(key for key in ovs_host.STOCK_KEYS if key != "pmd-maxsleep"), sleep_key])
    made = forwarder("ovs-afxdp:pmd_sleep_max_us=20,emc_insert_inv_prob=0,tx_flush_interval_us=50,rxq_affinity=0:1+1:2")
    made.start(dut(host))
    (settings,) = [argv for argv in host.runs if "Open_vSwitch" in argv]
    assert {word for word in settings if word.startswith("other_config:")} == {
        "other_config:pmd-cpu-mask=0x2",
        f"other_config:{sleep_key}=20",
        "other_config:emc-insert-inv-prob=0",
        "other_config:tx-flush-interval=50",
    }
    (bridge,) = [argv for argv in host.runs if "add-br" in argv]
    assert bridge.count("other_config:pmd-rxq-affinity=0:1,1:2") == 2
    made.stop()


@pytest.mark.parametrize("kind", ["ovs-afxdp", "ovs-afpacket", "ovs-dpdk"])
def test_all_programs_come_from_the_folder_of_the_build(kind: str, dut: MakeDut) -> None:
    host = OvsHost()
    host.version = "ovs-vswitchd (Open vSwitch) 3.1.0\nDPDK 22.11.11\n"
    host.files["/opt/ovs/build.json"] = json.dumps(BUILD)
    made = forwarder(f"{kind}:build=/opt/ovs")
    there = dut(host)
    assert made.supported(there) is None
    made.start(there)
    made.counters()
    told = made.mode()
    made.stop()
    programs = {argv[0] for argv in host.runs} - {"stat", "test", "grep", "readlink"}
    names = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-appctl", "ovs-ofctl")
    assert programs == {f"/opt/ovs/{name}" for name in names}
    assert ["/opt/ovs/ovsdb-tool", "create", f"{there.rundir}/conf.db", "/opt/ovs/vswitch.ovsschema"] in host.runs
    assert told["build"]["key"] == "0123456789abcdef"
    ((name, version),) = made.versions_asked_for(host).items()
    assert name.endswith("(/opt/ovs)")
    assert version.startswith("Open vSwitch 3.1.0; DPDK 22.11.11; key 0123456789abcdef; base 3.1.0; series patched; ")
    assert "patches 0001-fixes.patch@aaaaaaaaaaaa 0002-rings.patch@bbbbbbbbbbbb" in version


def test_a_build_that_is_missing_names_the_command_that_makes_it(
    dut: MakeDut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path))
    program = f"{tmp_path}/ovs/4.0.0-patched/ovs-vswitchd"
    reason = forwarder("ovs-afxdp:build=4.0.0-patched").supported(dut(OvsHost(absent=[program])))
    assert reason.startswith(f"OVS build '4.0.0-patched': {program} is not there; `ovs/build --base 4.0.0 ")
    daemon = "/usr/lib/openvswitch-switch/ovs-vswitchd"
    stock = forwarder("ovs-afxdp").supported(dut(OvsHost(absent=[daemon])))
    assert stock == f"{daemon} is not installed (package openvswitch-switch); `ci/setup` installs it"


def test_a_build_without_dpdk_is_unsupported_for_ovs_dpdk(dut: MakeDut) -> None:
    assert "built without DPDK" in forwarder("ovs-dpdk:build=/opt/ovs").supported(dut(OvsHost()))


def test_pmd_threads_take_cpus_that_neither_tester_nor_napi_uses(dut: MakeDut) -> None:
    reason = forwarder("ovs-afxdp:pmd_cores=2").supported(dut(OvsHost()))
    assert reason.startswith("pmd_cores=2: PMD threads may use CPU 1 here")
    wide = CpuLayout(tester_tx=0, forwarder=1, dut_napi=2, housekeeping=(2, 3))
    assert "CPU 1/3 here" in forwarder("ovs-dpdk:pmd_cpus=1+2").supported(dut(OvsHost(), wide))
    two = forwarder("ovs-afxdp:pmd_cores=2")
    assert two.supported(dut(OvsHost(), wide)) is None
    assert two.daemon_settings(dut(OvsHost(), wide)) == ["pmd-cpu-mask=0xa"]


def test_hugepages_of_the_umems_are_asked_for(dut: MakeDut) -> None:
    assert forwarder("ovs-afxdp").required_knobs() == {}
    assert forwarder("ovs-afxdp:umem_hugepages=2M").required_knobs() == {"hugepages_2m": 64}  # 64 MiB a queue
    small = forwarder("ovs-afxdp:umem_hugepages=2M,umem_frames=1024,umem_frame_size=2048,n_rxq=2")
    assert small.required_knobs() == {"hugepages_2m": 4}


def started(host: OvsHost, dut: MakeDut, text: str) -> Any:
    made = forwarder(text)
    made.start(dut(host))
    return made


@pytest.mark.parametrize(
    ("text", "config", "status", "words"),
    [
        ("xsk_rx_ring=512", "xsk-rx-ring=512", "", None),
        ("xsk_rx_ring=512", "xsk-rx-ring=2048", "", "b0: xsk-rx-ring is 2048, not 512"),
        ("xsk_rx_ring=512", "x=y", "", "b0: the port does not tell xsk-rx-ring"),
        ("busy_poll_us=20", "busy-poll=20", '["busy-poll-active","true"]', None),
        ("busy_poll_us=20", "busy-poll=20", '["busy-poll-active","false"]', "active is false, not true .*veth"),
        ("busy_poll_us=0", "busy-poll=0", '["busy-poll-active","false"]', None),
        ("umem_frames=0", "umem-frames=16384", "", None),
        ("umem_hugepages=2M", "x=y", '["umem-pages","none"]', "umem-pages is none, not 2M"),
        ("prefer_busy_poll=true", "prefer-busy-poll=true", "", None),
    ],
)  # fmt: skip
def test_what_is_not_in_force_is_told(text: str, config: str, status: str, words: str | None, dut: MakeDut) -> None:
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


#: A port of the patched 3.1.0 (patches P1 to P4), as `dpctl/show` and the status column told it on veth, Linux 6.18.
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
    told = started(host, dut, "ovs-afxdp").mode()["ovs"]["b0"]
    assert (told["umem-size"], told["napi-id"], told["xsk-rx-ring"]) == ("16777216", "0", "512")


def test_a_mode_that_ovs_replaced_by_another_is_told(dut: MakeDut) -> None:
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


def test_queues_polled_elsewhere_than_the_affinity_says_are_told(dut: MakeDut) -> None:
    assert started(OvsHost(), dut, "ovs-afxdp:rxq_affinity=0:1").ineffective() is None
    there = forwarder("ovs-afxdp:rxq_affinity=0:3")
    there._dut = dut(OvsHost())
    assert "queue 0 of b0 is polled on CPU 1" in there.ineffective()


def test_answers_of_the_daemon_are_read() -> None:
    configs = port_configs(ovs_host.DPCTL_SHOW.format(b0=CONFIG, b1=CONFIG))
    assert configs["b0"] == {
        "type": "afxdp",
        "n_rxq": "1",
        "use-need-wakeup": "true",
        "xdp-mode": "native",
        "xdp-mode-in-use": "native",
    }
    assert set(configs) == {"b0", "b1"}
    places = rxq_places(ovs_host.RXQ_SHOW)
    assert [(place.port, place.queue, place.core) for place in places] == [("b0", 0, 1), ("b1", 0, 1)]
    counters = port_counters(ovs_host.DUMP_PORTS)
    assert counters["b0"] == {
        "rx_pkts": 6,
        "rx_bytes": 474,
        "tx_pkts": 8,
        "tx_bytes": 696,
        "xsk_queue_0_rx_dropped": 5,
        "xsk_queue_0_rx_invalid_descs": 0,
        "xsk_queue_0_tx_invalid_descs": 0,
    }
    assert coverage_totals(ovs_host.COVERAGE, "afxdp_") == {"afxdp_cq_empty": 17}
    assert afxdp_show("not JSON") == {}


def test_options_that_all_three_take_have_one_meaning() -> None:
    assert keys(OvsOptions) < keys(OvsDpdkOptions) < keys(OvsAfxdpOptions)
