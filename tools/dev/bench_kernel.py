# SPDX-License-Identifier: Apache-2.0
"""Judges `xdplab gate --cost --kernel`: changes planted in Linux's source, each a commit that is built and counted."""

import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from xdplab.model import InputError
from xdplab_cost.gate import judge_cells
from xdplab_cost.run import Cell, Wanted, measure

#: Allowed slowdown: 1.2 instructions of the 3,942 that `xsk` takes on Linux 7.3, 0.4 of the 1,363 of `xdp`.
ALLOWED = 0.0003
_DRIVER = "veth"
_COPY_LIMIT_S = 1800.0

#: Where a plant of `kernel_plants.yaml` goes: the file, whose frames pass there, and after which text.
_PLACES = {
    "xsk_rcv": ("net/xdp/xsk.c", "xsk", "static int xsk_rcv(struct xdp_sock *xs, struct xdp_buff *xdp)\n{\n"),
    "veth_xdp_rcv": ("drivers/net/veth.c", "xdp", "\t\t\tstats->xdp_bytes += xdp_get_frame_len(frame);\n"),
}


@dataclass(frozen=True)
class Plant:
    """A change of Linux's source: `find`, which stands once in `file`, becomes `put`.

    Attributes:
        name: What it is.
        forwarder: Whose frames pass there.
        effect: `more`, `nothing` or `less`: what frames take after it.
    """

    name: str
    file: str
    find: str
    put: str
    forwarder: str
    effect: str


