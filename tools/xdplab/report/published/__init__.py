# SPDX-License-Identifier: Apache-2.0
"""Files of figures that others published; `NAME/FIGURE` names one."""

from importlib.resources import files

import yaml

from xdplab.analysis.published import PublishedDocument, PublishedFigure
from xdplab.model import InputError, validated


def published_figure(reference: str) -> tuple[PublishedDocument, PublishedFigure]:
    """The document and the figure behind `NAME/FIGURE`.

    Raises:
        InputError: there is none; tells which there are.
    """
    name, _, figure = reference.partition("/")
    folder = files(__package__)
    path = folder / f"{name}.yaml"
    if not name or not path.is_file():
        there = ", ".join(sorted(p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")))
        raise InputError(f"reproduces: {reference!r}: no published document of that name; there are {there}")
    document = validated(PublishedDocument, yaml.safe_load(path.read_text(encoding="utf-8")), str(path))
    if figure not in document.figures:
        there = ", ".join(f"{name}/{known}" for known in document.figures)
        raise InputError(f"reproduces: {reference!r}: no such figure; there are {there}")
    return document, document.figures[figure]
