# SPDX-License-Identifier: Apache-2.0
"""A study: the YAML matrix of points, the method, and how often each point is repeated."""

import hashlib
import itertools
import json
import shlex
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails

from xdplab.model import plugins
from xdplab.model.base import Distinct, Many, Model, OneLine, Shown, one_line
from xdplab.model.design import (
    Constraint,
    DesignSpec,
    Factorial,
    Levels,
    Scalar as Scalar,  # part of the models here, so of what is imported from here
    SweepSpec,
    as_written,
    flat,
)
from xdplab.model.errors import InputError, meant
from xdplab.model.pipeline import Pipeline, PipelineText
from xdplab.model.published import published_figure, published_table
from xdplab.model.testbed import Name, TestbedSpec
from xdplab.model.traffic import FrameBytes, TrafficSpec

# A forwarder as a study names it.

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


# What a study asks to be done at each point: the spec of a method that is found by its name (`xdplab.methods`).

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


class Path(StrEnum):
    """The way of a frame through the testbed."""

    THROUGH = "through"  # A -> B -> C, one clock, one-way
    HAIRPIN = "hairpin"  # A -> B -> A on one port, round trip
    REFLECT = "reflect"  # A -> B -> C -> B -> A, round trip

    @property
    def quantity(self) -> str:
        """What a latency measured on this path is; never mixed with the other."""
        return "one-way" if self is Path.THROUGH else "round trip"


class StudySpec(Model):
    """A study file (`suites/studies/*.yaml`).

    One value may stand for a list of one in `path`, `forwarders`, `frame_bytes` and `testers`, and wherever levels are
    listed; the name of a design for a design without further keys.
    """

    #: Of this file.
    schema_version: Literal[1] = Field(default=1, alias="schema")
    #: As run folders are called.
    name: Name
    #: Heading of the report.
    title: Shown = ""
    #: Name in `suites/testbeds`, or a file.
    testbed: str = "embedded"
    #: Who sends and measures, as `name:option=value,...`.
    tester: str = "xdpgen"
    #: Several testers that measure each point in turn, instead of `tester`: do they agree?
    testers: Annotated[Many[str], Distinct] = ()
    #: Options of `tester` that are swept; as settings they are called `tester.OPTION`.
    tester_options: Levels = {}
    #: Ways of the frames; each is a point. None given: `through` where the testbed's A and C are one machine, else
    #: `reflect`, because a one-way latency needs one clock; `hairpin` where there is one cable.
    path: Many[Path] = ()
    #: Those of the study; a method may add forwarders of its own (`all_forwarders`).
    forwarders: Many[ForwarderSpec] = ()
    #: Two forwarders (by title, or by name) whose ratio is the first sentence; None: those of a study that has two.
    answer: tuple[str, str] | None = None
    #: Published figures to print next to ours: NAME/FIGURE of `xdplab/model/published/NAME.yaml`.
    reproduces: tuple[str, ...] = ()
    #: Forwarder's title -> a sentence that stands next to its figures.
    notes: dict[str, str] = {}
    #: Knob -> its values; each is a point.
    knobs: Levels = {}
    #: Forwarder's name -> its options that are swept as well.
    options: dict[str, Annotated[Levels, BeforeValidator(flat)]] = {}
    #: Combinations of settings that are left out.
    constraints: tuple[Constraint, ...] = ()
    #: Which combinations of forwarders, options and knobs are measured.
    design: DesignSpec = Factorial()
    #: What is sent.
    traffic: TrafficSpec = TrafficSpec()
    #: Loads: for each, the keys of `traffic` that are replaced.
    loads: tuple[dict[str, Any], ...] = ()
    #: Sizes instead of the one of `traffic`; each is a point.
    frame_bytes: Many[FrameBytes] = ()
    #: What the forwarders do with frames; each is a point. See `xdplab.model.pipeline`.
    pipeline: Many[PipelineText] = (Pipeline(),)
    #: What is measured, and how long.
    method: AnyMethod = Field(default_factory=default_method)
    #: How often each point is measured.
    repetitions: int = Field(default=5, ge=1, le=10_000)
    #: Of the order of points within each repetition, and of designs that draw.
    seed: int = 1
    #: With it, the report asks which settings matter.
    sweep: SweepSpec | None = None
    #: "No measurable difference" is said where the whole interval of a ratio lies within this share either way of 1.
    equivalence_margin: float = Field(default=0.10, gt=0, le=10)
    #: Exit code 1 when a point's loss ratio is above this, is not known, or was not shown to be below (too few frames).
    max_loss_ratio: float | None = Field(default=None, ge=0, le=1)

    @property
    def all_forwarders(self) -> tuple[ForwarderSpec, ...]:
        """Those given, and those that the method makes."""
        return (*self.forwarders, *self.method.forwarders())

    @property
    def all_testers(self) -> tuple[str, ...]:
        """Those of `testers`; or the one of `tester`, once for each combination of its swept options."""
        if not self.tester_options:
            return self.testers or (self.tester,)
        combinations = itertools.product(*self.tester_options.values())
        return tuple(self.tester_with(dict(zip(self.tester_options, each, strict=True))) for each in combinations)

    def tester_with(self, options: Mapping[str, Scalar]) -> str:
        """`tester` with more options, as `name:option=value,...`."""
        given = [f"{key}={as_written(value)}" for key, value in options.items()]
        name, _, rest = self.tester.partition(":")
        return f"{name}:{','.join([*filter(None, [rest]), *given])}" if given else self.tester

    def on(self, testbed: TestbedSpec) -> "StudySpec":
        """The same with what it leaves to the testbed: the path."""
        return self if self.path else self.model_copy(update={"path": (Path(testbed.usual_path),)})

    def in_loads(self, key: str) -> list[Any]:
        """What a key of `traffic` is in each load."""
        return [load.get(key, getattr(self.traffic, key)) for load in self.loads or ({},)]

    def check_answer(self) -> None:
        """The forwarders of `answer` are among its own.

        Raises:
            InputError: one is not.
        """
        titles = {name: None for each in self.all_forwarders for name in (each.title, each.name)}
        for title in self.answer or ():
            if title not in titles:
                raise InputError(
                    f"study {self.name}: answer: {title!r} is not one of its forwarders{meant(title, titles)}"
                )

    def check_references(self) -> None:
        """The published figures that are to be compared with ours exist.

        Raises:
            InputError: it is not.
        """
        for reference in self.reproduces:
            published_figure(reference)
        for reference in self.sweep.published if self.sweep else ():
            published_table(reference)

    @model_validator(mode="after")
    def _something_to_measure(self) -> "StudySpec":
        if not self.all_forwarders:
            short = {"field_type": "Tuple", "min_length": 1, "actual_length": 0}
            given = "forwarders" in self.model_fields_set
            wrong = {"type": "too_short", "ctx": short} if given else {"type": "missing"}
            raise ValidationError.from_exception_data(
                "StudySpec",
                [InitErrorDetails(loc=("forwarders",), input=(), **wrong)],  # type: ignore[typeddict-item]
            )
        return self

    @model_validator(mode="after")
    def _options_of_one_tester(self) -> "StudySpec":
        if self.tester_options and self.testers:
            raise ValueError("tester_options are of `tester`; with `testers` write the options behind their names")
        return self

    @field_validator("answer", mode="before")
    @classmethod
    def _two_or_none(cls, value: Any) -> Any:
        if value is None or (isinstance(value, list | tuple) and len(value) == 2):
            return value
        raise ValueError("two forwarders are expected, or null for none")


