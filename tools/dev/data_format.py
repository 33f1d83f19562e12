# SPDX-License-Identifier: Apache-2.0
"""docs/data-format.md, made of the models: each field with its type, its default and the `#:` lines above it."""

import inspect
from collections.abc import Iterator

from xdplab.analysis.columns import own_columns
from xdplab.analysis.export import ExportRow
from xdplab.cli.parts import link, models_of, own_methods, rows
from xdplab.measure.point import PointSummary
from xdplab.model import SCHEMA_VERSION, Model, RunRecord, TrialRecord

_HEAD = f"""\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Made by `python tools/dev data-format`; tools/tests/test_documents.py compares. Change the models. -->
# Data format

A run is a folder `results/NAME-TIME` with three files. `run.json` says what was asked for, where and with what;
`trials.jsonl` has a line for each trial, in the order in which they were taken, and is the truth: each line is on the
disk before the next trial begins. `report.html` is drawn from the two (`xdplab report RUN`). Both carry
`schema_version`, now {SCHEMA_VERSION}; xdplab refuses another one. `xdplab schema` prints the JSON Schema of study and
testbed files, of `run.json`, of a line of `trials.jsonl` and of `show --json`; patterns of names stand there too. What
words mean is in [glossary.md](glossary.md).

Units are in the names: `_ns`, `_us`, `_s`, `_pps` (frames per second), `_bps` (bits per second), `_bytes`, `_ratio`
and `_share` (1 is all). `null`, None in the descriptions, stands for what is not known or does not exist; a scalar is a
number, a text, true or false. A dash in the column of defaults: the field must be given. xdplab writes every field.
"""
_FIGURES = """\
`figures` of a line of `trials.jsonl` is empty, or one of the records of the run's method. Clauses, and how figures are
made of all this, are in [methods.md](methods.md).
"""
_SHOW = """\
`xdplab show RUN --json` prints a list with an object for each point, in the study's order; `xdplab.api.Run.rows()`
gives the same. An object has the fields of `PointSummary` and, beside, columns of its method. `xdplab show --csv` has
the columns of the table alone.
"""
_EXPORT = """\
`xdplab export RUN --format csv` (RFC 4180, UTF-8, with a head line) has a row for each point and figure, with these
columns in this order: each figure
that the method declares, measured or not, and the other numbers of its table. New columns come at the end. In every CSV
file a text that a spreadsheet would run (it begins with `=`, `+`, `-`, `@`, a tab or a line end, and is no number) has
an apostrophe in front.

`--format junit` makes a suite of the run and a test of each point: `unsupported` is skipped with its reason; `failed`,
`partial` and a loss above `max_loss_ratio` are failures; a point that an ended run did not come to is an error.
"""


def data_format() -> str:
    listed: dict[str, type[Model]] = {}
    parts = [_HEAD]
    for title, root in (("run.json", RunRecord), ("trials.jsonl", TrialRecord)):
        parts += [f"## {title}\n", *_sections(root, listed)]
    parts += ["## figures of a trial\n", _FIGURES, *_records(), *_sections_of_records(listed)]
    parts += ["## show --json\n", _SHOW, *_own_columns(), *_sections(PointSummary, listed)]
    parts += ["## export\n", _EXPORT, *_sections(ExportRow, listed)]
    return "\n".join(parts)


def _sections(root: type[Model], listed: dict[str, type[Model]]) -> Iterator[str]:
    """Of a model and all that it is made of, without those that are listed already."""
    for model in models_of(root, listed):
        lines = ["| field | type | default | |", "|---|---|---|---|"]
        for name, *cells in rows(model):
            if not cells[-1]:
                raise LookupError(
                    f"{model.__module__}: {model.__name__}.{name}: no line `#: ...` above it says what it is"
                )
            lines.append("| " + " | ".join([f"`{name}`", *(text.replace("|", "\\|") for text in cells)]) + " |")
        yield f"### {model.__name__}\n\n{inspect.getdoc(model)}\n\n" + "\n".join(lines) + "\n"


def _records() -> Iterator[str]:
    yield "| method | records |\n|---|---|"
    for method in own_methods():
        yield f"| {method.name} | {', '.join(link(each.__name__) for each in method.records) or '–'} |"
    yield ""


def _sections_of_records(listed: dict[str, type[Model]]) -> Iterator[str]:
    for record in dict.fromkeys(each for method in own_methods() for each in method.records):
        yield from _sections(record, listed)


def _own_columns() -> Iterator[str]:
    yield "| method | columns next to the fields of `PointSummary`, with their heads |\n|---|---|"
    for method in own_methods():
        found = [f"`{each.key}` ({each.title})" for each in own_columns(method) if each.key not in _FIELDS]
        yield f"| {method.name} | {', '.join(found) or '–'} |"
    yield ""


_FIELDS = PointSummary.model_fields
