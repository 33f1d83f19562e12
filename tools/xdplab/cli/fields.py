# SPDX-License-Identifier: Apache-2.0
"""Fields of models as `xdplab explain` and docs/data-format.md list them: key, type, default, the `#:` lines above."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from xdplab.measure import Method, PointFigures, method_class, method_names
from xdplab.model import MethodSpec, Model
from xdplab.model.base import described

_LIMITS = (
    ("minimum", "from {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "to {}"),
    ("exclusiveMaximum", "below {}"),
)
_KINDS = {"string": "text", "boolean": "true or false", None: "anything"}
_SCALAR = ["true or false", "integer", "number", "text"]
#: Of longer defaults, where they come from.
_LONG = 30


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
    return " ".join([str(_KINDS.get(kind, kind)), *limits])


def link(name: str) -> str:
    """To the section of a model."""
    return f"[{name}](#{name.lower()})"