def plants() -> list[Plant]:
    """Those of `kernel_plants.yaml`: changes that frames pay for first."""
    path = Path(__file__).with_name("kernel_plants.yaml")
    return [_plant(entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]


def _plant(entry: dict[str, Any]) -> Plant:
    effect = "nothing" if entry.get("changes_nothing") else "less" if entry.get("saves") else "more"
    if "find" in entry:
        return Plant(entry["name"], entry["file"], entry["find"], entry["put"], entry["forwarder"], effect)
    file, forwarder, find = _PLACES[entry["at"]]
    above, code = entry.get("above", ""), entry.get("code", "")
    if entry["at"] == "xsk_rcv":
        return Plant(entry["name"], file, find, f"{above}{find}{{\n{code}}}\n", forwarder, effect)
    return Plant(entry["name"], file, find, f"{find}{{\n{above}{code}}}\n", forwarder, effect)


@dataclass(frozen=True)
class Found:
    """The gate's result for a plant.

    Attributes:
        verdict: A gate's.
        change: Instructions per frame, after less before.
        before: Instructions per frame.
        where: Functions that took most of it, or why there is no verdict.
    """

    plant: Plant
    verdict: str
    change: float
    before: float
    where: tuple[str, ...]

    @property
    def right(self) -> bool:
        if self.plant.effect == "more":
            return self.verdict == "slower"
        return self.verdict == "pass" and (
            abs(self.change) < 0.5 if self.plant.effect == "nothing" else self.change < 0
        )

    @property
    def row(self) -> str:
        where = ", ".join(self.where)
        null = "null: " if self.plant.effect == "nothing" else ""
        return f"| {null}{self.plant.name} | {self.verdict}, {self.change:+.2f} of {self.before:,.0f} | {where} |"


def debians_source(folder: Path) -> Path:
    """Linux's source as the machine's apt has it, unpacked below the folder.

    Raises:
        InputError: it has none.
    """
    depends = _run(["apt-cache", "depends", "linux-source"], folder)
    name = next((line.split()[-1] for line in depends.splitlines() if "Depends: linux-source-" in line), "")
    if not name:
        raise InputError("linux-source: not in the machine's apt; give a source tree")
    tree = folder / name
    if not tree.is_dir():
        _run(["apt-get", "download", name], folder)
        package = max(folder.glob(f"{name}_*.deb"), key=lambda each: each.stat().st_mtime)
        _run(["dpkg-deb", "--extract", str(package), "package"], folder)
        _run(["tar", "--extract", "--directory=package", f"--file=package/usr/src/{name}.tar.xz"], folder)
        (folder / "package" / name).rename(tree)
    return tree


def repository(source: Path, folder: Path) -> Path:
    """The source in a repository of ours, whose branch `base` is as it was; of a repository its last commit.

    Raises:
        InputError: the folder has one of another source.
    """
    tree, origin = folder / "linux", folder / "source"
    commit = _run(["git", "rev-parse", "HEAD"], source).strip() if (source / ".git").exists() else ""
    words = f"{source.resolve()} {commit}".strip()
    if origin.exists():
        if origin.read_text(encoding="utf-8") != words:
            raise InputError(
                f"{folder} is of {origin.read_text(encoding='utf-8')}: remove it, or give another --folder"
            )
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    if commit:
        _run(["git", "clone", "--quiet", "--shared", str(source.resolve()), str(tree)], folder)
        _run(["git", "checkout", "--quiet", "-B", "base"], tree)
    else:
        _run(["cp", "--archive", "--reflink=auto", f"{source.resolve()}/.", str(tree)], folder)
        _run(["git", "init", "--quiet", "--initial-branch=base"], tree)
        _run(["git", "add", "--all", "--force"], tree)
        _commit(tree, "base")
    origin.write_text(words, encoding="utf-8")
    return tree


def plant(tree: Path, change: Plant) -> str:
    """A branch of its name with that change alone; `TREE@BRANCH`, or "" where what it replaces does not stand once."""
    branch = re.sub(r"[^\w.]+", "-", change.name)
    _run(["git", "checkout", "--quiet", "--force", "-B", branch, "base"], tree)
    file = tree / change.file
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if text.count(change.find) != 1:
        return ""
    file.write_text(text.replace(change.find, change.put), encoding="utf-8")
    _commit(tree, change.name)
    return f"{tree}@{branch}"


def bench_kernel(
    source: Path, folder: Path, wanted: Sequence[Plant], say: Callable[[str], None], seeds: Sequence[int] = (1, 2, 3)
) -> list[Found]:
    """Build and count the source as it is, and after each change.

    Args:
        source: A tree of Linux, which stays as it is.
        folder: For our copy of it.
        wanted: Some of `plants()`.
        say: Called with a line for each guest, and with each result.
        seeds: Of the guests' random numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tree = repository(source, folder.resolve())
    names = list(dict.fromkeys(each.forwarder for each in wanted))
    base = f"{tree}@base"
    before = measure(Wanted([base], [_DRIVER], names, seeds), say)
    found = []
    for each in wanted:
        made = plant(tree, each)
        if not made:
            say(f"{each.name}: does not fit this source; left out")
            continue
        after = measure(Wanted([made], [_DRIVER], [each.forwarder], seeds), say)
        found.append(
            _judged(each, before.cell(base, _DRIVER, each.forwarder), after.cell(made, _DRIVER, each.forwarder))
        )
        say(found[-1].row)
    return found


def _judged(change: Plant, before: Cell, after: Cell) -> Found:
    result = judge_cells(before, after, ALLOWED)
    where = [f"`{name.rpartition(':')[2]}`" for layer in result.changes for name in layer.functions]
    was = before.instructions or 0.0
    now = math.nan if after.instructions is None else after.instructions
    return Found(change, result.verdict, now - was, was, tuple(where[:3]) or (result.reason,))


def _commit(tree: Path, message: str) -> None:
    settings = ("user.name=xdplab", "user.email=xdplab@localhost", "commit.gpgsign=false", "core.hooksPath=/dev/null")
    _run(
        [
            "git",
            *(word for each in settings for word in ("-c", each)),
            "commit",
            "--quiet",
            "--all",
            "--message",
            message,
        ],
        tree,
    )


def _run(argv: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, timeout=_COPY_LIMIT_S, check=False,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    if done.returncode:
        raise InputError(f"{argv[0]}: {(done.stderr.strip().splitlines() or ['it fails'])[-1]}")
    return done.stdout
