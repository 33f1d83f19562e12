# SPDX-License-Identifier: Apache-2.0
"""A study: the YAML matrix of points, the method, and how often each point is visited."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from xdplab.model.base import Model, Shown, plain
from xdplab.model.design import Constraint, DesignSpec, Factorial, Levels, SweepSpec, as_levels
from xdplab.model.design import Scalar as Scalar  # part of the models here, so of what is imported from here
from xdplab.model.inventory import Name
from xdplab.model.traced import BreakdownSpec, TracingSpec
from xdplab.model.traffic import FrameBytes, TrafficSpec
from xdplab.model.trial import DisturbanceRule

PresetName = Literal["rfc2544", "tst009", "csit", "quick", "binary"]


class Path(StrEnum):
    """The way of a frame through the testbed."""

    THROUGH = "through"  # A -> B -> C, one clock, one-way
    HAIRPIN = "hairpin"  # A -> B -> A on one port, round trip
    REFLECT = "reflect"  # A -> B -> C -> B -> A, round trip

    @property
    def quantity(self) -> str:
        """What a latency measured on this path is; never mixed with the other."""
        return "one-way" if self is Path.THROUGH else "round trip"


class ForwarderSpec(Model):
    """A forwarder and its own options, as `name[:option=value,...]` or as a mapping in YAML."""

    name: Shown
    options: dict[str, Scalar] = {}
    label: Shown = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return cls.parse(value) if isinstance(value, str) else value

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
        options = ",".join(f"{k}={v}" for k, v in self.options.items())
        return plain(f"{self.name}:{options}" if options else self.name)


class LatencySpec(Model):
    """Method `latency`: probes at a rate, beside a load, after a warm-up that is not counted."""

    name: Literal["latency"] = "latency"
    duration_s: float = Field(default=2.0, ge=0.05, le=3600)
    #: A light load in probes per second that is measured first, in the same visit: where a forwarder loses frames at
    #: the study's rate, its latency there is that of a queue, and only the light load compares.
    light_pps: float | None = Field(default=None, gt=0, le=100e6)
    light_duration_s: float = Field(default=1.0, ge=0.05, le=3600)
    warmup_s: float = Field(default=0.3, ge=0, le=60)
    drain_s: float = Field(default=0.2, ge=0.01, le=10)


Clause = Literal["throughput", "latency", "loss-curve", "back-to-back", "recovery", "reset"]


class EqualLoadSpec(Model):
    """What a visit measures beside the clauses, at loads that are the same for all forwarders, so that it pairs."""

    #: Latency as in RFC 2544 §26.2, at this load and not at each forwarder's own throughput.
    latency_pps: float | None = Field(default=None, gt=0, le=100e6)
    #: Forwarding rate (RFC 2285 §3.6.1) in response to this offered load, above what any of them carries. At the
    #: tester's top rate, which bounds it, it is the rate at maximum offered load (FRMOL, §3.6.2).
    overload_pps: float | None = Field(default=None, gt=0, le=100e6)


class Rfc2544Spec(Model):
    """RFC 2544 §26.1 to §26.6: one clause by its name, or all with `name: rfc2544`."""

    name: Literal["rfc2544", "throughput", "loss-curve", "back-to-back", "recovery", "reset"]
    #: Clauses of `rfc2544`; each of the others is one clause, with the throughput in front where it is built upon.
    clauses: tuple[Clause, ...] = get_args(Clause)
    preset: PresetName = "quick"
    loss_ratios: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = Field(default=(0.0, 0.001, 0.005), min_length=1)
    #: Speed of the medium, for testbeds that have one; without it the tester's calibrated top rate is the top load.
    line_rate_bps: float | None = Field(default=None, gt=0)
    low_pps: float = Field(default=2000, gt=0)
    #: Traffic seconds of a search at the most (default: the preset's).
    budget_s: float | None = Field(default=None, gt=0)
    #: Wait for frames that are still on their way, at the most (§23: 2 s after the last one was sent).
    drain_s: float = Field(default=2.0, ge=0.01, le=10)
    equal_load: EqualLoadSpec = EqualLoadSpec()

    @property
    def wanted(self) -> tuple[Clause, ...]:
        """Clauses to carry out, in the order of the RFC."""
        asked = set(self.clauses) if self.name == "rfc2544" else {self.name}
        if self.name in ("back-to-back", "recovery"):
            asked.add("throughput")
        return tuple(clause for clause in get_args(Clause) if clause in asked)


def _kind_of_method(value: Any) -> str:
    """Which spec a method's mapping is; one without a name is `latency`."""
    name = value.get("name", "latency") if isinstance(value, dict) else getattr(value, "name", "latency")
    return name if name in ("latency", "breakdown", "tracing") else "rfc2544"


