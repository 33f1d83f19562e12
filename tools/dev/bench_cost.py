# SPDX-License-Identifier: Apache-2.0
"""Judges the gate by instructions: whether it finds what is planted in XDP programs, and nothing else."""

import os
import random
import subprocess
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xdplab.analysis.gate import GateResult
from xdplab_cost.gate import judge_cells
from xdplab_cost.run import Wanted, measure

#: What is planted is at least so much of a frame's cost; the gate allows half of it.
PLANTED, ALLOWED = 0.005, 0.0025
#: Of the program that nothing is planted in, on veth with Linux 6.1, above the tester: 7 instructions are 0.6 %.
_PLANT = 7
_KERNEL, _DRIVER = "6.1", "veth"

_PROGRAM = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_DEVMAP_HASH); __uint(max_entries, 2); __type(key, __u32); __type(value, __u32); }
ports SEC(".maps");
const char padding[] SEC(".rodata.padding") = { %s };
SEC("xdp") int forward(struct xdp_md *ctx)
{
	asm volatile("r6 = 1; %s" ::: "r6");
	return bpf_redirect_map(&ports, ctx->ingress_ifindex, 0);
}
char LICENSE[] SEC("license") = "GPL";
"""


@dataclass(frozen=True)
class Judged:
    """What was right, of how many.

    Attributes:
        plants: Programs with more instructions that were found slower.
        quiet: Pairs of equal programs in files of another length that passed.
        bisections: Histories of which the first slower commit was found.
        smallest: The least that was planted, as a share of the cost of a frame.
    """

    plants: tuple[int, int]
    quiet: tuple[int, int]
    bisections: tuple[int, int]
    smallest: float

    @property
    def text(self) -> str:
        return (
            f"plants of at least {100 * self.smallest:.2f} %, found: {self.plants[0]} of {self.plants[1]}\n"
            f"equal programs that passed: {self.quiet[0]} of {self.quiet[1]}\n"
            f"bisections of {self.plants[1]} commits that were right: {self.bisections[0]} of {self.bisections[1]}\n"
            f"allowed: {100 * ALLOWED:g} %"
        )


def program(folder: Path, layout: int, more: int) -> str:
    """A forwarder whose program does `more` instructions that no frame needs, in a file of another length."""
    made = folder / f"layout{layout}-more{more}.o"
    numbers = random.Random(layout)  # noqa: S311 (bytes of no meaning)
    padding = ",".join(str(numbers.randrange(128)) for _ in range(1 + numbers.randrange(4000)))
    source = _PROGRAM % (padding, f"r6 += {layout}; " * more)
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    argv = ["clang", "-O2", "-g", "-target", "bpf", include, "-x", "c", "-c", "-", "-o", str(made)]
    subprocess.run(argv, input=source, text=True, check=True)
    return f"xdp:object={made}"


def bench_cost(folder: Path, plants: int, histories: int, jobs: int, say: Callable[[str], None]) -> Judged:
    """Boot all programs, and ask the gate about pairs and histories of them; each boot counts for several.

    Args:
        folder: For the programs.
        plants: How many; twice as many pairs of equal programs.
        histories: How many.
        jobs: Guests at once.
        say: Called with a line for each guest.
    """
    equal = [program(folder, layout, 0) for layout in range(1, plants + 3)]
    slower = [program(folder, layout, _PLANT) for layout in range(101, 101 + plants)]
    table = measure(Wanted([_KERNEL], [_DRIVER], [*equal, *slower], jobs=jobs), say)

    def judged(base: str, new: str) -> GateResult:
        return judge_cells(table.cell(_KERNEL, _DRIVER, base), table.cell(_KERNEL, _DRIVER, new), ALLOWED)

    found = [judged(base, new) for base, new in zip(equal, slower, strict=False)]
    pairs = [(one, two) for step in (1, 2) for one, two in zip(equal, equal[step:], strict=False)][: 2 * plants]
    quiet = [judged(*pair).verdict == "pass" for pair in pairs]
    numbers = random.Random(1)  # noqa: S311 (an order)
    right = [_bisected(numbers, equal, slower, judged) for _ in range(histories)]
    return Judged(
        (sum(each.verdict == "slower" for each in found), len(found)),
        (sum(quiet), len(quiet)),
        (sum(right), len(right)),
        min((each.slowdown or 1.0) - 1 for each in found),
    )


def _bisected(
    numbers: random.Random, equal: list[str], slower: list[str], judged: Callable[[str, str], GateResult]
) -> bool:
    """Whether bisection, as of `git bisect run xdplab gate`, finds from where on commits are slower."""
    commits = len(slower)
    first = numbers.randrange(commits)
    good, *fast = numbers.sample(equal, first + 1)
    history = [*fast, *numbers.sample(slower, commits - first)]
    return bisect_left(history, True, key=lambda commit: judged(good, commit).verdict == "slower") == first
