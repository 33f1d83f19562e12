# SPDX-License-Identifier: Apache-2.0
"""Applications through real forwarders: what they get, what breaks TCP and by which name, damage that is planted."""

import os
import platform
import re
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lab.records import point
from lab.rooted import Lab

from xdplab.hosts.kernel import version_of
from xdplab.model import TestbedSpec
from xdplab.runner.ports import dut_of
from xdplab.testbed import open_testbed
from xdplab_applications.applications.ends import Ends

pytestmark = pytest.mark.root

#: Flips a bit, or swaps two words, which keeps the checksum, in one of 64 long segments of TCP.
_SPOILS = """
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#define FAR 200
const volatile __u32 ifindex_a, ifindex_b;
static __u32 seen;

static int is_tcp(struct ethhdr *eth)
{
	return ((struct iphdr *)(eth + 1))->protocol == 6;
}

static int forward(struct xdp_md *ctx, int flips)
{
	__u16 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)data;

	if (data + FAR + 2 <= end && eth->h_proto == bpf_htons(ETH_P_IP) && is_tcp(eth) && !(++seen % 64)) {
		__u16 kept = data[FAR];

		if (flips)
			data[FAR] ^= 4;
		else
			data[FAR] = data[FAR + 1], data[FAR + 1] = kept;
	}
	return bpf_redirect(ctx->ingress_ifindex == ifindex_a ? ifindex_b : ifindex_a, 0);
}

SEC("xdp") int flips(struct xdp_md *ctx) { return forward(ctx, 1); }
SEC("xdp") int swaps(struct xdp_md *ctx) { return forward(ctx, 0); }
char LICENSE[] SEC("license") = "GPL";
"""
_OVS, _XDP, _BRIDGE, _OVS_AF_PACKET = ({"name": name} for name in ("ovs-afxdp", "xdp", "linux-bridge", "ovs-afpacket"))
_NO_SWITCH = {"name": "veth-pair"}
_OVS_GENERIC = {**_OVS, "options": {"xdp_mode": "generic"}}
_OVS_FILLS = {**_OVS, "options": {"build": "patched", "fill_checksums": True}}
_OVS_MULTI_BUFFER = {**_OVS, "options": {"build": "patched", "multi_buffer": True}}
_XDP_GENERIC = {**_XDP, "options": {"mode": "generic"}}
_BEHIND_PASS, _BEHIND_GENERIC_PASS = ({**_BRIDGE, "options": {"idle_xdp": mode}} for mode in ("native", "generic"))
_AS_MADE = {"offloads": ["default"]}
_TSO = {"offloads": ["checksum+segmentation"]}
_QUICK = {"name": "applications", "duration_s": 0.2, "warmup_s": 0.05}


def rows(lab: Lab, forwarders: list[Any], method: dict[str, Any], *options: str) -> dict[tuple[str, str], Any]:
    lab.run(forwarders=forwarders, method={**_QUICK, **method}, options=options)
    return {(row["forwarder"], row["levels"]["workload"]): row for row in lab.rows()}


@pytest.mark.slow
def test_each_workload_is_measured_and_every_setting_put_back(lab: Lab) -> None:
    ours = ["bulk", "bulk:4", "requests", "requests:8", "connections:4", "udp"]
    others = {"iperf3": "iperf3", "web": "wrk", "memcached": "memcached"}
    there = [name for name, program in others.items() if shutil.which(program)]
    found = rows(lab, ["xdp", "veth-pair"], {"workloads": [*ours, *there], "directions": ["both"]})
    assert {row["status"] for row in found.values()} == {"ok"}, [row["reason"] for row in found.values()]
    for forwarder in ("xdp", "veth-pair"):
        for workload in ("bulk", "bulk:4", "udp", *({"iperf3"} & {*there})):
            assert found[forwarder, workload]["measured"]["goodput_mbps"]["value"] > 50
        for workload in ("requests", "requests:8", *({"web", "memcached"} & {*there})):
            assert found[forwarder, workload]["measured"]["requests_per_s"]["value"] > 500
        assert found[forwarder, "connections:4"]["measured"]["connections_per_s"]["value"] > 200
        for workload in ("bulk", "requests", "connections:4"):
            assert 1 < found[forwarder, workload]["measured"]["p50_us"]["value"] < 1e6
        assert found[forwarder, "bulk"]["measured"]["cpu_s_per_gbit"]["value"] > 0


