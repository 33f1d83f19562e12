# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every bad configuration: exit 2 and one line that says what to do."""

import copy
import json
import subprocess

import pytest
from conftest import XDPGEN, config, stream, xdpgen

BAD = [
    ("unknown", 1, "unknown key"),
    ("ports", [], "1 to 32"),
    ("ports", {}, "must be an array"),
    ("ports.0.colour", "red", "unknown key"),
    ("ports.0.ifname", None, "must be a string"),
    ("ports.0.ifname", "nothere", "unknown interface"),
    ("ports.0.ifname", "a-name-that-is-too-long", "1 to 15 characters"),
    ("ports.0.netns", "/run/netns/nothere", "cannot enter network namespace"),
    ("ports.0.netns", 3, "must be a string"),
    ("ports.0.tx_cpu", -1, "from 0"),
    ("ports.0.tx_cpu", 1000, "no such CPU"),
    ("ports.0.tx_cpu", 0.5, "an integer"),
    ("ports.0.rx", "dpdk", "one of xdp tc none"),
    ("ports.0.xdp_mode", "offload", "one of native generic"),
    ("ports.0.reflect", 1, "true or false"),
    ("ports.1", "ports.0", "is there twice"),
    ("ports.1.rx", "none", 'has rx "none"'),
    ("streams", [], "1 to 16"),
    ("streams", [stream(id=n % 16) for n in range(17)], "1 to 16"),
    ("streams.0", 7, "must be an object"),
    ("streams.0.id", 16, "from 0 to 15"),
    ("streams.1", "streams.0", "is there twice"),
    ("streams.0.kind", "both", "one of latency load"),
    ("streams.0.tx_port", 2, "no such port"),
    ("streams.0.rx_port", 31, "no such port"),
    ("streams.0.pps", 0, "or null"),
    ("streams.0.pps", "fast", "or null"),
    ("streams.0.pps", 1e9, "or null"),
    ("streams.0.start_ns", -1, "from 0"),
    ("streams.0.start_ns", 300_000_000, "below duration_s"),
    ("streams.0.count", -1, "from 0"),
    ("streams.0.frame_bytes", 63, "from 64"),
    ("streams.0.frame_bytes", 1519, "MTU 1500"),
    ("streams.0.frame_bytes", 64.5, "an integer"),
    ("streams.0.src_mac", "02:00:00:00:00", "MAC address"),
    ("streams.0.dst_mac", "02:00:00:00:00:0g", "MAC address"),
    ("streams.0.vlan", 0, "from 1 to 4094"),
    ("streams.0.vlan", 4095, "from 1 to 4094"),
    ("streams.0.ip", 5, "4 or 6"),
    ("streams.0.ip", 6, "IPv6 address"),
    ("streams.0.src_ip", "10.0.0.256", "IPv4 address"),
    ("streams.0.dst_ip", "fd00::1", "IPv4 address"),
    ("streams.0.udp_src", 0, "from 1"),
    ("streams.0.udp_dst", 65536, "to 65535"),
    ("streams.0.flows", 0, "from 1"),
    ("streams.0.departures", "even", "one of paced poisson"),
    ("streams.0.burst", 0, "from 1"),
    ("streams.0.burst", 2, "needs pps", {"streams.0.pps": None}),
    ("streams.0.departures", "poisson", "1 or more", {"streams.0.pps": 0.5}),
    ("streams.0.burst", 2, 'needs departures "paced"', {"streams.0.departures": "poisson"}),
    ("streams.0.flows", 100001, "100000 at the most, unless all are new"),
    ("streams.0.first_flow", -1, "from 0"),
    ("streams.0.flows", 55537, "exceeds 65535"),
    ("streams.0.flow_choice", "random", "one of round-robin uniform zipf new"),
    ("streams.0.zipf_exponent", -1, "from 0"),
    ("streams.0.flow_seed", 1 << 32, "from 0"),
    ("streams.0.dst_addresses", 0, "from 1"),
    ("streams.0.src_next", "fd00::1", "must be an IPv4 address"),
    ("streams.0.pcp", 8, "from 0 to 7"),
    ("streams.0.pcp", 1, "needs vlan"),
    ("streams.0.dei", True, "needs vlan"),
    ("streams.0.outer_vlan", 5, "needs vlan"),
    ("streams.0.dscp", 64, "from 0 to 63"),
    ("streams.0.request", "00" * 257, "1 to 512 characters"),
    ("streams.0.request", "0" * 37, "pairs of hex digits"),
    ("streams.0.request", "0g" * 18, "pairs of hex digits"),
    ("streams.0.request", "00" * 18, "that of headers, request and FCS", {"streams.0.frame_bytes": 65}),
    ("streams.0.request", "00" * 18, "needs vlan null and added_bytes 0", {"streams.0.vlan": 3}),
    ("streams.0.request", "00" * 18, "needs vlan null and added_bytes 0", {"streams.0.added_bytes": 4}),
    ("streams.0.trailer_at", 1, "18 bytes of the request", {"streams.0.request": "00" * 18}),
    ("streams.0.trailer_at", 1, "needed by trailer_at"),
    ("streams.0.answer_at", 0, "needed by trailer_at"),
    ("streams.0.udp_src", 65535, "flows", {"streams.0.flows": 2}),
    ("warmup_s", -0.1, "from 0"),
    ("duration_s", 0, "from 0.001"),
    ("drain_s", "long", "a number"),
    ("batch", 257, "to 256"),
    ("max_burst", -1, "from 0"),
    ("late_ns", True, "an integer"),
    ("stall_ns", 0, "from 1"),
    ("sender", "trex", "one of auto live xsk"),
    ("progress", "yes", "true or false"),
]


