# SPDX-License-Identifier: Apache-2.0
"""Where frames ended is said in one sentence, for each way in which a program of somebody's does not forward."""

import re
from pathlib import Path
from typing import Any

import pytest
from lab.compiling import compiled, hop
from lab.rooted import Lab

from xdplab.tools import project_root

pytestmark = pytest.mark.root

_HEAD = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#define MAP(name, kind) struct { __uint(type, BPF_MAP_TYPE_##kind); __uint(max_entries, 64); __type(key, __u32); \\
	__type(value, __u32); } name SEC(".maps")
char LICENSE[] SEC("license") = "GPL";
"""
#: What is wrong -> the body of a program that has it.
_PROGRAMS = {
    # packet03 of xdp-tutorial: who is not in the map is passed
    "pass": """
MAP(redirect_params, HASH);
SEC("xdp") int wrong(struct xdp_md *ctx)
{ __u32 key = 7; return bpf_map_lookup_elem(&redirect_params, &key) ? XDP_DROP : XDP_PASS; }
""",
    "drop": 'SEC("xdp") int wrong(struct xdp_md *ctx) { return XDP_DROP; }',
    "abort": 'SEC("xdp") int wrong(struct xdp_md *ctx) { return 17; }',
    "mirror": 'SEC("xdp") int wrong(struct xdp_md *ctx) { return XDP_TX; }',
    # a map of sockets in which there is none
    "sockets": """
MAP(xsks_map, XSKMAP);
SEC("xdp") int wrong(struct xdp_md *ctx) { return bpf_redirect_map(&xsks_map, ctx->rx_queue_index, 0); }
""",
    # an interface that is not there
    "nowhere": 'SEC("xdp") int wrong(struct xdp_md *ctx) { return bpf_redirect(4711, 0); }',
    # sends frames out of the port that the last byte of their MAC address names
    "by_mac": """
const volatile __u32 ifindex_a, ifindex_b;
SEC("xdp") int wrong(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 6 > end)
		return XDP_DROP;
	return bpf_redirect(data[5] & 1 ? ifindex_b : ifindex_a, 0);
}
""",
    # changes what the tester knows its frames by
    "changed": """