@pytest.mark.parametrize(
    ("forwarder", "method", "status", "words"),
    [
        (_OVS, {"offloads": ["checksum"]}, "unsupported", ["checksum offload breaks TCP", " tx off"]),
        (_OVS_FILLS, {"offloads": ["checksum"]}, "ok", []),
        pytest.param(
            _OVS_GENERIC,
            _TSO,
            "unsupported",
            ["segmentation offload (TSO) breaks TCP", "native mode is another way"],
            marks=pytest.mark.slow,
        ),
        (_XDP, {"offloads": ["vlan"]}, "unsupported", ["VLAN offload breaks TCP", "txvlan off"]),
        (_BRIDGE, {"mtus": [3000]}, "unsupported", ["an MTU of 3000 above the forwarder's 1500", "mtu 1500"]),
        (_XDP_GENERIC, _TSO, "ok", ["segmentation offload (TSO) slows TCP", "XDP is in generic mode there"]),
        pytest.param(
            _OVS_AF_PACKET,
            {"offloads": ["gro"]},
            "ok",
            ["(GRO) at the forwarder's ports slows TCP", " gro off"],
            marks=pytest.mark.slow,
        ),
        (_XDP, _TSO, "unsupported", ["tcp-segmentation-offload stays off at a0"]),
        (_BEHIND_PASS, _AS_MADE, "ok", ["(TSO) stays off at a0", " and c0", "XDP program in native mode"]),
        (_BEHIND_GENERIC_PASS, _AS_MADE, "ok", []),
        (_NO_SWITCH, {"offloads": ["checksum+segmentation+vlan"], "mtus": [3000]}, "ok", []),
    ],
)
def test_what_breaks_or_slows_tcp_is_named_with_the_command_that_fixes_it(
    lab: Lab, forwarder: dict[str, Any], method: dict[str, Any], status: str, words: list[str]
) -> None:
    (row,) = rows(lab, [forwarder], {"workloads": ["bulk"], **method}).values()
    assert row["status"] == status, row["reason"]
    said = row["reason"] if status == "unsupported" else " ".join(row["figures"].get("findings", ()))
    assert all(each in said for each in words), said
    assert bool(words) == bool(said), said


def test_what_applications_set_at_the_direct_link_is_put_back() -> None:
    name = f"direct-{secrets.token_hex(2)}"
    testbed = open_testbed(TestbedSpec(name=name, kind="embedded"))
    testbed.up()
    try:
        dut = dut_of(testbed, point("veth-pair"), testbed.layout)
        client, server = dut.peers

        def shown() -> list[str]:
            asked = (["ethtool", "-k"], ["ip", "address", "show", "dev"], ["ip", "neighbour", "show", "dev"])
            return [each.host.run([*argv, each.ifname]).stdout for each in dut.peers for argv in asked]

        before = shown()
        with Ends(client, server, (), ("checksum", "segmentation"), 1400, 10).in_use(testbed.folder_on(client.host)):
            assert len([1 for old, new in zip(before, shown(), strict=True) if old != new]) == 4
        assert shown() == before
    finally:
        testbed.down()


@pytest.mark.skipif(
    version_of(platform.release()) < (6, 6), reason="packets of several descriptors are of Linux 6.6 (XDP_USE_SG)"
)
def test_jumbo_frames_pass_open_vswitch_in_several_frames_of_its_umem(lab: Lab) -> None:
    lab.testbed.write_text(f"{{schema: 1, name: {lab.name}, kind: embedded, mtu: 9000}}", encoding="utf-8")
    found = rows(lab, [_OVS_MULTI_BUFFER, _OVS_AF_PACKET], {"workloads": ["bulk", "requests"], "request_bytes": 20000})
    assert {row["status"] for row in found.values()} == {"ok"}, [row["reason"] for row in found.values()]
    assert found["ovs-afxdp:build=patched,multi_buffer=true", "bulk"]["measured"]["goodput_mbps"]["value"] > 200


@pytest.mark.parametrize(
    ("workload", "section", "said"),
    [
        ("bulk", "flips", "payload damaged: [1-9][0-9]* segments arrived with a wrong checksum"),
        ("bulk", "swaps", "payload damaged: bytes arrived at C that differ"),
    ],
)
def test_a_byte_that_a_forwarder_changes_fails_the_point(
    lab: Lab, tmp_path: Path, workload: str, section: str, said: str
) -> None:
    source, made = tmp_path / "spoils.bpf.c", tmp_path / "spoils.bpf.o"
    source.write_text(_SPOILS, encoding="utf-8")
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", include, "-c", source, "-o", made], check=True)
    forwarder = {"name": "xdp", "options": {"object": f"{made}:{section}"}}
    method = {"workloads": [workload], "request_bytes": 1000}
    (row,) = rows(lab, [forwarder], method, "--allow-program", str(made)).values()
    assert row["status"] == "failed"
    assert re.search(said, row["reason"]), row["reason"]
