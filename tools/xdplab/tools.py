# SPDX-License-Identifier: Apache-2.0
"""Where the project's own programs and folders are."""

import hashlib
import os
from pathlib import Path


def project_root() -> Path:
    """The checkout that this package runs from, or the current folder for an installed package."""
    here = Path(__file__).resolve().parents[2]
    return here if (here / "pyproject.toml").is_file() else Path.cwd()


def results_folder() -> Path:
    """`results/` of the checkout, or `XDPLAB_RESULTS`."""
    return Path(os.environ.get("XDPLAB_RESULTS", project_root() / "results"))


def testbeds_folder() -> Path:
    """`suites/testbeds/` of the checkout."""
    return project_root() / "suites" / "testbeds"


def bpf_program(name: str) -> Path | None:
    """A program of `bpf/`: from `XDPLAB_BPF_DIR`, else `bpf/build` of the checkout; None when it is not built."""
    path = Path(os.environ.get("XDPLAB_BPF_DIR", project_root() / "bpf" / "build")) / name
    return path if os.access(path, os.X_OK) else None


def program_digest(name: str) -> str:
    """SHA-256 of a program of `bpf/`; `absent` when it is not built."""
    path = bpf_program(name)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else "absent"