MethodSpec = Annotated[
    Annotated[LatencySpec, Tag("latency")]
    | Annotated[Rfc2544Spec, Tag("rfc2544")]
    | Annotated[BreakdownSpec, Tag("breakdown")]
    | Annotated[TracingSpec, Tag("tracing")],
    Discriminator(_kind_of_method),
]


class StudySpec(Model):
    """A study file (`suites/studies/*.yaml`)."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: Name
    title: Shown = ""
    testbed: str = "embedded"
    tester: str = "xdpgen"
    #: Several testers that measure each point in turn, in the place of `tester`: do they agree?
    testers: tuple[str, ...] = ()
    #: Options of `tester` that are swept; as settings they are called `tester.OPTION`.
    tester_options: Levels = {}
    path: tuple[Path, ...] = (Path.THROUGH,)
    forwarders: tuple[ForwarderSpec, ...] = Field(min_length=1)
    #: Two forwarders (by position or title) whose ratio is the report's first sentence.
    answer: tuple[str, str] | None = None
    #: Published figures to print beside ours: NAME/FIGURE of `xdplab/report/published/NAME.yaml`.
    reproduces: tuple[str, ...] = ()
    #: Forwarder's title -> a sentence that stands beside its figures.
    notes: dict[str, str] = {}
    knobs: Levels = {}
    #: Forwarder's name -> its options that are swept as well.
    options: dict[str, Levels] = {}
    #: Combinations of settings that are left out.
    constraints: tuple[Constraint, ...] = ()
    #: Which combinations of forwarders, options and knobs are visited.
    design: DesignSpec = Factorial()
    traffic: TrafficSpec = TrafficSpec()
    #: Load levels: for each, the keys of `traffic` that are replaced.
    loads: tuple[dict[str, Any], ...] = ()
    frame_bytes: tuple[FrameBytes, ...] = ()
    method: MethodSpec = LatencySpec()
    repetitions: int = Field(default=5, ge=1, le=10_000)
    seed: int = 1
    disturbance: DisturbanceRule = DisturbanceRule()
    #: With it, the report asks which settings matter.
    sweep: SweepSpec | None = None
    #: Exit code 1 when a point's loss ratio is above this.
    max_loss_ratio: float | None = Field(default=None, ge=0, le=1)

    @property
    def all_testers(self) -> tuple[str, ...]:
        """Those of `testers`; or the one of `tester`, once for each combination of its swept options."""
        if not self.tester_options:
            return self.testers or (self.tester,)
        combinations = itertools.product(*self.tester_options.values())
        return tuple(self.tester_with(dict(zip(self.tester_options, each, strict=True))) for each in combinations)

    def tester_with(self, options: Mapping[str, Scalar]) -> str:
        """`tester` with more options, as `name:option=value,...`."""
        written = {key: str(value).lower() if isinstance(value, bool) else value for key, value in options.items()}
        given = [f"{key}={value}" for key, value in written.items()]
        name, _, rest = self.tester.partition(":")
        return f"{name}:{','.join([*filter(None, [rest]), *given])}" if given else self.tester

    @field_validator("testers")
    @classmethod
    def _different_testers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a tester is there twice")
        return value

    @field_validator("path", "forwarders", "frame_bytes", "testers", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return value if isinstance(value, (list, tuple)) else (value,)

    @field_validator("method", mode="before")
    @classmethod
    def _known_method(cls, value: Any) -> Any:
        known = ("latency", "breakdown", "tracing", *get_args(Rfc2544Spec.model_fields["name"].annotation))
        if isinstance(value, dict) and value.get("name", "latency") not in known:
            raise ValueError(f"name should be one of {', '.join(map(repr, known))}")
        return value

    @model_validator(mode="after")
    def _options_of_one_tester(self) -> "StudySpec":
        if self.tester_options and self.testers:
            raise ValueError("tester_options are of `tester`; with `testers` write the options behind their names")
        return self

    @field_validator("knobs", "tester_options", mode="before")
    @classmethod
    def _values_or_one(cls, value: Any) -> Any:
        return as_levels(value)

    @field_validator("options", mode="before")
    @classmethod
    def _options_or_one(cls, value: Any) -> Any:
        return {key: as_levels(each) for key, each in value.items()} if isinstance(value, dict) else value

    @field_validator("design", mode="before")
    @classmethod
    def _design_by_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


class Point(Model):
    """One forwarder, one value for each knob, one traffic profile, on one path."""

    forwarder: ForwarderSpec
    path: Path
    knobs: dict[str, Scalar]
    traffic: TrafficSpec
    #: Who measures it, in a study with several testers, or with several settings of one.
    tester: str = ""
    #: Those settings.
    tester_options: dict[str, Scalar] = {}

    @property
    def title(self) -> str:
        """What tables print: the forwarder, and who measured it where there are several testers."""
        return f"{self.forwarder.title}, by {self.tester}" if self.tester else self.forwarder.title

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
