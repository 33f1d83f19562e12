# SPDX-License-Identifier: Apache-2.0
"""docs/data-format.md, made of the models: each field with its type, its default and the `#:` lines above it."""

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from xdplab.analysis.tables.columns import own_columns
from xdplab.analysis.tables.export import ExportRow
from xdplab.measure import Method, PointFigures, method_class, method_names
from xdplab.measure.point import PointSummary
from xdplab.model import SCHEMA_VERSION, MethodSpec, Model, RunRecord, TrialRecord
from xdplab.model.described import described
from xdplab.results.bundle import BundleManifest

_HEAD = f"""\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Made by `xdplab dev data-format`; tools/tests/test_documents.py compares. Change the models, not this file. -->
# Data format

A run is a folder `results/NAME-TIME` with three files. `run.json` says what was asked for, where and with what;
`trials.jsonl` has a line for each trial, in the order in which they were taken, and is the truth: each line is on the
disk before the next trial begins. `report.html` is drawn from the two (`xdplab report RUN`). Both carry
`schema_version`, now {SCHEMA_VERSION}; xdplab refuses another one. `xdplab schema` prints the JSON Schema of study and
testbed files, of `run.json`, of a line of `trials.jsonl` and of `show --json`; patterns of names stand there too. What
methods put into `figures` of a trial is in [methods.md](methods.md), what words mean in [glossary.md](glossary.md).

Units are in the names: `_ns`, `_us`, `_s`, `_pps` (frames per second), `_bps` (bits per second), `_bytes`, `_ratio`
and `_share` (1 is all). `null`, None in the descriptions, stands for what is not known or does not exist; a scalar is a
number, a text, true or false. A dash in the column of defaults: the field must be given. xdplab writes every field.
"""
_SHOW = """\
`xdplab show RUN --json` prints a list with an object for each point, in the study's order; `xdplab.api.Run.rows()`
gives the same. An object has the fields of `PointSummary` and, beside, columns of its method. `xdplab show --csv` has
the columns of the table alone.
"""
_EXPORT = """\
`xdplab export RUN --format csv` (RFC 4180, UTF-8, with a head line) and `--format parquet` (needs
`pip install 'xdplab[parquet]'`) have a row for each point and figure, with these columns in this order: each figure
that the method declares, measured or not, and the other numbers of its table. New columns come at the end.

`--format openmetrics` has the same figures as gauges in base units, as `xdplab_p50_seconds` and
`xdplab_ndr_frames_per_second`, with the lowest and highest repetition (`xdplab_p50_low_seconds`) and what a rate is
below (`xdplab_ndr_below_frames_per_second`); counts (`xdplab_repetitions`, `xdplab_clean`, `xdplab_disturbed`),
`xdplab_status` and `xdplab_run_info`. Label `bound` is `none`, `at least` or `below`; `doubtful="yes"` where `doubts`
or `machine_tail` says so. No sample has a time stamp: `xdplab_run_started_seconds` says when it was.

`--format junit` makes a suite of the run and a test of each point: `unsupported` is skipped with its reason; `failed`,
`partial` and a loss above `max_loss_ratio` are failures; a point that an ended run did not come to is an error.
"""
_BUNDLE = """\
`xdplab bundle RUN -o FILE` packs the three files of a run, behind `manifest.json`, into a `.tar.gz` or `.zip`, in a
folder with the run's name; `xdplab import FILE` puts them among the results. Other members, links, folders, other
checksums and other versions are refused. The report is drawn again where the bundle is imported.
"""
_LIMITS = (
    ("minimum", "from {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "to {}"),
    ("exclusiveMaximum", "below {}"),
)
_KINDS = {"string": "text", "boolean": "true or false", None: "anything"}
_SCALAR = ["true or false", "integer", "number", "text"]
#: Longer defaults are told where they are from.
_LONG = 30


def data_format() -> str:
    """The whole document."""
    listed: dict[str, type[Model]] = {}
    parts = [_HEAD]
    for title, root in (("run.json", RunRecord), ("trials.jsonl", TrialRecord)):
        parts += [f"## {title}\n", *_sections(root, listed)]
    parts += ["## show --json\n", _SHOW, *_own_columns(), *_sections(PointSummary, listed)]
    parts += ["## export\n", _EXPORT, *_sections(ExportRow, listed)]
    return "\n".join([*parts, "## Bundles\n", _BUNDLE, *_sections(BundleManifest, listed)])


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


def _own_columns() -> Iterator[str]:
    yield "| method | columns beside the fields of `PointSummary`, with their heads |\n|---|---|"
    for method in own_methods():
        found = [f"`{each.key}` ({each.title})" for each in own_columns(method) if each.key not in _FIELDS]
        yield f"| {method.name} | {', '.join(found) or '–'} |"
    yield ""


_FIELDS = PointSummary.model_fields


@cache
def own_methods() -> tuple[type[Method[Any]], ...]:
    """Those of this package, each once; other packages have documents of their own."""
    found = dict.fromkeys(method_class(name) for name in method_names())
    ours = [method for method in found if method.__module__.startswith("xdplab.")]
    return tuple(sorted(ours, key=lambda method: method.name))


def models_of(model: type[Model], listed: dict[str, type[Model]] | None = None) -> Iterator[type[Model]]:
    """The model, and those within it, each once."""
    listed = {} if listed is None else listed
    if listed.setdefault(model.__name__, model) is not model:
        raise LookupError(f"two models are called {model.__name__}")
    yield model
    for field in _written(model).values():
        for inner in _inside(field.annotation):
            if listed.get(inner.__name__) is not inner:
                yield from models_of(inner, listed)


def _written(model: type[Model]) -> dict[str, FieldInfo]:
    """Fields that are in a file."""
    return {name: field for name, field in model.model_fields.items() if not field.exclude}


def _inside(annotation: Any) -> Iterator[type[Model]]:
    """Models that a type names; for a base, those of our methods."""
    if get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, Model):
        yield from _meant(annotation)
    for part in get_args(annotation):
        yield from _inside(part)


