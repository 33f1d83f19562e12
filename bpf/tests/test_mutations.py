# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Ten thousand mutations of good configurations: none crashes the reader, and each refusal is one line."""

import copy
import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BPF, compiled, config, stream
from xsk import frames

SOURCE = Path(__file__).with_name("mutations.c")
MUTATIONS = 10_000
LIBRARIES = ("jansson", "bpf", "xdp", "z", "m")
SOURCES = {"xdpgen": ("xdpgen", "io", "common"), "xsk": ("xsk", "nf", "io", "common")}
#: What may stand anywhere in place of a value.
VALUES = [
    None, True, False, 0, -1, 1, 2, 255, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63), 10**30, 0.5, -0.0,
    1e308, 1e-308, 5e-324, "", "0", "a0", "x" * 15, "x" * 16, "x" * 4095, "x" * 5000, "\u00e9" * 300,
    "\U0001f41d" * 200, "\0", "a\0b", "a\nb", "\x1b[2J\r", "%s%n", "../..", "/proc/self/ns/net", "/nothere", "10.0.0.1",
    "255.255.255.255", "fd00::1", "::", "ff:ff:ff:ff:ff:ff", "10.0.0.0/33", "10.0.0.0/0", [], {}, [[]], [{}],
    [None] * 40, {"": 1}, {"a\n": 1}, {"\u00e9" * 400: 1},
]  # fmt: skip
#: What may stand anywhere in the text.
PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "1e999",
    "-",
    "0" * 400,
    "[" * 3000,
    "\n",
]


def xdpgen_configurations(net):
    ports = [net.port("a0", tx_cpu=0), net.port("c0", rx="tc", tc_hook="auto", name="receiver")]
    drawn = stream(
        id=3, flow_choice="zipf", flows=50, src_addresses=3, dst_addresses=4, src_next="10.9.0.1", dst_step=7,
        zipf_exponent=1.5, flow_seed=9, first_flow=2, vlan=7, outer_vlan=8, pcp=3, dei=True, dscp=10, frame_bytes=128,
    )  # fmt: skip
    six = stream(id=5, ip=6, src_ip="fd00::1", dst_ip="fd00::2", frame_bytes=256, start_ns=1000, count=5, tx_cpu=0)
    fast = stream(id=15, kind="load", pps=None, added_bytes=50)
    asking = stream(id=4, request="00" * 30, trailer_at=7, answer_at=9, frame_bytes=76)
    new = stream(id=1, flow_choice="new", flows=4000, departures="paced", burst=3)
    return [
        config(ports, stream()),
        config(ports, drawn, six, fast, flow_figures=True, batch=8, late_ns=5, stall_ns=9, sender="live"),
        config(ports, asking),
        config(ports, new, stream(id=2, departures="poisson"), drain_idle_s=0.1, sender="xsk"),
    ]


def xsk_configurations(net):
    port = {"netns": net.path("a"), "ifname": "a0"}
    both = [port, {"netns": net.path("c"), "ifname": "c0"}]
    hops = [{"mac": "02:00:00:00:00:01", "ip": "10.1.0.1", "port": 0}]
    nf = {
        "functions": ["router", "firewall", "load_balancer"], "place": "combined", "xdp_functions": 1,
        "next_hops": hops, "acl_entries": 1000, "drop_percent": 50, "flows": 1000, "routes": 100, "work_iterations": 3,
        "work_lookups": 2, "work_bytes": 4096, "route_list": [{"prefix": "10.0.0.0/8", "hop": 0}],
    }  # fmt: skip
    return [
        {"role": "forward", "ports": both, "cpus": [0], "batch": 256, "tx_skb_budget": 256, "trace": "/nowhere/trace"},
        {"role": "sink", "ports": [port], "stages": True, "backend": "af_packet", "packet_version": 3},
        {"role": "probe", "ports": both, "streams": [frames(pps=9.0), frames(id=1, pps=2.0)], "duration_s": 1},
        {"role": "ping", "ports": [port], "streams": [frames()], "samples": "/nowhere/samples", "interval_us": 5},
        {"role": "nf", "ports": [port], "nf": nf},
    ]  # fmt: skip


