# SPDX-License-Identifier: Apache-2.0
"""Where the project's own programs and folders are."""

import errno
import hashlib
import os
from pathlib import Path


def project_root() -> Path:
    """The checkout that this package runs from, or the current folder for an installed package."""
    here = Path(__file__).resolve().parents[2]
    return here if (here / "pyproject.toml").is_file() else Path.cwd()


def folder_of(variable: str, default: Path) -> Path:
    """The folder that a variable of the environment names, or the default.

    Raises:
        OSError: it is set and empty, which as a path would be the current folder.
    """
    given = os.environ.get(variable)
    if given == "":
        raise NotADirectoryError(errno.ENOTDIR, "is empty; name a folder, or unset it", variable)
    return Path(given or default)


def results_folder() -> Path:
    """`results/` of the checkout, or `XDPLAB_RESULTS`."""
    return folder_of("XDPLAB_RESULTS", project_root() / "results")


def studies_folder() -> Path:
    """`suites/studies/` of the checkout."""
    return project_root() / "suites" / "studies"


def testbeds_folder() -> Path:
    """`suites/testbeds/` of the checkout."""
    return project_root() / "suites" / "testbeds"


def bpf_program(name: str) -> Path | None:
    """A program of `bpf/`: from `XDPLAB_BPF_DIR`, else `bpf/build` of the checkout; None when it is not built."""
    path = folder_of("XDPLAB_BPF_DIR", project_root() / "bpf" / "build") / name
    return path if os.access(path, os.X_OK) else None


def program_digest(name: str) -> str:
    """SHA-256 of a program of `bpf/`; `absent` when it is not built."""
    path = bpf_program(name)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else "absent"
