# SPDX-License-Identifier: Apache-2.0
"""Options and builds of the OVS forwarders: their ranges, what OVS is told, what is refused, and what proves them."""

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from lab import ovs_host
from lab.ovs_host import ALL_KEYS, OFFLOAD, PATCHED, MakeDut, OvsHost, dut_maker, forwarder

from xdplab.forwarders.ovs import readback
from xdplab.forwarders.ovs.builds import find_build, missing
from xdplab.forwarders.ovs.forwarder import OvsAfpacket, OvsAfxdp, OvsDpdk
from xdplab.forwarders.ovs.options import OvsAfxdpOptions, OvsDpdkOptions, OvsKey, UserspaceOptions, cpu_set, keys
from xdplab.hosts import Completed, SshHost
from xdplab.model import CpuLayout, InputError

PATCHES = Path(__file__).resolve().parents[2] / "ovs/patches"
#: As `ovs/build` writes it.
BUILD = {
    "base": "4.0.0",
    "series": "patched",
    "asan": False,
    "source": {"path": "/opt/openvswitch-4.0.0", "sha256": "c" * 64},
    "patches": [{"name": "0001-fixes.patch", "sha256": "a" * 64}, {"name": "0002-rings.patch", "sha256": "b" * 64}],
    "configure": ["--enable-afxdp"],
    "compiler": "gcc (Debian 12.2.0-14) 12.2.0",
    "versions": ["ovs-vswitchd (Open vSwitch) 4.0.0"],
}


@pytest.fixture
def dut(tmp_path: Path) -> MakeDut:
    """`dut(host)`: two ports on that host."""
    return dut_maker(tmp_path)


def test_every_option_of_the_series_is_there_under_its_key() -> None:
    table = {
        field: key
        for field, info in OvsAfxdpOptions.model_fields.items()
        for key in info.metadata
        if isinstance(key, OvsKey)
    }
    assert {field: key.names for field, key in table.items() if key.patch} == {
        field: (key,) for field, (key, _) in (PATCHED | OFFLOAD).items()
    }
    assert len(keys(OvsAfxdpOptions)) == sum(len(key.names) for key in table.values())  # none twice


def test_the_patch_that_a_message_names_is_the_one_that_brings_the_option() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(PATCHES.glob("*.patch"))}
    for option, (key, _) in (PATCHED | OFFLOAD).items():
        if option == "flow_offload":  # its key is older
            continue
        documents = re.compile(rf'^\+.*<column name="options" key="{key}"', re.MULTILINE)
        brings = next(name for name, text in texts.items() if documents.search(text))
        assert brings.endswith(f"-{patch_of(option)}.patch")


def patch_of(option: str) -> str:
    """The patch that messages name with an option."""
    return next(key.patch for key in OvsAfxdpOptions.model_fields[option].metadata if isinstance(key, OvsKey))


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
        ("ovs-afxdp:build=newest", "build: .*stock, patched, unpatched or a path is expected.*'newest'"),
        ("ovs-afxdp:build=3.1.0-xdp", "build: .*3.1.0-xdp is now patched, of Open vSwitch 4.0.0"),
        ("ovs-afxdp:build=4.0.0-stock", "build: .*4.0.0-stock is now unpatched, of Open vSwitch 4.0.0"),
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
    key, value = PATCHED[option]
    there = forwarder(f"ovs-afxdp:{option}={value}")
    reason = there.unsupported(dut(OvsHost()))
    assert reason == (
        f"{option}={value}: OVS build 'stock' (Open vSwitch 3.1.0) has no {key}; "
        f"patch {patch_of(option)} of ovs/ brings it"
    )
    assert forwarder(f"ovs-afxdp:{option}={value}").unsupported(dut(OvsHost(ALL_KEYS))) is None


def test_need_wakeup_is_unsupported_where_ovs_took_it_out_and_not_written_unless_asked_for(dut: MakeDut) -> None:
    newer = OvsHost([key for key in ovs_host.STOCK_KEYS if key != "use-need-wakeup"])
    assert "has no use-need-wakeup" in forwarder("ovs-afxdp:use_need_wakeup=true").unsupported(dut(newer))
    plain = forwarder("ovs-afxdp")
    assert plain.unsupported(dut(newer)) is None
    assert plain.interface(0, dut(newer)) == ("b0", ["type=afxdp", "options:xdp-mode=native", "options:n_rxq=1"])


