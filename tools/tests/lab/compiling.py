# SPDX-License-Identifier: Apache-2.0
"""Programs of somebody's, compiled by tests."""

import os
import subprocess
from pathlib import Path


def compiled(folder: Path, name: str, text: str) -> Path:
    """An object for BPF."""
    source, made = folder / f"{name}.bpf.c", folder / f"{name}.bpf.o"
    source.write_text(text, encoding="utf-8")
    include = f"/usr/include/{os.uname().machine}-linux-gnu"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", f"-I{include}", "-c", source, "-o", made], check=True)
    return made


def compiled_application(folder: Path, name: str, text: str) -> Path:
    """A program that uses libxdp."""
    source, made = folder / f"{name}.c", folder / name
    source.write_text(text, encoding="utf-8")
    subprocess.run(["cc", "-O2", "-w", source, "-o", made, "-lxdp", "-lbpf"], check=True)
    return made
