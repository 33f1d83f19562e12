# SPDX-License-Identifier: Apache-2.0
"""A study: the YAML matrix of points, the method, and how often each point is repeated."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails

from xdplab.model.base import Distinct, Many, Model, Shown
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
from xdplab.model.forwarder import ForwarderSpec
from xdplab.model.inventory import Name
from xdplab.model.method import AnyMethod, default_method
from xdplab.model.pipeline import Pipeline, PipelineText
from xdplab.model.published import published_figure, published_table
from xdplab.model.testbed import TestbedSpec
from xdplab.model.traffic import FrameBytes, TrafficSpec


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