def test_every_option_becomes_a_column(dut: MakeDut) -> None:
    text = ",".join(f"{option}={value}" for option, (_, value) in PATCHED.items())
    name, columns = forwarder(f"ovs-afxdp:type=afxdp-nonpmd,{text}").interface(1, dut(OvsHost(ALL_KEYS)))
    assert (name, columns[0]) == ("b1", "type=afxdp-nonpmd")
    assert set(columns[1:]) == {"options:xdp-mode=native", "options:n_rxq=1"} | {
        f"options:{key}={value}" for key, value in PATCHED.values()
    }


@pytest.mark.parametrize("sleep_key", ["pmd-maxsleep", "pmd-sleep-max"])
def test_settings_of_the_daemon_take_the_name_that_the_build_knows(sleep_key: str, dut: MakeDut) -> None:
    host = OvsHost([*(key for key in ovs_host.STOCK_KEYS if key != "pmd-maxsleep"), sleep_key])
    made = forwarder("ovs-afxdp:pmd_sleep_max_us=20,emc_insert_inv_prob=0,tx_flush_interval_us=50,rxq_affinity=0:1+1:2")
    made.start(dut(host))
    (settings,) = host.rows("Open_vSwitch")
    assert dict(settings["other_config"][1]) == {
        "pmd-cpu-mask": "0x2",
        sleep_key: "20",
        "emc-insert-inv-prob": "0",
        "tx-flush-interval": "50",
    }
    assert [row["other_config"] for row in host.rows("Interface") if row["type"] == "afxdp"] == [
        ["map", [["pmd-rxq-affinity", "0:1,1:2"]]]
    ] * 2
    made.stop()


@pytest.mark.parametrize("kind", ["ovs-afxdp", "ovs-afpacket", "ovs-dpdk"])
def test_all_programs_come_from_the_folder_of_the_build(kind: str, dut: MakeDut) -> None:
    host = OvsHost()
    host.version = "ovs-vswitchd (Open vSwitch) 4.0.0\nDPDK 25.11.1\n"
    host.files["/opt/ovs/build.json"] = json.dumps(BUILD)
    made = forwarder(f"{kind}:build=/opt/ovs")
    there = dut(host)
    assert made.unsupported(there) is None
    made.start(there)
    made.counters()
    reported = made.mode()
    made.stop()
    programs = {argv[0] for argv in host.runs} - {"stat", "test", "grep", "readlink", "head"}
    names = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-ofctl")
    assert programs == {f"/opt/ovs/{name}" for name in names}
    assert ["/opt/ovs/ovsdb-tool", "create", f"{there.rundir}/conf.db", "/opt/ovs/vswitch.ovsschema"] in host.runs
    assert reported["build"]["key"] == "0123456789abcdef"
    ((name, version),) = made.versions(host).items()
    assert name.endswith("(/opt/ovs)")
    assert version.startswith("Open vSwitch 4.0.0; DPDK 25.11.1; key 0123456789abcdef; base 4.0.0; series patched; ")
    assert "patches 0001-fixes.patch@aaaaaaaaaaaa 0002-rings.patch@bbbbbbbbbbbb" in version


def test_a_build_that_is_missing_names_the_command_that_makes_it(
    dut: MakeDut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path))
    program = f"{tmp_path}/ovs/unpatched/ovs-vswitchd"
    reason = forwarder("ovs-afxdp:build=unpatched").unsupported(dut(OvsHost(absent=[program])))
    assert reason == f"OVS build 'unpatched': {program} is not there; `ovs/build --series stock` makes it"
    daemon = "/usr/lib/openvswitch-switch/ovs-vswitchd"
    stock = forwarder("ovs-afxdp").unsupported(dut(OvsHost(absent=[daemon])))
    assert stock == f"{daemon} is not installed (package openvswitch-switch); `ci/setup` installs it"


def test_what_is_missing_on_a_machine_of_a_testbed_is_provisioned() -> None:
    away = create_autospec(SshHost, instance=True)
    away.run.return_value = Completed(("stat",), 1, "", "")
    for build, options in (("stock", "--tags packages"), ("patched", "--tags builds -e xdplab_builds=patched")):
        reason = missing(away, find_build(build, "/usr/sbin/ovs-vswitchd", away), "openvswitch-switch")
        assert reason is not None
        assert f'`make provision TESTBED=... ANSIBLE="{options}"`' in reason


def test_a_build_without_dpdk_is_unsupported_for_ovs_dpdk(dut: MakeDut) -> None:
    assert "built without DPDK" in forwarder("ovs-dpdk:build=/opt/ovs").unsupported(dut(OvsHost()))


