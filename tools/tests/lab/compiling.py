# SPDX-License-Identifier: Apache-2.0
"""Programs of somebody's, compiled by tests."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from xdplab.tools import project_root


def compiled(folder: Path, name: str, text: str) -> Path:
    source, made = folder / f"{name}.bpf.c", folder / f"{name}.bpf.o"
    source.write_text(text, encoding="utf-8")
    include = f"/usr/include/{os.uname().machine}-linux-gnu"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", f"-I{include}", "-c", source, "-o", made], check=True)
    return made


def compiled_application(folder: Path, name: str, text: str) -> Path:
    source, made = folder / f"{name}.c", folder / name
    source.write_text(text, encoding="utf-8")
    subprocess.run(["cc", "-O2", "-w", source, "-o", made, "-lxdp", "-lbpf"], check=True)
    return made


def hop(folder: Path, name: str, changes: Mapping[str, str]) -> Path:
    """hop.c of docs/own-programs.md, with `changes`."""
    page = (project_root() / "docs" / "own-programs.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"^`hop.c`.*?:\n\n```c\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    text = "#include <unistd.h>\n" + found
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return compiled_application(folder, name, text)