class Point(Model):
    """One forwarder, one value for each knob, one traffic profile, on one path."""

    #: What forwards.
    forwarder: ForwarderSpec
    #: The way of the frames.
    path: Path
    #: Knob -> value.
    knobs: dict[str, Scalar]
    #: What is sent.
    traffic: TrafficSpec
    #: What the forwarder does with it.
    pipeline: PipelineText = Pipeline()
    #: Who measures it, in a study with several testers, or with several settings of one.
    tester: str = ""
    #: Those settings.
    tester_options: dict[str, Scalar] = {}
    #: What the method does of several things it can do: a workload, a rate.
    levels: dict[str, Scalar] = {}

    @property
    def name(self) -> str:
        """What tables print: the forwarder, and who measured it where there are several testers."""
        return f"{self.forwarder.title}, by {self.tester}" if self.tester else self.forwarder.title

    @property
    def title(self) -> str:
        """The same with what the method does of several things, for a line that stands by itself."""
        levels = [str(each) if isinstance(each, str) else f"{name}={each:.10g}" for name, each in self.levels.items()]
        return ", ".join([self.name, *levels])

    @property
    def id(self) -> str:
        """Stable short name: the same point has the same id in every run, also after a setting has been added."""
        return self._hash()

    @property
    def setting(self) -> str:
        """Short name of all but the forwarder: points of one setting may be compared."""
        return self._hash(exclude={"forwarder"})

    def _hash(self, **parts: Any) -> str:
        text = json.dumps(self.model_dump(mode="json", exclude_defaults=True, **parts), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


# Names of the points of a study, each different from the others.

#: Keys of a profile that have a text of their own.
RATES = ("frame_bytes", "probe_pps", "load_pps", "load_share", "load_of_line", "line_rate_bps")


def unusual(traffic: TrafficSpec, *but: str) -> dict[str, Any]:
    """What of a profile is not the default; its request by length and digest."""
    found = traffic.model_dump(mode="json", exclude_defaults=True, exclude=set(but))
    if traffic.request is not None:
        digest = hashlib.sha256(traffic.request.encode()).hexdigest()[:8]
        found["request"] = f"{len(traffic.request_hex) // 2} bytes {digest}"
    return found


class Names:
    """A name for each of several points: its title, and each of its settings that is not the same in all of them."""

    def __init__(self, points: Iterable[Point]) -> None:
        seen: dict[str, set[str]] = {}
        for point in points:
            for name, value in _settings(point).items():
                seen.setdefault(name, set()).add(str(value))
        self._varying = frozenset(name for name, values in seen.items() if len(values) > 1)

    def of(self, point: Point) -> str:
        """Title of a point, and those of its settings that vary."""
        settings = [f"{name}={value}" for name, value in _settings(point).items() if name in self._varying]
        return ", ".join([point.title, *settings])


def _settings(point: Point) -> dict[str, object]:
    """What of a point its title may not tell: a label hides options."""
    traffic = point.traffic
    load = f"{traffic.load_share:.0%}" if traffic.load_share else traffic.stated_load_pps
    sent = {
        "pipeline": str(point.pipeline),
        "path": point.path.value,
        "bytes": traffic.frame_bytes,
        "probes": traffic.probes_text,
        "load": load,
        **traffic.model_dump(mode="json", exclude=set(RATES)),
        **unusual(traffic, *RATES),
    }
    return {**(point.forwarder.options if point.forwarder.label else {}), **point.knobs, **sent}
