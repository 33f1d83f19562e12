# SPDX-License-Identifier: Apache-2.0
"""Guests of `xdplab cost`, for real: the same number again, and planted instructions to the last one.

It fetches QEMU and a kernel of Debian's once (ci/nic); each boot takes half a minute of a core.
"""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dev.own_cost import own_cost
from xdplab_cost.cells import DRIVERS, in_guest
from xdplab_cost.features import FEATURES, try_features
from xdplab_cost.guest import Guest
from xdplab_cost.kernels import PINNED, obtain
from xdplab_cost.run import Wanted, measure

pytestmark = pytest.mark.timeout(900)

_PROGRAM = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_DEVMAP_HASH); __uint(max_entries, 2); __type(key, __u32); __type(value, __u32); }
ports SEC(".maps");
SEC("xdp") int forward(struct xdp_md *ctx)
{
	asm volatile("r6 = 1; %s" ::: "r6");
	return bpf_redirect_map(&ports, ctx->ingress_ifindex, 0);
}
char LICENSE[] SEC("license") = "GPL";
"""


def compiled(folder: Path, more: int) -> str:
    source, made = folder / f"more{more}.bpf.c", folder / f"more{more}.o"
    source.write_text(_PROGRAM % ("r6 += 7; " * more), encoding="utf-8")
    include = f"/usr/include/{os.uname().machine}-linux-gnu"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", f"-I{include}", "-c", source, "-o", made], check=True)
    return f"xdp:object={made}"


@pytest.mark.slow
def test_planted_instructions_are_read_as_what_they_are(tmp_path: Path) -> None:
    names = [compiled(tmp_path, more) for more in (0, 50)]
    found = measure(Wanted(["6.1"], ["veth"], names, seeds=(1,)), print)
    plain, planted = (found.cell("6.1", "veth", name) for name in names)
    assert plain
    assert planted
    assert planted.layers["XDP"] - plain.layers["XDP"] == pytest.approx(50, abs=0.01)
    # sendto copies the frame and its address (struct sockaddr_ll), veth the frame again to where XDP may change it
    copied = 60 + 20 + 60
    assert found.cell("6.1", "veth", "tester").events == {
        "system calls": 1.0, "wake-ups": 0.0, "bytes copied": copied,
    }  # fmt: skip


@pytest.mark.slow
def test_our_own_tester_sends_for_far_less_than_a_socket() -> None:
    """All that it takes is counted, also in the BPF programs that each run loads again."""
    found = measure(Wanted(["6.1"], ["veth"], ["xdpgen"], seeds=(1, 2)), print)
    sent, alone = found.cell("6.1", "veth", "xdpgen"), found.cell("6.1", "veth", "tester")
    assert sent.status == "ok"
    assert sent.instructions
    assert alone.instructions
    assert sent.instructions < alone.instructions / 3
    assert sent.high == pytest.approx(sent.low, rel=0.002)
    assert sent.layers["XDP"] > sent.layers["driver"] > 100
    assert sent.events["system calls"] < 0.1


@pytest.mark.slow
def test_what_works_of_af_xdp_on_veth() -> None:
    """Its sockets have no NAPI id, and in copy mode need-wakeup changes nothing."""
    made = obtain("7.2", print)
    found = {each.feature: each.found for each in try_features(made, "7.2", "veth", print, kept=False)}
    inert = ("need-wakeup", "busy polling", "preferred busy polling")
    assert found == dict.fromkeys(FEATURES, "works") | {"no flag": "copy"} | dict.fromkeys(inert, "inert")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver_name", "name"),
    [("veth", "xdp"), ("veth", "ovs-kernel"), ("veth", "ovs-afxdp"), ("igb", "xdp"), ("virtio", "xdp")],
)
def test_the_same_guest_gives_the_same_number(driver_name: str, name: str) -> None:
    """Side by side: what else the machine does at the time changes nothing."""
    driver = DRIVERS[driver_name]
    guest = Guest(obtain("6.1", print), driver, in_guest(name, driver), "b0", 1)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: guest.boot(), range(2))
    assert first.bursts == second.bursts
    assert first.counts == second.counts


#: Another release of gcc or clang may give other code: room for 4 of 75 instructions, and for 6 of 117. What a change
#: of less does, `xdplab gate --cost` says.
COMPILERS = 0.05


@pytest.mark.slow
def test_our_own_programs_take_no_more_of_a_frame_than_they_did() -> None:
    """Where that is meant, or they take less: `python tools/dev own-cost > tools/tests/data/own-cost.json`."""
    stored = json.loads((Path(__file__).parent / "data" / "own-cost.json").read_text(encoding="utf-8"))
    assert own_cost(print) == {name: pytest.approx(count, rel=COMPILERS) for name, count in stored.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", PINNED)
def test_kernels_forward_the_flows_of_open_vswitch_in_xdp(kernel: str) -> None:
    """Linux before 6.3 does not say which devices XDP may send to, and the verifier of 6.1 follows less."""
    name = "ovs-afxdp:flow_offload=true"
    cell = measure(Wanted([kernel], ["veth"], [name], seeds=(1,)), print).cell(kernel, "veth", name)
    assert cell.status == "ok", cell.reason


def test_kernels_are_those_of_the_lane() -> None:
    from nic.artefact import read_pins

    assert set(PINNED) == {pin.part for pin in read_pins()} - {"emulator"}
