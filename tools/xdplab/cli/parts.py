# SPDX-License-Identifier: Apache-2.0
"""`xdplab list` and `xdplab explain`: every part that is installed, as its own source or file tells of it."""

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo

from xdplab.analysis.columns import schema_of_rows
from xdplab.app import study_files
from xdplab.forwarders.base import GROUP as FORWARDERS
from xdplab.forwarders.options import Key, RawOptions
from xdplab.knobs import Knob, make_knob
from xdplab.knobs.base import GROUP as KNOBS
from xdplab.measure import Method, PointFigures, method_class
from xdplab.model import InputError, MethodSpec, Model, RunRecord, StudySpec, TestbedSpec, TrialRecord, plugins
from xdplab.model.base import above, described, document
from xdplab.model.design import RAW
from xdplab.model.errors import meant
from xdplab.model.pipeline import KINDS, ONE_WAY, SIZED
from xdplab.model.study import GROUP as METHODS
from xdplab.testers.base import GROUP as TESTERS
from xdplab.tools import project_root, testbeds_folder

_WIDTH = 118
_INDENT: dict[str, Any] = {"initial_indent": " " * 6, "subsequent_indent": " " * 6}


class Part(NamedTuple):
    """One thing that a study or a command line may name."""

    kind: str
    name: str
    #: What it is; the first sentence is that of the list.
    text: str
    #: Paragraphs of the explanation below it, asked for when somebody wants them.
    more: Callable[[], Iterable[str]]


def listed(kind: str | None) -> str:
    """Names and first sentences, of one kind or of all.

    Raises:
        InputError: no such kind.
    """
    if kind is not None and kind not in _KINDS:
        raise InputError(f"list: {kind!r}: unknown{meant(kind, _KINDS)}; there are {', '.join(_KINDS)}")
    found = []
    for each in [kind] if kind else _KINDS:
        parts = list(_KINDS[each]())
        width = max((len(part.name) for part in parts), default=0)
        found += [f"{each}:", *(f"  {part.name:<{width}}  {_first(part.text)}" for part in parts), ""]
    return "\n".join([*found, "`xdplab explain NAME` describes one."])


def explained(name: str) -> str:
    """All that is called so.

    Raises:
        InputError: nothing is.
    """
    parts = [part for kind in _KINDS.values() for part in kind()]
    found = [part for part in parts if part.name == name]
    if not found:
        close = meant(name, [part.name for part in parts])
        raise InputError(f"explain: unknown name {name!r}{close}; `xdplab list` names all")
    return "\n\n".join(_described(part) for part in found)


def by_kind() -> dict[str, dict[str, str]]:
    """Kind -> name -> explanation, of everything; for the documents."""
    return {kind: {part.name: _described(part) for part in parts()} for kind, parts in _KINDS.items()}


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schemas of what is read and written."""
    found = {model.__name__: model.model_json_schema() for model in (StudySpec, TestbedSpec)}
    found |= {model.__name__: model.model_json_schema(mode="serialization") for model in (RunRecord, TrialRecord)}
    return {**found, "show --json": schema_of_rows()}


def names() -> list[str]:
    """Of everything, for the shell's completion."""
    return sorted({part.name for kind in _KINDS.values() for part in kind()})


def _described(part: Part) -> str:
    blocks = [f"{part.kind} {part.name}", part.text, *part.more()]
    return "\n\n".join(textwrap.indent(each, "  " * bool(number)) for number, each in enumerate(blocks) if each)


