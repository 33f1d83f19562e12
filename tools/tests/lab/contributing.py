# SPDX-License-Identifier: Apache-2.0
"""The examples of CONTRIBUTING.md, as the files that it says they are."""

import re
import tomllib
from pathlib import Path

from lab.outsider import distribution
from xdplab.tools import project_root

#: What it calls a program; this one waits until it is ended.
PROGRAM = "#!/bin/sh\nexec sleep 600\n"


def examples() -> dict[str, str]:
    text = (project_root() / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.findall(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(dict(found)) == len(found)
    return dict(found)


def package(folder: Path) -> tuple[Path, dict[str, str]]:
    """It as pip would install it; the folder of its program and the file of its setting, for its environment."""
    files = examples()
    distribution(folder, "acme", tomllib.loads(files["pyproject.toml"])["project"]["entry-points"])
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "acme-switch").write_text(PROGRAM, encoding="utf-8")
    (programs / "acme-switch").chmod(0o755)
    depth = folder / "depth"
    depth.write_text("7", encoding="utf-8")
    return folder, {"ACME_DEPTH": str(depth), "PROGRAMS": str(programs)}
