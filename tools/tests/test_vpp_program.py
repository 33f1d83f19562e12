# SPDX-License-Identifier: Apache-2.0
"""Finding VPP, its version and its configuration, without a VPP."""

import enum
import gc
import sys
import weakref
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab.records import LAYOUT
from lab.startup import sections

from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.vpp.control import papi_client, plain
from xdplab.forwarders.vpp.forwarder import VppForwarder
from xdplab.forwarders.vpp.process import find_vpp, installed_version, numbers, rendered
from xdplab.hosts import Completed
from xdplab.model import CpuLayout, ForwarderSpec, InputError, Path as Way
from xdplab.testbed import Port


@dataclass
class Answering:
    """A host that answers commands from a table: words of the command -> output; all others fail."""

    answers: dict[tuple[str, ...], str] = field(default_factory=dict)
    name: str = "B"

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Completed:
        out = self.answers.get(tuple(argv))
        return Completed(tuple(argv), 1 if out is None else 0, out or "", "")


@pytest.fixture(autouse=True)
def no_vpp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever VPP this machine has, these tests do not see it."""
    monkeypatch.delenv("XDPLAB_VPP", raising=False)


def dut(host: Any, layout: CpuLayout = LAYOUT) -> Dut:
    ports = tuple(Port(f"b{i}", host, f"b{i}-x", f"02:00:00:00:00:0{i}", 1500) for i in range(2))
    return Dut(host, ports, Way.THROUGH, layout, Path("/run/none"))


def test_the_option_comes_before_the_variable_and_that_before_path(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Answering({("which", name): f"{name}!" for name in ("/a/vpp", "/b/vpp", "vpp")})
    assert find_vpp(host, "", "p") == ("vpp!", "")  # type: ignore[arg-type]
    monkeypatch.setenv("XDPLAB_VPP", "/b/vpp")
    assert find_vpp(host, "", "p") == ("/b/vpp!", "")  # type: ignore[arg-type]
    assert find_vpp(host, "/a/vpp", "p") == ("/a/vpp!", "")  # type: ignore[arg-type]


def test_a_prefix_is_taken_for_its_program() -> None:
    host = Answering({("which", "/opt/vpp/bin/vpp"): "/opt/vpp/bin/vpp\n"})
    assert find_vpp(host, "/opt/vpp", "p") == ("/opt/vpp/bin/vpp", "")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^option vpp=/opt/other: "):
        find_vpp(host, "/opt/other", "p")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["vpp-afxdp", "vpp-afpacket", "vpp-dpdk"])
def test_without_vpp_the_reason_says_how_to_get_it(name: str) -> None:
    forwarder = make_forwarder(ForwarderSpec(name=name))
    reason = forwarder.unsupported(dut(Answering())) or ""
    package = "vpp-plugin-dpdk" if name == "vpp-dpdk" else "vpp-plugin-core"
    assert "not installed: no program on PATH" in reason
    assert f"install FD.io's Debian packages vpp and {package} (25.06 or later)" in reason
    assert "vpp=PATH or XDPLAB_VPP" in reason
    assert "\n" not in reason
    assert forwarder.versions(Answering()) == {"vpp": "not installed"}  # type: ignore[arg-type]


def test_a_named_program_that_is_not_there_is_named() -> None:
    forwarder = make_forwarder(ForwarderSpec(name="vpp-afxdp", options={"vpp": "/opt/vpp"}))
    with pytest.raises(InputError, match=r"^option vpp=/opt/vpp: B has no such program"):
        forwarder.unsupported(dut(Answering()))


def test_a_program_that_a_variable_names_is_not_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDPLAB_VPP", "/opt/vpp")
    forwarder = make_forwarder(ForwarderSpec(name="vpp-afxdp"))
    with pytest.raises(InputError, match=r"^XDPLAB_VPP=/opt/vpp: B has no such program"):
        forwarder.unsupported(dut(Answering({("which", "vpp"): "/usr/bin/vpp"})))


def test_zero_copy_on_veth_is_unsupported_with_the_reason() -> None:
    host = Answering({("ethtool", "-i", "b0-x"): "driver: veth\nversion: 1.0\n", ("which", "vpp"): "/usr/bin/vpp"})
    forwarder = make_forwarder(ForwarderSpec(name="vpp-afxdp", options={"zero_copy": "zero-copy"}))
    assert "the veth driver of port b0-x has no NETDEV_XDP_ACT_XSK_ZEROCOPY" in (forwarder.unsupported(dut(host)) or "")


@pytest.mark.parametrize(
    ("workers", "housekeeping", "enough"),
    [(0, (0,), True), (1, (0,), True), (2, (0,), False), (2, (2,), False), (2, (2, 3), True), (3, (2, 3), False)],
)
def test_each_worker_needs_a_cpu_that_nobody_else_has(
    workers: int, housekeeping: tuple[int, ...], enough: bool
) -> None:
    layout = CpuLayout(tester_tx=0, forwarder=1, housekeeping=housekeeping)
    forwarder = make_forwarder(ForwarderSpec(name="vpp-afxdp", options={"workers": workers}))
    reason = forwarder.unsupported(dut(Answering({("which", "vpp"): "/usr/bin/vpp"}), layout))
    assert (reason is None) == enough
    assert enough or f"workers={workers}: a CPU of its own is needed for each" in (reason or "")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("26.10-rc0~374-gb575ec2c", (26, 10)),
        ("25.06-release", (25, 6)),
        ("v25.10", (25, 10)),
        ("24.10.1-2~g1", (24, 10)),
        ("", (0, 0)),
        ("master", (0, 0)),
    ],
)
def test_versions_are_compared_by_their_two_numbers(text: str, found: tuple[int, int]) -> None:
    assert numbers(text) == found


def test_an_older_vpp_is_not_asked_for_its_version_but_its_library() -> None:
    old = Answering({("ldd", "vpp"): "\tlibvlib.so.25.06 => /lib/libvlib.so.25.06 (0x7f)\n"})
    assert installed_version(old, "vpp") == "25.06"  # type: ignore[arg-type]
    new = Answering(
        {
            ("ldd", "vpp"): "\tlibvlib.so.26.10 => /lib/libvlib.so.26.10 (0x7f)\n",
            ("vpp", "--version"): "vpp v26.10-rc0~374-gb575ec2c built by root on host at 2026-11-21\n",
        }
    )
    assert installed_version(new, "vpp") == "26.10-rc0~374-gb575ec2c"  # type: ignore[arg-type]
    assert installed_version(Answering(), "vpp") == "unknown"  # type: ignore[arg-type]


VARIABLES: dict[str, Any] = {
    "rundir": "/run/x/dut",
    "prefix": "xdplab-12345678",
    "buffers": 16384,
    "page_size": "4K",
    "main_cpu": 0,
    "worker_cpus": [1],
    "plugins": ["af_xdp"],
    "vdevs": [],
    "cards": {},
}


def test_startup_conf_keeps_everything_in_the_run_directory_and_pins_the_threads() -> None:
    found = sections(rendered("startup.conf.j2", **VARIABLES))
    assert found["cpu"] == "main-core 0 corelist-workers 1"
    assert found["socksvr"] == "socket-name /run/x/dut/api.sock"
    assert found["api-segment"] == "prefix xdplab-12345678"
    assert found["buffers"] == "buffers-per-numa 16384 default data-size 2048 page-size 4K"
    assert found["plugins"] == "plugin default { disable } plugin af_xdp_plugin.so { enable }"
    assert "nodaemon" in found["unix"]
    assert "cli-listen /run/x/dut/cli.sock" in found["unix"]
    assert "dpdk" not in found


def test_startup_conf_of_dpdk_has_its_vdevs_and_hugepages_only_when_asked() -> None:
    dpdk = {"vdevs": ["net_af_packet0,iface=b0-x"], "queues": 1, "rx_desc": 512, "tx_desc": 256, "plugins": ["dpdk"]}
    small = sections(rendered("startup.conf.j2", **{**VARIABLES, **dpdk}))
    large = sections(rendered("startup.conf.j2", **{**VARIABLES, **dpdk, "page_size": "2M", "worker_cpus": []}))
    assert "vdev net_af_packet0,iface=b0-x" in small["dpdk"]
    assert "num-rx-desc 512 num-tx-desc 256" in small["dpdk"]
    assert ("no-hugetlb" in small["dpdk"], "no-hugetlb" in large["dpdk"]) == (True, False)
    assert large["cpu"] == "main-core 0"
    assert large["buffers"].endswith("page-size 2M")


def test_startup_conf_of_dpdk_names_the_cards_that_it_may_have() -> None:
    forwarder = make_forwarder(ForwarderSpec(name="vpp-dpdk", options={"port": "pmd", "raw.devargs.x": "1"}))
    assert isinstance(forwarder, VppForwarder)
    ports = tuple(Port(f"b{i}", Answering(), "", f"02:00:00:00:00:0{i}", 1500, pci=f"0000:0{i}:00.0") for i in (2, 3))  # type: ignore[arg-type]
    there = Dut(Answering(), ports, Way.THROUGH, LAYOUT, Path("/run/none"))  # type: ignore[arg-type]
    found = sections(rendered("startup.conf.j2", **{**VARIABLES, **forwarder.variables(there)}))
    assert (
        "dev 0000:02:00.0 { name xdplab0 devargs x=1 } dev 0000:03:00.0 { name xdplab1 devargs x=1 }" in found["dpdk"]
    )
    assert "no-pci" not in found["dpdk"]


def test_a_missing_template_says_where_it_was_looked_for() -> None:
    with pytest.raises(InputError, match=r"vpp/none.j2: not found"):
        rendered("none.j2")


def test_hugepages_cover_the_buffers() -> None:
    made = make_forwarder(ForwarderSpec(name="vpp-afxdp", options={"page_size": "2M", "buffers": 100_000}))
    assert made.required_knobs()["hugepages_2m"] * (2 << 20) >= 100_000 * 2496
    assert make_forwarder(ForwarderSpec(name="vpp-afxdp")).required_knobs() == {}


@pytest.mark.parametrize(
    ("name", "options", "buffers"),
    [
        ("vpp-afxdp", {}, 16384),
        ("vpp-afxdp", {"rx_queue_size": 16384}, 65536),
        ("vpp-dpdk", {"rx_queue_size": 32768, "n_rxq": 2}, 262_144),
        ("vpp-afxdp", {"rx_queue_size": 16384, "buffers": 40_000}, 40_000),
        ("vpp-afpacket", {"n_rxq": 8}, 16384),
    ],
)
def test_buffers_are_more_than_the_receive_rings_of_two_ports_take(
    name: str, options: dict[str, Any], buffers: int
) -> None:
    """With 16,384 of them, the fill ring of the first port took all, and no frame came through."""
    assert make_forwarder(ForwarderSpec(name=name, options=options)).options.buffer_count == buffers


@pytest.mark.parametrize("options", [{"rx_queue_size": 16384, "buffers": 16384}, {"rx_queue_size": 32768, "n_rxq": 16}])
def test_rings_that_leave_no_buffer_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"buffers: the receive rings of two ports take \d+, and 1000000"):
        make_forwarder(ForwarderSpec(name="vpp-afxdp", options=options))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vpp-afxdp:rx_queue_size=500", "rx_queue_size: .*power of two"),
        ("vpp-afxdp:tx_queue_size=128", "tx_queue_size: .*256"),
        ("vpp-afxdp:zero_copy=yes", "zero_copy: .*'yes'"),
        ("vpp-afxdp:rx_mode=fast", "rx_mode: .*'fast'"),
        ("vpp-afpacket:tpacket=1", "tpacket: .*'1'"),
        ("vpp-afpacket:multi_buffer=true", "multi_buffer: unknown key"),
        ("vpp-dpdk:port=pci", "port: .*'pci'"),
        ("vpp-afxdp:workers=-1", "workers: .*'-1'"),
    ],
)
def test_a_bad_option_is_refused_before_anything_starts(text: str, words: str) -> None:
    with pytest.raises(InputError, match=f"forwarder {text.split(':')[0]}: {words}"):
        make_forwarder(ForwarderSpec.model_validate(text))


class Colour(enum.IntFlag):
    RED = 1
    BLUE = 2


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5)


@given(value=JSON, number=st.integers())
def test_what_vpp_papi_returns_becomes_plain(value: Any, number: int) -> None:
    reply = namedtuple("some_reply", ["context", "retval", "kind", "rows", "address"])
    inner = namedtuple("row", ["value"])
    address = type("MACAddress", (), {"__str__": lambda self: "02:00:00:00:00:01"})()
    assert plain({"/err/x": number, 2: [value]}) == {"/err/x": number, "2": [value]}
    found = plain(reply(9, number, Colour.RED | Colour.BLUE, [inner(value)], address))
    assert found == {"retval": number, "kind": 3, "rows": [{"value": value}], "address": "02:00:00:00:00:01"}
    assert type(found["kind"]) is int


def test_each_client_has_message_types_of_its_own() -> None:
    """Those of an earlier VPP were taken for the next one's; and of VPPs that started side by side some found none."""
    first, second = papi_client("/nowhere"), papi_client("/nowhere")
    type(first).connect.__globals__["VPPType"]("vl_api_of_another_vpp_t", [["u32", "one"]])
    assert first.get_type("vl_api_of_another_vpp_t") is not None
    assert second.get_type("vl_api_of_another_vpp_t") is None
    assert not [name for name in sys.modules if name.startswith("vpp_papi_")]
    made = weakref.ref(type(first))
    del first
    gc.collect()
    assert made() is None