const volatile __u32 ifindex_a, ifindex_b;
SEC("xdp") int wrong(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 60 > end)
		return XDP_DROP;
	data[42] = ~data[42]; data[43] = ~data[43];
	return bpf_redirect(ctx->ingress_ifindex == ifindex_a ? ifindex_b : ifindex_a, 0);
}
""",
}


#: What is wrong -> changes to hop.c of docs/own-programs.md that make it so.
_APPLICATIONS = {
    "idle": {"forward(&ports[i], &ports[!i]);": "sleep(1);"},
    "unkicked": {"if (out->sending)": "if (0)"},
    "returned": {"forward(&ports[i], &ports[!i]);": "forward(&ports[i], &ports[i]);"},
    "outside": {"*xsk_ring_cons__rx_desc(&in->rx, from + i);": "(struct xdp_desc){ .addr = 1ULL << 40, .len = 60 };"},
    "elsewhere": {"argv[1 + i / HALF], 0, umem": "argv[1 + i / HALF], 1, umem"},
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("wrong")
    return {name: str(compiled(folder, name, _HEAD + body)) for name, body in _PROGRAMS.items()}


def reasons(lab: Lab, allowed: Any, **forwarders: Any) -> dict[str, str]:
    allow = [part for path in allowed for part in ("--allow-program", str(path))]
    given = [{"label": label, **each} for label, each in forwarders.items()]
    done = lab.run(forwarders=given, options=allow, env={"LAB_SILENT_S": "1"})
    assert done.code == 1, done.err
    lab.assert_nothing_left()
    return {row["forwarder"]: row["reason"] for row in lab.rows()}


_BACK = (
    "{n} came back at a0: it sends them out of the port where they came in, or chooses the port by a MAC address, and "
    "these are [0-9a-f:]+:00 and [0-9a-f:]+:00"
)
_KNOWS_NO_PORT = "it has neither a devmap nor a constant ifindex_a, so it knows no port .*"
_STACK = r"and ended in B's own stack \({n} OTHERHOST in ip_rcv_core\)"
_LIKEWISE = "; frames C→A likewise"
#: What is said of each; `{n}` is the number of frames that left.
_OF_PROGRAMS = {
    "pass": f"{{n}} got XDP_PASS at b0 {_STACK}{_LIKEWISE}; map redirect_params is empty; {_KNOWS_NO_PORT}",
    "drop": f"{{n}} got XDP_DROP at b0{_LIKEWISE}; {_KNOWS_NO_PORT}",
    "abort": f"{{n}} got 17, which is no action of XDP, at b0{_LIKEWISE}; {_KNOWS_NO_PORT}",
    "mirror": f"{{n}} got XDP_TX at b0, {_BACK}{_LIKEWISE}; {_KNOWS_NO_PORT}",
    "sockets": f"{{n}} got XDP_ABORTED at b0, there is no AF_XDP socket at b0{_LIKEWISE}; {_KNOWS_NO_PORT}",
    "nowhere": (
        rf"{{n}} got XDP_REDIRECT at b0, {{n}} redirects to interface 4711 failed: EINVAL \(there is no .*\)"
        f"{_LIKEWISE}; {_KNOWS_NO_PORT}"
    ),
    "by_mac": f"{{n}} got XDP_REDIRECT at b0, {{n}} were sent out of b0, {_BACK}",
    "changed": (
        "{n} got XDP_REDIRECT at b0, b1 sent {n}, {n} arrived at c0 \\(queue 0: {n}\\), "
        f"none of them as a frame of the tester's: they were changed{_LIKEWISE}"
    ),
    "generic": f"{{n}} got XDP_PASS at b0 {_STACK}{_LIKEWISE}; map redirect_params is empty; {_KNOWS_NO_PORT}",
    "generic_drop": f"{{n}} got XDP_DROP at b0{_LIKEWISE}; {_KNOWS_NO_PORT}",
}
_IN_SOCKETS = "{n} got XDP_REDIRECT into AF_XDP sockets at b0"
_OF_APPLICATIONS = {
    "idle": f"{_IN_SOCKETS}, b1 sent 0{_LIKEWISE}",
    "unkicked": f"{_IN_SOCKETS}, b1 sent 0{_LIKEWISE}",
    "returned": f"{_IN_SOCKETS}, b1 sent 0, {_BACK}{_LIKEWISE}",
    "outside": (
        rf"{_IN_SOCKETS}, AF_XDP socket 2 of 2 counted tx_invalid_descs {{n}} "
        rf"\(the TX ring held addresses outside .*\), b1 sent 0{_LIKEWISE}"
    ),
    "elsewhere": (
        "{n} arrived at queue 0 of b0, and its AF_XDP sockets are at queue 1, "
        f"{{n}} got XDP_PASS at b0 {_STACK}{_LIKEWISE}"
    ),
    "refused": (
        r"{n} got XDP_REDIRECT at b0, {n} redirects by map targets at key 0 failed: EOPNOTSUPP \(.*NAPI "
        rf"\(ethtool -K PEER gro on\) or an XDP program\){_LIKEWISE}"
    ),
    "nothing": f"{{n}} met no XDP program at b0 {_STACK}{_LIKEWISE}",
}


def assert_said(found: dict[str, str], wanted: dict[str, str]) -> None:
    for label, words in wanted.items():
        said = re.fullmatch(r"\w+: no frame came through .* within \S+ s; of (\d+) frames A→C, (.*)", found[label])
        assert said, f"{label}: {found[label]!r}"
        assert re.fullmatch(words.format(n=said[1]), said[2]), f"{label}: {found[label]}"


def test_an_xdp_program_of_somebody_s(lab: Lab, programs: dict[str, str]) -> None:
    found = reasons(
        lab,
        programs.values(),
        **{name: {"name": "xdp", "options": {"object": path}} for name, path in programs.items()},
        generic={"name": "xdp", "options": {"object": programs["pass"], "mode": "generic"}},
        generic_drop={"name": "xdp", "options": {"object": programs["drop"], "mode": "generic"}},
    )
    assert_said(found, _OF_PROGRAMS)


def applications(folder: Path, changed: dict[str, dict[str, str]]) -> dict[str, Path]:
    return {name: hop(folder, name, changes) for name, changes in changed.items()}


def command(*argv: object) -> dict[str, Any]:
    return {"name": "command", "options": {"argv": [*map(str, argv)], "ready_s": 0.5}}


def test_an_application_of_somebody_s(lab: Lab, tmp_path: Path) -> None:
    made = applications(tmp_path, _APPLICATIONS)
    lab.testbed.write_text(lab.testbed.read_text(encoding="utf-8") + "queues: 2\n", encoding="utf-8")
    xdpfwd = project_root() / "bpf" / "build" / "xdpfwd"
    found = reasons(
        lab,
        [*made.values(), xdpfwd, "sleep"],
        **{name: command(path, "{port_a}", "{port_b}") for name, path in made.items()},
        refused=command(xdpfwd, "--if0={port_a}", "--if1={port_b}"),
        nothing=command("sleep", 60),
    )
    assert_said(found, _OF_APPLICATIONS)


def test_frames_that_a_trial_loses_are_found_in_the_fill_ring(lab: Lab) -> None:
    """64 frames wait for bursts of 1,500."""
    done = lab.run(
        forwarders=["xsk:fill_ring=64,frames=512"],
        traffic={"probe_pps": 1000, "load_pps": 150000, "departures": "burst:1500"},
    )
    assert done.code in (0, 1), done.err
    (row,) = lab.rows()
    assert row["status"] == "ok"
    said = re.fullmatch(
        r"of [\d,]+ frames A→C ([\d,]+) were lost: [\d,]+ redirects by map targets at key 0 failed: ENOMEM "
        r"\(the socket's fill ring is empty\), AF_XDP socket 1 of 2 counted rx_dropped ([\d,]+) and "
        r"rx_fill_ring_empty_descs ([\d,]+) \(the fill ring was empty: .*\)",
        row["where_lost"],
    )
    assert said, row["where_lost"]
    assert said[1] == said[2] == said[3]
    assert row["where_lost"] in lab.xdplab("show").out.replace("\n  ", " ")


def test_rules_that_drop_and_tables_without_a_rule_are_named(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "node.flows").write_text(
        "table=0,priority=10,in_port=1 actions=drop\ntable=0,priority=10,in_port=2 actions=goto_table:7\n",
        encoding="utf-8",
    )
    node = tmp_path / "node.yaml"
    node.write_text(
        'flows: node.flows\nports:\n  - {port: 1, mac: "02:00:0a:00:01:0b", ip: 10.0.1.11}\n'
        '  - {port: 2, mac: "02:00:0a:00:01:0c", ip: 10.0.1.12}\n',
        encoding="utf-8",
    )
    done = lab.run(forwarders=["ovs-afpacket"], pipeline=f"openflow:{node}")
    assert done.code == 1, done.err
    (row,) = lab.rows()
    assert re.search(
        r"of \d+ frames A→C, .*ovs-afpacket itself counted rule 'priority=10,in_port=[^']+' of table 0, which drops: "
        r"\d+.*; of \d+ frames C→A, .*ovs-afpacket itself counted no rule of table 7: \d+",
        row["reason"],
    ), row["reason"]
