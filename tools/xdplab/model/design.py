# SPDX-License-Identifier: Apache-2.0
"""Which combinations of settings a study measures, and what its analysis needs to know."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from xdplab.model.base import Many, Model, OneOrMany

Scalar = bool | int | float | str
#: Level of a knob that leaves it as it is on this machine, whatever that is, also where it is not supported.
UNSET = "unset"
#: In front of the settings that are options of the tester.
TESTER = "tester"
#: Setting -> the levels meant. Settings are `forwarder`, `NAME.OPTION` of a forwarder or `tester.OPTION` (or `OPTION`),
#: and knobs.
Levels = dict[str, Many[Scalar]]
#: In front of options of a program that xdplab has no option for: `raw.PLACE.NAME`.
RAW = "raw"


def flat(options: Any) -> Any:
    """`raw: {PLACE: {NAME: VALUE}}` of a file -> `raw.PLACE.NAME: VALUE`, so that it is an option like any other."""
    if not isinstance(options, dict) or not isinstance(options.get(RAW), dict):
        return options
    places = options[RAW]
    wrong = next((place for place, named in places.items() if not isinstance(named, dict)), None)
    if wrong is not None:
        raise ValueError(f"raw.{wrong}: names and values are expected, as raw: {{{wrong}: {{NAME: VALUE}}}}")
    rest = {key: value for key, value in options.items() if key != RAW}
    return rest | {f"{RAW}.{place}.{name}": value for place, named in places.items() for name, value in named.items()}


class Constraint(Model):
    """Combinations that are left out: where all of `when` holds, all of `requires` must, and `forbids` must not.

    A setting that a combination has not got (an option of another forwarder) meets `requires`, and neither `when` nor
    `forbids`.
    """

    #: Setting -> its levels to which this speaks.
    when: Levels = Field(min_length=1)
    #: Setting -> the levels that it must then have.
    requires: Levels = {}
    #: Setting -> the levels that it must not have.
    forbids: Levels = {}
    #: The reason, in words.
    why: str = ""

    @model_validator(mode="after")
    def _requires_or_forbids(self) -> "Constraint":
        if not self.requires and not self.forbids:
            raise ValueError("one of requires and forbids is needed")
        return self

    def allows(self, settings: Mapping[str, Scalar]) -> bool:
        """Whether a combination may stay."""
        if not all(is_one_of(settings, name, levels) for name, levels in self.when.items()):
            return True
        met = all(is_one_of(settings, name, levels, absent=True) for name, levels in self.requires.items())
        forbidden = bool(self.forbids) and all(is_one_of(settings, name, each) for name, each in self.forbids.items())
        return met and not forbidden

    def names(self) -> set[str]:
        """All settings that it speaks of."""
        return {*self.when, *self.requires, *self.forbids}

    def text(self) -> str:
        """The rule in words: `when, requires, excludes (why)`."""
        parts = [_words(self.when)]
        parts += [f"requires {_words(self.requires)}"] if self.requires else []
        parts += [f"excludes {_words(self.forbids)}"] if self.forbids else []
        return " ".join(parts) + (f" ({self.why})" if self.why else "")


class Factorial(Model):
    """Design of every combination of the levels."""

    #: Name of the design.
    kind: Literal["factorial"] = "factorial"


class OneAtATime(Model):
    """The default of each forwarder, and each other level of each setting alone."""

    #: Name of the design.
    kind: Literal["one-at-a-time"]


class Fractional(Model):
    """A screening design: the `runs` combinations that separate effects best (D-optimal)."""

    #: Name of the design.
    kind: Literal["fractional"]
    #: Default: twice the number of effects.
    runs: int | None = Field(default=None, ge=2, le=100_000)
    #: 1: of each setting alone; 2: of every two together as well.
    order: Literal[1, 2] = 1


class Random(Model):
    """`runs` combinations drawn without repeats."""

    #: Name of the design.
    kind: Literal["random"]
    #: How many.
    runs: int = Field(ge=1, le=100_000)


class Listed(Model):
    """The combinations that are listed; what one does not name has its default."""

    #: Name of the design.
    kind: Literal["list"]
    #: Setting -> level, of each.
    points: tuple[dict[str, Scalar], ...] = Field(min_length=1)


def _by_name(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


DesignSpec = Annotated[
    Factorial | OneAtATime | Fractional | Random | Listed,
    Field(discriminator="kind"),
    BeforeValidator(_by_name),
    OneOrMany,
]


class SweepSpec(Model):
    """What the analysis of a sweep needs to know (`sweep:` of a study file)."""

    #: What importance, best and worst go by. The study takes the mean; one stall of a shared machine spoils that.
    statistic: Literal["mean", "median", "p99"] = "median"
    #: Setting -> the level that it has when nobody touches it; without an entry the first one listed.
    defaults: dict[str, Scalar] = {}
    #: Latency above which a configuration is an outlier (the study took the ping RTT of the kernel).
    outliers_above_us: float | None = Field(default=None, gt=0)
    #: Instead of it: title of the forwarder of this run that stands for the kernel's own path.
    outliers_above: str | None = None
    #: Published tables to print next to ours: NAME/TABLE of `xdplab/model/published/NAME.yaml`.
    published: tuple[str, ...] = ()
    #: Setting here -> its name in the published table, or NAME=LEVEL for a switch that is on at that level of ours.
    published_names: dict[str, str] = {}


def as_written(value: Scalar) -> str:
    """In a file, on a command line, in a title: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def same_level(one: Scalar, other: Scalar) -> bool:
    """Levels are compared as they are written: `true` is True, and 1 is not."""
    return str(one).lower() == str(other).lower()


def is_one_of(settings: Mapping[str, Scalar], name: str, levels: tuple[Scalar, ...], *, absent: bool = False) -> bool:
    """Whether a setting is at one of some levels; `absent` when the combination has not got it.

    A name without a dot also finds that option of the combination's forwarder.
    """
    found = find_setting(settings, name)
    if found is None:
        return absent
    value = settings[found]
    # a forwarder is meant by its title and by its bare name
    meant = (value, str(value).partition(":")[0]) if found == "forwarder" else (value,)
    return any(same_level(each, level) for each in meant for level in levels)


def find_setting(names: Mapping[str, Any], name: str) -> str | None:
    """The full name of a setting: itself, or the only option of that name."""
    if name in names:
        return name
    options = [full for full in names if full.rpartition(".")[2] == name]
    return options[0] if len(options) == 1 else None


def _words(levels: Levels) -> str:
    return " and ".join(f"{name}={'|'.join(map(str, each))}" for name, each in levels.items())