CONFIGURATIONS = {"xdpgen": xdpgen_configurations, "xsk": xsk_configurations}


def places(document):
    """Every container of it, with each of its keys."""
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        yield document, key
        yield from places(document[key])


def change(document, rng):
    """One value becomes another, is missing, is there twice, or changes places."""
    found = list(places(document))
    if not found:
        return
    where, key = rng.choice(found)
    kind = rng.randrange(5)
    if kind == 0:
        del where[key]
    elif kind == 1 and isinstance(where, list):
        where.extend(copy.deepcopy(where[key]) for _ in range(rng.choice((1, 40))))
    elif kind == 2:
        from_where, from_key = rng.choice(found)
        where[key] = copy.deepcopy(from_where[from_key])
    elif kind == 3 and isinstance(where[key], int | float):
        number = where[key]
        where[key] = rng.choice((-number, number + 1, number - 1, number * 1000, number / 3, str(number)))
    else:
        where[key] = copy.deepcopy(rng.choice(VALUES))


def scramble(text, rng):
    """Some bytes are others, are missing, or are there twice; a piece of JSON is where it does not belong."""
    at, other = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    kind = rng.randrange(5)
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[:at] + text[other:]
    if kind == 2:
        return text[:other] + text[at:]
    if kind == 3:
        return text[:at] + bytes(rng.randrange(256) for _ in range(rng.choice((1, 1, 4)))) + text[at + 1 :]
    return text[:at] + rng.choice(PIECES).encode() + text[at:]


def mutation(good, rng):
    document = copy.deepcopy(rng.choice(good))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        change(document, rng)
    text = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode()
    for _ in range(rng.choice((0, 0, 1, 2))):
        text = scramble(text, rng)
    return text


def reader(program, folder):
    objects = [
        f"build/sanitized/obj/{path.relative_to(BPF).with_suffix('.o')}"
        for place in SOURCES[program]
        for path in sorted(BPF.glob(f"{place}/*.c"))
        if path.name != "main.c" and not path.name.endswith(".bpf.c")
    ]
    options = [f"-D{program.upper()}"]
    return compiled(folder / program, SOURCE, *objects, libraries=LIBRARIES, options=options, flags="sanitized-flags")


def read_all(path, texts):
    """For each whether it was refused, and what was said."""
    given = b"".join(b"%d\n%s" % (len(text), text) for text in texts)
    done = subprocess.run([path], input=given, capture_output=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    if len(lines) < len(texts):
        raise AssertionError(f"the reader crashed: {texts[len(lines)]!r}\n{done.stderr.decode(errors='replace')}")
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return [(line[:1] == b"1", line[2:].decode("ascii")) for line in lines]


def unescaped(said):
    return re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), said.encode())


@pytest.mark.parametrize("program", ["xdpgen", "xsk"])
def test_no_mutation_of_a_configuration_crashes_the_reader(direct, sanitized_build, tmp_path, program):
    good = CONFIGURATIONS[program](direct)
    rng = random.Random(f"{program} 1")
    path = reader(program, tmp_path)
    assert read_all(path, [json.dumps(each).encode() for each in good]) == [(False, "")] * len(good)
    texts = [mutation(good, rng) for _ in range(MUTATIONS)]
    refusals = 0
    for text, (refused, said) in zip(texts, read_all(path, texts), strict=True):
        line = unescaped(said)
        assert bool(line) == refused, (text, line)
        if refused:
            refusals += 1
            assert re.fullmatch(r"mutations: [^\x00-\x1f\x7f]+\n", line.decode()), (text, line)
    # some are right by chance: then all that is checked after the first fault is passed as well
    assert MUTATIONS / 2 < refusals < MUTATIONS * 0.98