def put(document, path, value):
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in parents:
        document = document[key]
    if isinstance(document, list) and last == len(document):
        document.append(value)
    else:
        document[last] = value


def bad_configurations(net):
    """One for each of `BAD`."""
    for path, value, _, *more in BAD:
        bad = config([net.port("a0"), net.port("c0")])
        if isinstance(value, str) and value.startswith(("ports.", "streams.")):
            value = copy.deepcopy(bad[value.split(".")[0]][0])
        for other_path, other in [(path, value), *(more[0].items() if more else ())]:
            put(bad, other_path, other)
        yield bad


def test_bad_configuration(direct):
    for (path, value, text, *_), bad in zip(BAD, bad_configurations(direct), strict=True):
        line = xdpgen(bad, expect=2)
        assert text in line, (path, value)
        assert path.split(".")[-1].isdigit() or path.split(".")[-1] in line, (path, value)
        assert xdpgen(bad, "--check", expect=2) == line, (path, value)


@pytest.mark.parametrize("key", ["ports", "streams", "streams.0.id", "streams.0.pps", "streams.0.src_mac"])
def test_missing_key(direct, key):
    bad = config([direct.port("a0"), direct.port("c0")])
    parent = bad
    for part in key.split(".")[:-1]:
        parent = parent[int(part) if part.isdigit() else part]
    del parent[key.split(".")[-1]]
    assert "missing" in xdpgen(bad, expect=2)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1, "a": 2}', "null"])
def test_bad_json(text):
    assert "bad " in xdpgen(text, expect=2)


def test_smallest_frame_depends_on_the_headers(direct):
    ports = [direct.port("a0"), direct.port("c0")]
    six = {"ip": 6, "src_ip": "fd00::1", "dst_ip": "fd00::2"}
    assert "from 84" in xdpgen(config(ports, stream(**six)), expect=2)
    assert "from 88" in xdpgen(config(ports, stream(vlan=1, **six)), expect=2)
    assert "from 68" in xdpgen(config(ports, stream(vlan=1)), expect=2)


def test_largest_frame_depends_on_tag_and_mtu(direct):
    ports = [direct.port("a0"), direct.port("c0")]
    assert xdpgen(config(ports, stream(frame_bytes=1522, vlan=1)), "--check") is None
    assert "to 1522" in xdpgen(config(ports, stream(frame_bytes=1523, vlan=1)), expect=2)


def test_check_attaches_nothing(direct):
    assert xdpgen(config([direct.port("a0"), direct.port("c0")]), "--check") is None
    assert direct.is_clean()


def test_version():
    out = subprocess.run([XDPGEN, "--version"], capture_output=True, text=True, check=True).stdout
    assert json.loads(out).keys() == {"version", "libbpf"}


@pytest.mark.parametrize("program", ["xdpgen", "xsk"])
def test_help_has_the_keys_that_are_read_with_values_and_defaults(program):
    path = XDPGEN.parent / program
    text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    assert text.splitlines()[0].startswith(f"{program} [--check] CONFIG.json")
    keys = [line.split()[0] for line in text.splitlines()[1 : text.splitlines().index("ports[]:")]]
    assert {"ports", "streams", "stall_ns"} <= set(keys)
    assert "  stall_ns         1 to 1000000000 (100000): a gap" in text
    assert "  tx_cpu           0 to 1023 (null): CPU that sends" in text
    for key in [*keys, "colour"]:
        done = subprocess.run(
            [path, "--check", "-"], input=json.dumps({key: "?"}), capture_output=True, text=True, check=False
        )
        assert (f"{key}: unknown key" in done.stderr) == (key == "colour"), done.stderr


@pytest.mark.parametrize("argv", [[], ["a", "b"], ["--check"], ["/nonexistent.json"]])
def test_usage(argv):
    done = subprocess.run([XDPGEN, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