def _meant(model: type[Model]) -> Iterable[type[Model]]:
    if model is MethodSpec:
        return [method.spec_model for method in own_methods()]
    if model is PointFigures:
        made = dict.fromkeys(method.point_figures.__annotations__["return"] for method in own_methods())
        return [figures for figures in made if figures is not PointFigures]
    return [model]


def rows(model: type[Model]) -> Iterator[tuple[str, str, str, str]]:
    """Key, type, default and description of each field, as they are written."""
    schema = model.model_json_schema(by_alias=True, mode="serialization")
    if schema.keys().isdisjoint({"properties", "$ref"}):  # it writes itself in a way of its own
        schema = model.model_json_schema(by_alias=True)
    inner = schema.get("$defs", {})
    if "$ref" in schema:  # a model that holds itself
        schema = inner[model.__name__]
    told = described(model)
    for name, field in _written(model).items():
        key = field.alias or name
        found = schema["properties"][key]
        default = "–" if key in schema.get("required", ()) else _default(found)
        meant = {each.__name__ for each in _inside(field.annotation)}
        based = MethodSpec in _bases(field.annotation) or PointFigures in _bases(field.annotation)
        kind = " or ".join(map(_link, sorted(meant))) if based else _type(found, inner)
        yield key, kind, default, told.get(name, "")


def _bases(annotation: Any) -> set[Any]:
    return {annotation, *get_args(annotation)}


def _default(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else ""
    return f"`{text}`" if 0 < len(text) <= _LONG else "its own"


def _type(schema: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    """A JSON Schema in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _type(inner[name], inner) if "enum" in inner[name] else _link(name)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            found = list(dict.fromkeys(_type(each, inner) for each in schema[key]))
            return "scalar" if found == _SCALAR else " or ".join(found)
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        return " or ".join(f"`{value}`" for value in values)
    kind = schema.get("type")
    if kind == "array":
        several = schema.get("prefixItems")
        each = _type(several[0] if several else schema.get("items", {}), inner)
        return f"list of {f'{len(several)}: ' if several else ''}{f'({each})' if ' or ' in each else each}"
    if kind == "object":
        values_of = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
        return f"map to {_type(values_of, inner) if isinstance(values_of, dict) else 'anything'}"
    limits = [words.format(f"{schema[key]:,.12g}") for key, words in _LIMITS if key in schema]
    return " ".join([str(_KINDS.get(kind, kind)), *limits])


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"
