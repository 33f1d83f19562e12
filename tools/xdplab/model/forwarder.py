# SPDX-License-Identifier: Apache-2.0
"""A forwarder as a study names it."""

import shlex
from typing import Any, Literal

from pydantic import GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from xdplab.model.base import Model, OneLine, Shown, one_line
from xdplab.model.design import Scalar, as_written, flat

#: What a program does with one port. rxdrop: receive and drop; txonly: send one frame as fast as possible; l2fwd: send
#: back with addresses swapped; stages: tell when a frame is where, from the wire to the application.
OnePortRole = Literal["rxdrop", "txonly", "l2fwd", "stages"]


class ForwarderSpec(Model):
    """A forwarder and its own options, as `name[:option=value,...]` or as a mapping in YAML."""

    #: Under which it is found.
    name: Shown
    #: Its own; unknown ones are refused before anything starts.
    #: A list of words is kept as one text, quoted as in a shell; `raw: {PLACE: {NAME: VALUE}}` as `raw.PLACE.NAME`.
    options: dict[str, Scalar] = {}
    #: What tables call it, instead of name and options.
    label: OneLine = ""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """In a file it may be written as text."""
        found = super().__get_pydantic_json_schema__(schema, handler)
        if handler.mode == "validation":
            inner = handler.resolve_ref_schema(found)
            whole = dict(inner)
            inner.clear()
            inner["anyOf"] = [{"type": "string"}, whole]
        return found

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return cls.parse(value) if isinstance(value, str) else value

    @field_validator("options", mode="before")
    @classmethod
    def _words_as_text(cls, options: Any) -> Any:
        options = flat(options)
        if not isinstance(options, dict):
            return options
        lists = {key: value for key, value in options.items() if isinstance(value, list)}
        return {**options, **{key: shlex.join(map(str, words)) for key, words in lists.items()}}

    @staticmethod
    def parse(text: str) -> dict[str, Any]:
        """`ovs-afxdp:xdp_mode=generic` -> name and options; values are typed later by the forwarder's own model."""
        name, _, rest = text.partition(":")
        options: dict[str, Scalar] = {}
        for item in filter(None, rest.split(",")):
            key, equals, value = item.partition("=")
            if not equals:
                raise ValueError(f"option {item!r} of forwarder {name!r} is not option=value")
            if key in options:
                raise ValueError(f"option {key!r} of forwarder {name!r} is given twice")
            options[key] = value
        return {"name": name, "options": options}

    @property
    def title(self) -> str:
        """What tables print: the label, or the name with its options."""
        if self.label:
            return self.label
        options = ",".join(f"{key}={as_written(value)}" for key, value in self.options.items())
        return one_line(f"{self.name}:{options}" if options else self.name)
