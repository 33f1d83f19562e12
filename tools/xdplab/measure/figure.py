# SPDX-License-Identifier: Apache-2.0
"""What a figure is: said once by its method, and read by comparisons, answers, trends, tables and reports."""

from typing import Any, Literal, Self

from pydantic import SerializerFunctionWrapHandler, model_serializer

from xdplab.model import Model, TrialRecord, validated
from xdplab.model.base import Shown
from xdplab.model.digits import number

#: Who set a figure. `forwarder`: it is the forwarder's own. `tester`: it may do better. `budget`: time ran out first.
#: `below-minimum`: the lowest load was too much; of a time, it is too short for the load to tell.
LimitedBy = Literal["forwarder", "tester", "below-minimum", "budget"]


class Figure(Model):
    """A figure that each repetition has, and that points are compared by."""

    #: In records and JSON, with the unit of its values: `p50_us`, `ndr_pps`. One key is one figure in all methods.
    key: str
    #: As people read it.
    name: str
    #: In tables, and how much of a value makes one of it.
    unit: str
    per: float = 1.0
    better: Literal["more", "less"]
    #: In sentences, where that is another one.
    said_unit: str = ""
    said_per: float = 1.0
    #: What a forwarder does that is ahead: it `forwards` so many times as much.
    verb: str = "has"
    #: Of a price: less of it is cheaper, not faster.
    price: bool = False
    #: A latency of the frames that arrived at a stated load: doubted where frames are lost or were not sent.
    at_load: bool = False
    #: A rate that lost frames decide: doubted where pause frames keep a full receiver from losing any.
    by_loss: bool = False
    #: Of a percentile of a trial's latencies: which.
    percent: float | None = None
    #: What a reader wants who chooses by it: `lowest latency`; "": nobody chooses by it.
    goal: str = ""
    #: How many of what it is worth telling in make one of its value's unit: jumpavg works in bits of these.
    precision: float = 1.0

    @property
    def more(self) -> bool:
        return self.better == "more"

    @property
    def as_much(self) -> str:
        """How the better one is ahead: so many times `as much`, `as fast`, `as cheap`."""
        return "as much" if self.more else "as cheap" if self.price else "as fast"

    def format(self, value: float) -> str:
        return number(value / self.per)

    @property
    def said(self) -> tuple[str, float]:
        """Unit of sentences, and how much of a value makes one of it."""
        return (self.said_unit, self.said_per) if self.said_unit else (self.unit, self.per)

    @property
    def title(self) -> str:
        """For the head of a table: `p50, µs`."""
        return f"{self.name}, {self.unit}"


class TrialFigures(Model):
    """What a method counted or found in a trial, as journaled (`TrialRecord.figures`); each has its own fields."""

    def journaled(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @classmethod
    def of(cls, trial: TrialRecord) -> Self:
        """Those of a line of the journal.

        Raises:
            InputError: the line has something else; the message names the point, the part of the method and the field.
        """
        part = f", {trial.clause}" if trial.clause else ""
        return validated(
            cls, trial.figures, f"trials.jsonl, point {trial.point_id}, repetition {trial.repetition}{part}"
        )


class CountedFigures(TrialFigures):
    """Of a trial that the method counted by itself (`Session.measure_by`)."""

    #: What the log says of the trial.
    text: Shown


class PointFigures(Model):
    """What a method says of a point beside, for JSON and its section of the report; each has its own fields."""

    @classmethod
    def of(cls, point: Any) -> Self:
        """Those of a point (its `figures`); empty where nothing was found."""
        return point.figures if isinstance(point.figures, cls) else cls()

    @model_serializer(mode="wrap")
    def _found(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value not in (None, (), [], {}, "")}


P50 = Figure(key="p50_us", name="p50", unit="µs", better="less", at_load=True, percent=50, precision=1e3,
             goal="lowest latency")  # fmt: skip
P99 = Figure(key="p99_us", name="p99", unit="µs", better="less", at_load=True, percent=99, precision=1e3,
             goal="shortest tail of latency")  # fmt: skip
P999 = Figure(key="p999_us", name="p99.9", unit="µs", better="less", at_load=True, percent=99.9, precision=1e3)
#: CPU time of the forwarder and of the kernel's work for it, without the tester's own (docs/methods.md).
CPU = Figure(key="cpu_s_per_mframes", name="CPU time", unit="s per million frames", better="less", at_load=True,
             price=True, precision=1e3, goal="least CPU")  # fmt: skip
#: What of it went into polling that met no frame, by the forwarder's own counters.
CPU_IDLE = Figure(key="cpu_idle_s_per_mframes", name="CPU time of polling without frames", unit="s per million frames",
                  better="less", at_load=True, price=True, precision=1e3)  # fmt: skip
#: Those that every method has, where its trials have them.
COMMON = (P50, P99, P999, CPU, CPU_IDLE)
