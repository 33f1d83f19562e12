# SPDX-License-Identifier: Apache-2.0
"""Linux built from Debian's source, for real: a lock planted in net/xdp/xsk.c is found by the gate, a comment is not.

Half an hour of two cores, and 8 GB for the tree and what is built of it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from lab.command import Done
from lab.linux import git, linux_tree

from dev.bench_kernel import bench_kernel, debians_source, plant, plants, repository


def test_a_plant_is_a_branch_with_that_change_alone(tmp_path: Path) -> None:
    source = linux_tree(tmp_path)
    before = "static int xsk_rcv(struct xdp_sock *xs, struct xdp_buff *xdp)\n{\n\treturn 0;\n}\n"
    (source / "net/xdp/xsk.c").write_text(before, encoding="ascii")
    git(source, "commit", "-q", "-a", "-m", "two")
    (tmp_path / "work").mkdir()
    tree = repository(source, tmp_path / "work")
    changes = {each.name: each for each in plants()}
    assert plant(tree, changes["xsk.c: a comment"]) == f"{tree}@xsk.c-a-comment"
    made = plant(tree, changes["xsk.c: a lock taken and given back"])
    _, _, branch = made.partition("@")
    added = [line for line in git(tree, "diff", "base", branch).splitlines() if line[:1] in "+-"][2:]
    assert added == [
        "+static DEFINE_SPINLOCK(xdplab_lock);", "+{", "+spin_lock(&xdplab_lock);", "+spin_unlock(&xdplab_lock);", "+}",
    ]  # fmt: skip
    assert plant(tree, changes["veth.c: a read of the clock"]) == ""
    assert (source / "net/xdp/xsk.c").read_text(encoding="ascii") == before


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_gate_finds_what_is_planted_in_the_kernels_source(tmp_path: Path, cli: Callable[..., Done]) -> None:
    changes = {each.name: each for each in plants()}
    lock, comment = changes["xsk.c: a lock taken and given back"], changes["xsk.c: a comment"]
    found = bench_kernel(debians_source(tmp_path), tmp_path, [lock, comment], print, seeds=(1,))
    assert [each.verdict for each in found] == ["slower", "pass"]
    assert 4 < found[0].change < 40
    assert any("xsk" in where for where in found[0].where)
    assert found[1].change == pytest.approx(0, abs=0.5)
    assert all(each.right for each in found)
    kernels = [f"--kernel={tmp_path}/linux@{branch}" for branch in ("base", "xsk.c-a-lock-taken-and-given-back")]
    page = tmp_path / "page.md"
    gate = ("gate", "xsk", "xsk", "--cost", *kernels, "--max-slowdown", "0.03%", "--markdown", page)
    done = cli(*gate)
    assert done.code == 1, done
    assert "xsk" in page.read_text(encoding="utf-8")