def test_pmd_threads_take_cpus_that_neither_tester_nor_napi_uses(dut: MakeDut) -> None:
    reason = forwarder("ovs-afxdp:pmd_cores=2").unsupported(dut(OvsHost()))
    assert reason.startswith("pmd_cores=2: PMD threads may use CPU 1 here")
    wide = CpuLayout(tester_tx=0, forwarder=1, dut_napi=2, housekeeping=(2, 3))
    assert "CPU 1/3 here" in forwarder("ovs-dpdk:pmd_cpus=1+2").unsupported(dut(OvsHost(), wide))
    two = forwarder("ovs-afxdp:pmd_cores=2")
    assert two.unsupported(dut(OvsHost(), wide)) is None
    assert two.threads(wide).settings == ["pmd-cpu-mask=0xa"]


def test_hugepages_of_the_umems_are_asked_for(dut: MakeDut) -> None:
    assert forwarder("ovs-afxdp").required_knobs() == {}
    assert forwarder("ovs-afxdp:umem_hugepages=2M").required_knobs() == {"hugepages_2m": 64}  # 64 MiB a queue
    small = forwarder("ovs-afxdp:umem_hugepages=2M,umem_frames=1024,umem_frame_size=2048,n_rxq=2")
    assert small.required_knobs() == {"hugepages_2m": 4}


@pytest.mark.parametrize("options", [UserspaceOptions, OvsAfxdpOptions, OvsDpdkOptions])
def test_each_key_says_what_proves_it(options: type[UserspaceOptions]) -> None:
    """Where that is a method, the forwarders of this type have it."""
    found = [key for info in options.model_fields.values() for key in info.metadata if isinstance(key, OvsKey)]
    for key in found:
        assert (key.place == "options") + (key.log is not None) + bool(key.proven_by) == 1, key
        for kind in [kind for kind in (OvsAfxdp, OvsDpdk, OvsAfpacket) if issubclass(kind.options_model, options)]:
            assert not key.proven_by or callable(getattr(kind, key.proven_by))


@pytest.mark.parametrize("column", ["Open_vSwitch", "other_config"])
def test_a_key_that_nothing_proves_is_refused(column: Any) -> None:
    with pytest.raises(TypeError, match="max-idle: one proof is needed"):
        OvsKey(column, ("max-idle",))
    with pytest.raises(TypeError, match="one proof"):
        OvsKey("options", ("n_rxq",), log=str)


def test_options_that_all_three_take_have_one_meaning() -> None:
    assert keys(UserspaceOptions) < keys(OvsDpdkOptions) < keys(OvsAfxdpOptions)


#: Of Open vSwitch 3.1.0 with a rule that drops, and two that go to tables without rules.
_FLOWS = """\
OFPST_FLOW reply (OF1.5) (xid=0x2):
 cookie=0x0, duration=0.685s, table=0, n_packets=3, n_bytes=318, idle_age=0, priority=5,udp,tp_dst=9 actions=drop
 cookie=0x0, duration=0.5s, table=0, n_packets=4, n_bytes=318, idle_age=0, priority=6,udp,tp_dst=10 actions=goto_table:3
 cookie=0x0, duration=0.5s, table=0, n_packets=5, n_bytes=318, idle_age=0, priority=7,udp,tp_dst=11 actions=resubmit(,4)
"""
_TABLES = """\
OFPST_TABLE reply (OF1.5) (xid=0x2):
  table 0:
    active=3, lookup=12, matched=9

  table 1:
    active=0, lookup=0, matched=0

  table 2: ditto

  table 3:
    active=0, lookup=3, matched=0

  table 4: ditto

  table 5:
    active=0, lookup=0, matched=0

  tables 6...253: ditto
"""


def test_dropped_frames_are_reported_by_rule_and_unmatched_ones_by_table() -> None:
    assert readback.rules_without_output(_FLOWS) == {"rule 'priority=5,udp,tp_dst=9' of table 0, which drops:": 3}
    missed = readback.misses(_TABLES)
    assert {name: count for name, count in missed.items() if count} == {
        "no rule of table 0:": 3, "no rule of table 3:": 3, "no rule of table 4:": 3,
    }  # fmt: skip
    assert readback.drops(
        "drop_action_of_pipeline  0.0/sec  0.1/sec  0.0/sec   total: 200\nhmap_pathological 0.0/sec"
    ) == {"drop_action_of_pipeline": 200}
