# SPDX-License-Identifier: Apache-2.0
"""What a study asks to be done at each point: the spec of a method that is found by its name (`xdplab.methods`)."""

from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler, PlainValidator, SerializeAsAny
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from xdplab.model import plugins
from xdplab.model.base import Model, Shown
from xdplab.model.errors import InputError, meant
from xdplab.model.forwarder import ForwarderSpec

GROUP = "xdplab.methods"
#: A study that names no method measures latency.
DEFAULT = "latency"


class MethodSpec(Model):
    """Base of what a study's `method:` holds; each method's own keys are in its folder."""

    #: Which method.
    name: Shown

    def forwarders(self) -> tuple[ForwarderSpec, ...]:
        """Those that it makes itself, next to those of the study."""
        return ()


def spec_model(name: str) -> type[MethodSpec]:
    """The spec of a method.

    Raises:
        InputError: no such method; tells which there are.
    """
    found: type[MethodSpec] = plugins.find(GROUP, "method", name).spec_model
    return found


def _typed(value: Any) -> MethodSpec:
    if isinstance(value, MethodSpec):
        return value
    if not isinstance(value, dict):
        raise ValueError("a mapping is expected")
    name = value.get("name", DEFAULT)
    try:
        model = spec_model(str(name))
    except InputError:
        if not (known := plugins.names(GROUP)):
            raise ValueError("no method is installed: xdplab is older than its sources; run ci/setup") from None
        raise ValueError(f"name should be one of {', '.join(map(repr, known))}{meant(name, known)}") from None
    return model.model_validate({**value, "name": name})


class _OneOf:
    """The schema: one of those that are installed."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        models = dict.fromkeys(spec_model(name) for name in plugins.names(GROUP))
        return {"oneOf": [handler(model.__pydantic_core_schema__) for model in models]}


#: The union of the specs of all methods that are installed, selected by `name`.
AnyMethod = Annotated[SerializeAsAny[MethodSpec], PlainValidator(_typed), _OneOf]


def default_method() -> MethodSpec:
    """Of a study that says nothing."""
    return _typed({})