def _first(text: str) -> str:
    sentence = re.split(r"(?<=[.?])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(".")
    return textwrap.shorten(re.sub(r"^Method `[a-z]+`: ", "", sentence), _WIDTH - 24, placeholder=" ...")


def _of_group(kind: str, group: str, more: Callable[[str, Any], Iterable[str]]) -> Callable[[], Iterator[Part]]:
    """Parts that are found by an entry point; the document of their module, which names its sources, comes last."""

    def parts() -> Iterator[Part]:
        for entry in plugins.entries(group):
            part = entry.load()
            what = getattr(part, "spec_model", part)  # a method's spec says what is measured, its class how
            own = document(what) if vars(what).get("__doc__") else above(entry.module, entry.attr)
            behind = partial(_with_module, entry.module, more, entry.name, part)
            yield Part(kind, entry.name, own or document(what), behind)

    return parts


def _with_module(module: str, more: Callable[[str, Any], Iterable[str]], name: str, part: Any) -> Iterator[str]:
    yield from more(name, part)
    yield document(sys.modules[module])


def _forwarder(name: str, part: Any) -> Iterator[str]:
    yield from _options(part.options_model, f"{name}:OPTION=VALUE,...")
    yield _needs(part.unsupported)


def _tester(name: str, part: Any) -> Iterator[str]:
    yield from _forwarder(name, part)
    yield "\n".join(f"no figures of `{clause}`: {why}" for clause, why in part.cannot.items())


def _knob(name: str, part: Any) -> Iterator[str]:
    yield f"values: {_values(make_knob(name))}; `unset` leaves it as it is"
    yield _needs(part.unsupported)
    yield f"set after {', '.join(part.after)}" if part.after else ""
    yield "outlives a run that is killed: `xdplab restore` puts it back" if part.scope == "system" else ""
    yield f'xdplab run STUDY --set "knobs={{{name}: [VALUE, ...]}}"'


def _values(knob: Knob) -> str:
    """What it says to a value that it cannot take."""
    try:
        knob.check("?")
    except InputError as exc:
        return re.sub(r"^is (not|none of|neither|no) ?", "", str(exc).partition("'?' ")[2]).strip()
    return "any"


def _pipeline(kind: str) -> Iterator[str]:
    yield f"{kind}:N takes 1 to {SIZED[kind]:,}" if kind in SIZED else ""
    yield f"measured from the tester's side only: {kind} does not take what the other begins" if kind in ONE_WAY else ""
    does = [each.name for each in plugins.entries(FORWARDERS) if kind in each.load().pipelines]
    yield f"done by {', '.join(does)}"
    size = f":{min(1000, SIZED[kind])}" if kind in SIZED else ""
    yield f"robot -v PIPELINE:{kind}{size} suites/latency.robot"


def _method(name: str, part: Any) -> Iterator[str]:
    yield from _options(part.spec_model, f"method: {{name: {name}, KEY: VALUE}}")
    yield "figures:\n" + "\n".join(f"  {each.key}: {each.title}" for each in part.figures)


def _options(model: type[Model] | None, use: str) -> Iterator[str]:
    """Each field of a model and of those in it: type, default, what it is, what its own metadata says of it."""
    if model is None or not model.model_fields:
        yield "no options"
        return
    for number, each in enumerate(models_of(model)):
        lines = [f"{each.__name__}:" if number else f"options ({use}):"]
        for key, kind, default, text in rows(each):
            beside = [it.documented() for it in each.model_fields[key].metadata if isinstance(it, Key)]
            if key == RAW and issubclass(each, RawOptions):
                beside += [f"{RAW}.{place}: {where}." for place, where in each.raw_places.items()]
            said = " ".join(filter(None, [text, *beside]))
            of = f"  {key}: {_plain(kind)}" + (f"; default {_plain(default)}" if default != "–" else "; must be given")
            lines += [of, *textwrap.wrap(said, _WIDTH, break_on_hyphens=False, **_INDENT)]
        yield "\n".join(lines)


def _plain(cell: str) -> str:
    """A cell of the documents for a terminal."""
    return re.sub(r"\[(\w+)\]\(#\w+\)", r"\1", cell).replace("`", "").replace("its own", "(see the source)")


def _needs(unsupported: Any) -> str:
    """Where it is inactive: what it says of its own check of the machine."""
    own = not unsupported.__module__.endswith(".base") and document(unsupported)
    return f"where: {own}" if own else ""


def _study(path: Path) -> Part:
    return Part("study", path.stem, _comment(path), lambda: [f"xdplab run {path.stem} --dry-run", f"file: {path}"])


def _testbed(path: Path) -> Part:
    return Part("testbed", path.stem, _comment(path), lambda: [f"xdplab doctor --testbed {path.stem}", f"file: {path}"])


@cache
def _suite(path: Path) -> Part:
    from robot.api import TestSuite

    suite = TestSuite.from_file_system(path)
    given = [
        f"-v {each.name[2:-1]}:{'  '.join(each.value).replace('${EMPTY}', '')}" for each in suite.resource.variables
    ]
    more = ["\n".join(["variables:", *(f"  {each}" for each in given)]), f"robot {path}"]
    return Part("suite", path.stem, suite.doc, lambda: more)


def _comment(path: Path) -> str:
    """What stands at a file's head, below the licence."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    head = lines[: next((number for number, line in enumerate(lines) if not line.startswith("#")), 0)]
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in head)


#: Kind -> all parts of it; what `xdplab list` may be asked for.
_KINDS: dict[str, Callable[[], Iterable[Part]]] = {
    "forwarders": _of_group("forwarder", FORWARDERS, _forwarder),
    "testers": _of_group("tester", TESTERS, _tester),
    "knobs": _of_group("knob", KNOBS, _knob),
    "pipelines": lambda: (Part("pipeline", kind, text, partial(_pipeline, kind)) for kind, text in KINDS.items()),
    "methods": _of_group("method", METHODS, _method),
    "studies": lambda: map(_study, study_files().values()),
    "testbeds": lambda: map(_testbed, sorted(testbeds_folder().glob("*.yaml"))),
    "suites": lambda: map(_suite, sorted((project_root() / "suites").glob("*.robot"))),
}


# Fields of models as `xdplab explain` and docs/data-format.md list them: key, type, default, the `#:` lines above.

_LIMITS = (
    ("minimum", "from {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "to {}"),
    ("exclusiveMaximum", "below {}"),
)
_IN_WORDS = {"string": "text", "boolean": "true or false", None: "anything"}
_SCALAR = ["true or false", "integer", "number", "text"]
#: Of longer defaults, where they come from.
_LONG = 30


@cache
def own_methods() -> tuple[type[Method[Any]], ...]:
    """Those of this distribution, each once; others have documents of their own."""
    named = [each.name for each in plugins.entries(METHODS) if each.dist and each.dist.name == "xdplab"]
    ours = dict.fromkeys(method_class(name) for name in named)
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
    descriptions = described(model)
    for name, field in _written(model).items():
        key = field.alias or name
        found = schema["properties"][key]
        default = "–" if key in schema.get("required", ()) else _default(found)
        meant = {each.__name__ for each in _inside(field.annotation)}
        based = MethodSpec in _bases(field.annotation) or PointFigures in _bases(field.annotation)
        kind = " or ".join(map(link, sorted(meant))) if based else _type(found, inner)
        yield key, kind, default, descriptions.get(name, "")


def _bases(annotation: Any) -> set[Any]:
    return {annotation, *get_args(annotation)}


def _default(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else ""
    return f"`{text}`" if 0 < len(text) <= _LONG else "its own"


def _type(schema: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _type(inner[name], inner) if "enum" in inner[name] else link(name)
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
    return " ".join([str(_IN_WORDS.get(kind, kind)), *limits])


def link(name: str) -> str:
    """To the section of a model."""
    return f"[{name}](#{name.lower()})"
