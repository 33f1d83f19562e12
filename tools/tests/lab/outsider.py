# SPDX-License-Identifier: Apache-2.0
"""A distribution of somebody else, as pip would lay it out: a module and a dist-info folder with entry points."""

import configparser
from collections.abc import Mapping
from pathlib import Path


def distribution(folder: Path, name: str, points: Mapping[str, Mapping[str, str]], module: str = "") -> Path:
    """Make it in `folder`, which then belongs on PYTHONPATH.

    Args:
        folder: where.
        name: of the distribution and, when `module` has text, of its module.
        points: entry point group -> name -> `module:object`.
        module: source text.
    """
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_dict(points)
    with (info / "entry_points.txt").open("w", encoding="utf-8") as file:
        parser.write(file)
    if module:
        (folder / f"{name}.py").write_text(module, encoding="utf-8")
    return folder
