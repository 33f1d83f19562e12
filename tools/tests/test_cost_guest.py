# SPDX-License-Identifier: Apache-2.0
"""Guests of `xdplab cost`, for real: the same number again, and planted instructions to the last one.

It fetches QEMU and a kernel of Debian's once (ci/nic); each boot takes half a minute of a core.
"""

import os
import subprocess
from pathlib import Path

import pytest

from xdplab.cost.cells import DRIVERS, KERNELS, forwarder
from xdplab.cost.guest import artefact, boot
from xdplab.cost.run import Wanted, measure

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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["xdp", "ovs-kernel"])
def test_the_same_guest_gives_the_same_number(name: str) -> None:
    driver = DRIVERS["veth"]
    made, asked = artefact("6.1", print), forwarder(name, driver)
    first, second = (boot(made, driver, asked, 1) for _ in range(2))
    assert first.bursts == second.bursts
    assert first.counts == second.counts


def test_kernels_are_those_of_the_lane() -> None:
    from nic.artefact import read_pins

    assert set(KERNELS) == {pin.part for pin in read_pins()} - {"emulator"}
