# SPDX-License-Identifier: Apache-2.0
"""Columns of the table of points that methods share, and all of a method: for terminal, report, JSON and CSV alike."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from xdplab.analysis.answers.order import spread
from xdplab.analysis.doubts import doubts_of_one
from xdplab.measure import Column, Figure, Method, method_class, method_names
from xdplab.measure.datapath import DatapathStats
from xdplab.measure.figure import COMMON, CPU, CPU_IDLE
from xdplab.measure.method import find_figure
from xdplab.measure.point import OWN_FRAMES, PointSummary
from xdplab.model.digits import number, percent, significant


def kpps(value: float) -> str:
    return number(value / 1000)


def lost(point: PointSummary) -> str:
    return f"lost {point.loss_text}" if point.loss_ratio else ""


def _machines(name: str) -> Callable[[PointSummary], str]:
    """Marks a percentile that is the machine's."""
    return lambda point: "†" if name in point.machine_tail else ""


def idle_polling(point: PointSummary) -> str:
    """What of a point's CPU time met no frame, where its forwarder tells."""
    idle = point.value(CPU_IDLE.key)
    return f"{number(idle)} polling without frames" if idle else ""


def _all_turns(percent: float) -> Callable[[PointSummary], str]:
    """The same percentile of all turns together, next to the median over turns."""

    def subtext(point: PointSummary) -> str:
        found = point.all_turns.get(percent)
        return "" if found is None else f"all turns {number(found)}"

    return subtext


_MEDIAN = "Median over rounds, and within a round over turns, by rank of what was sent. ∞: that frame was lost."
_TAIL = (
    f"{_MEDIAN} All turns: of all turns together, which is the machine's tail as well; †: the core of a forwarding "
    "thread was gone for a larger share of the time than lies above. A dash: fewer than ten samples above."
)
#: For terminals and reports; a thread that polls pays for its whole core however few frames there are.
CPU_COLUMN = Column(
    CPU.key, "CPU s per million", lambda point: point.value(CPU.key), subtext=idle_polling,
    about="CPU time of the forwarder, and of the kernel for it, for a million frames at this load: softirqs included, "
    "the tester's left out; a thread that polls counts whole (docs/methods.md).",
)  # fmt: skip
#: Of a trial with probes at a stated load.
LOAD_COLUMNS = (
    Column("offered_pps", "kpps", lambda point: point.offered_pps, kpps, places=("terminal",)),
    Column("loss_ratio", "loss", lambda point: point.loss_ratio, words=lambda point: point.loss_text,
           places=("terminal",)),
    Column("p50_us", "p50 µs", lambda point: point.p50_us, subtext=lost, ratio="times as fast", main=True,
           about=_MEDIAN),
    Column("p99_us", "p99 µs", lambda point: point.p99_us, mark=_machines("p99_us"), subtext=_all_turns(99),
           about=_TAIL),
    Column("p999_us", "p99.9 µs", lambda point: point.p999_us, mark=_machines("p999_us"), subtext=_all_turns(99.9),
           about=_TAIL),
    Column("p99999_us", "p99.999 µs", lambda point: point.p99999_us, mark=_machines("p99999_us"), places=("html",),
           about=f"Of all rounds merged. {_TAIL}"),
    Column("achieved_pps", "achieved kpps", lambda point: point.achieved_pps, kpps, places=("html",),
           mark=lambda point: "*" if point.tester_limited else "",
           subtext=lambda point: f"of {kpps(point.offered_pps)}" if point.offered_pps else "",
           about="*: the tester left out part of its schedule, because the machine took its core away, it cannot send "
           "faster, or its own card dropped frames."),
    CPU_COLUMN,
)  # fmt: skip


def figure_column(figure: Figure, title: str = "") -> Column:
    """Of a figure of each repetition: its median, as a bound where it is one, `?` where it is doubted."""

    def text(point: PointSummary) -> str:
        return figure_text(point, figure)

    def mark(point: PointSummary) -> str:
        found = point.measured.get(figure.key)
        return " ?" if found and found.doubt else ""

    def value(point: PointSummary) -> float | None:
        return point.value(figure.key)

    words = "times as much" if figure.more else "times as fast"
    return Column(figure.key, title or figure.title, value, words=text, mark=mark, ratio=words, main=True)


def range_columns(figure: Figure) -> tuple[Column, Column]:
    """The lowest and the highest of all repetitions."""

    def values(point: PointSummary) -> list[float]:
        if point.value(figure.key) is None:
            return []
        return [value for one in point.by_repetition if (value := one.value(figure.key)) is not None]

    return (
        Column(
            f"{figure.key}_low", f"{figure.unit} from", lambda point: min(values(point), default=None), figure.format
        ),
        Column(
            f"{figure.key}_high", f"{figure.unit} to", lambda point: max(values(point), default=None), figure.format
        ),
    )


def figure_text(point: PointSummary, figure: Figure, unit: str = "") -> str:
    """The same as people read it, as a bound where it is one; a dash where it was not looked for."""
    found = point.measured.get(figure.key)
    if found is None or (found.value is None and not figure.more):
        return "-"
    if figure.more or found.limited_by != "forwarder" or found.value is None:
        return found.text(figure.per, unit, digits=4)
    return "∞" if math.isinf(found.value) else figure.format(found.value) + unit


def own_columns(method: Method[Any] | type[Method[Any]]) -> tuple[Column, ...]:
    """As the method says; one that says none has its figures."""
    return method.columns or tuple(figure_column(each) for each in method.figures)


_KNOBS = Column("knobs", "knobs", lambda point: " ".join(f"{k}={v}" for k, v in point.swept.items()) or None, str)
_BYTES = Column(
    "frame_bytes", "bytes", lambda point: None if point.frame_bytes == OWN_FRAMES else point.frame_bytes, str
)


def _bound_columns(method: Method[Any] | type[Method[Any]]) -> list[Column]:
    """What JSON and CSV say of the figures in columns of their own, as a number is no word."""

    def bounds(each: Figure) -> Iterator[Column]:
        def bound(point: PointSummary) -> str | None:
            found = point.measured.get(each.key)
            return found.bound if found else None

        def below(point: PointSummary) -> float | None:
            found = point.measured.get(each.key)
            return found.below if found else None

        yield Column(
            f"{each.key}_bound", f"{each.title}: `exact`, `at least`, `below` or `not known`", bound, places=()
        )
        yield Column(f"{each.key}_below", f"{each.title}: what the true one is below", below, places=())

    def doubts(point: PointSummary) -> str:
        searched = [key for key in keys if point.searched(key)]
        return "; ".join(dict.fromkeys(doubt for key in searched for doubt in doubts_of_one(point, key)))

    keys = [each.key for each in method.figures]
    return [
        *(column for each in method.figures if not each.at_load for column in bounds(each)),
        Column("doubts", "why its figures are not to be taken for facts", doubts, places=()),
    ]


def columns_of(method: Method[Any], points: Sequence[PointSummary]) -> list[Column]:
    """All of a table: what a point is, the method's own, how often it was measured and what came of it."""
    return [
        *_named(points),
        Column("mode", "mode", lambda point: point.mode or None, str),
        _KNOBS,
        _BYTES,
        *own_columns(method),
        *_bound_columns(method),
        Column("repetitions", "reps", lambda point: point.repetitions, str),
        Column("status", "status", lambda point: point.status, str),
    ]


def _varying(points: Sequence[PointSummary], key: Literal["profile", "levels"]) -> list[Column]:
    """Those of such settings that are not the same in all points, in one column; [] where all are."""
    names = dict.fromkeys(name for point in points for name in getattr(point, key))
    found = [name for name in names if len({str(getattr(point, key).get(name)) for point in points}) > 1]

    def text_of(point: PointSummary) -> str | None:
        settings = getattr(point, key)
        return " ".join(f"{name}={settings[name]}" for name in found if name in settings) or None

    return [Column(key, "settings" if key == "levels" else key, text_of, str)] if found else []


def _named(points: Sequence[PointSummary]) -> list[Column]:
    """What a point is called, and what tells it from others of that name."""
    several_jobs = len({point.pipeline for point in points}) > 1
    several_paths = len({point.path for point in points}) > 1
    several_flows = len({point.udp_flows for point in points}) > 1
    return [
        Column("forwarder", "forwarder", lambda point: point.forwarder, str),
        *([Column("pipeline", "pipeline", lambda point: point.pipeline, str)] if several_jobs else []),
        *([Column("path", "path", lambda point: point.path, str)] if several_paths else []),
        *([Column("udp_flows", "flows", lambda point: point.udp_flows, "{:,}".format)] if several_flows else []),
        *_varying(points, "profile"),
    ]


def data_columns(method: Method[Any], points: Sequence[PointSummary]) -> list[Column]:
    """All of CSV: those of the table of points and of the side tables, which JSON has in `datapath` and `new_flows`."""
    return [*columns_of(method, points), *datapath_columns(points), *new_flow_columns(points)]


def _with_interval(column: Column, point: PointSummary, known: Mapping[str, Figure]) -> str:
    """What is compared is shown with where it lies at 99 %; a clause has the first figure."""
    of = known.get(column.key) or (next(iter(known.values()), None) if column.clause else None)
    side = point.by_clause.get(column.clause) if column.clause else point
    found = spread(side, of) if column.ratio and of and side else None
    return column.shown(point) + (f" ({' to '.join(map(of.format, found))})" if of and found else "")


def cells_of(method: Method[Any], points: Sequence[PointSummary]) -> dict[str, list[str]]:
    """Head -> what stands below it, of the table for terminals and logs; columns that no point fills are left out."""
    shown = [each for each in columns_of(method, points) if "terminal" in each.places]
    known = {each.key: each for each in method.figures if any(point.searched(each.key) for point in points)}
    table = {each.title: [_with_interval(each, point, known) for point in points] for each in shown}
    always = {"forwarder", "status"}
    return {title: cells for title, cells in table.items() if title in always or any(cell != "-" for cell in cells)}


class SideTable(NamedTuple):
    """A table next to that of points."""

    title: str
    #: What it is of, in the report.
    caption: str
    #: Head -> what stands below it.
    cells: dict[str, list[str]]
    #: Head -> what it means.
    about: dict[str, str]
    #: Lines that are said below it.
    notes: tuple[str, ...]


def side_tables(points: Sequence[PointSummary]) -> list[SideTable]:
    """New flows, and lookup hits; those for which a point has something."""
    new, met = [point for point in points if point.new_flows], datapath_points(points)
    tables = [
        SideTable(
            "new flows", "What became of their first frames", _cells(new, new_flow_columns(new)), {}, (NEW_FLOWS_NOTE,)
        ),
        SideTable(
            "lookup hits",
            "What forwarders counted of their own work",
            datapath_cells(points),
            {each.title: each.about for each in LOOKUP_COLUMNS},
            tuple(by_node(points)),
        ),
    ]
    return [table for table, of in zip(tables, (new, met), strict=True) if of]


def datapath_cells(points: Sequence[PointSummary]) -> dict[str, list[str]]:
    """Cells of lookup hits; {} where no forwarder tells it."""
    met = datapath_points(points)
    return _cells(met, datapath_columns(met))


def _cells(points: Sequence[PointSummary], columns: Sequence[Column]) -> dict[str, list[str]]:
    """These columns behind what points are called."""
    knobs = [_KNOBS] if any(point.swept for point in points) else []
    sizes = [_BYTES] if len({point.frame_bytes for point in points}) > 1 else []
    shown = [*_named(points), *_varying(points, "levels"), *knobs, *sizes, *columns] if points else []
    return {each.title: [each.shown(point) for point in points] for each in shown}


def data_of(column: Column, point: PointSummary) -> Any:
    return finite(column.of(point))


def finite(value: Any) -> Any:
    """An infinite latency is no number to other programs; `measured`, a text and the loss say what became of it."""
    return None if isinstance(value, float) and math.isinf(value) else value


def rows_of(method: Method[Any], points: Iterable[PointSummary]) -> list[dict[str, Any]]:
    """What `xdplab show --json` prints: each point as it is recorded, and the columns of its method."""
    points = list(points)
    columns = columns_of(method, points)
    found = []
    for point in points:
        row = point.model_dump(mode="json") | {each.key: finite(point.value(each.key)) for each in COMMON}
        found.append(row | {column.key: data_of(column, point) for column in columns if column.key not in row})
    return found


def schema_of_rows() -> dict[str, Any]:
    """JSON Schema of what `rows_of` makes, with the columns of all methods that are installed."""
    found = PointSummary.model_json_schema(mode="serialization")
    row = found["$defs"][PointSummary.__name__]
    for each in COMMON:
        row["properties"][each.key] = {"description": each.title, "anyOf": [{"type": "number"}, {"type": "null"}]}
    for name in method_names():
        for column in (*own_columns(method_class(name)), *_bound_columns(method_class(name))):
            figure = find_figure(column.key)  # of other columns a method may make what it likes
            kind = {"anyOf": [{"type": "number"}, {"type": "null"}]} if figure else {}
            row["properties"].setdefault(column.key, {"description": column.title, **kind})
    return {"$defs": found["$defs"], "type": "array", "items": {"$ref": found["$ref"]}}


# Columns of tables next to that of points, and in CSV: lookup hits and what they cost, new flows.

_FRAMES = (
    "By the forwarder's own counters, of all trials that are used, or of a search's steps where none does; "
    "warm-ups counted."
)
_LOOKUPS = "Shares of the rest are of look-ups in the netdev datapath; a recirculated frame is looked up again."
_CYCLES = (
    "Ticks of the time stamp counter, which go on while the machine has taken the core away. Of Open vSwitch those of "
    "iterations that had frames, which fewer frames share at a light load; its main thread counts none. Of VPP those "
    "of all nodes, less about what polling without frames took; none where that was most."
)
_BUSY = "Share of the cycles, polling without frames next to them, from before the traffic until after it."
_KERNEL = (
    "Share of the CPU time of forwarding threads, from before the traffic until after it, polling counted, and "
    "softirqs that ran on top of a thread (docs/pipelines.md)."
)
_XDP = "These met a flow in XDP and were seen by no thread: the other figures of the row are of the rest."


def _field(name: str) -> Callable[[PointSummary], Any]:
    return lambda point: getattr(point.datapath or DatapathStats(), name)


def _share(name: str, title: str, about: str = "") -> Column:
    return Column(name, title, _field(name), percent, about=about)


LOOKUP_COLUMNS = (
    Column(
        "met_frames",
        "frames",
        lambda point: (point.datapath and point.datapath.frames) or None,
        lambda value: f"{value:,}",
        about=_FRAMES,
    ),
    Column("lookups_per_frame", "look-ups per frame", _field("lookups_per_frame"), number, about=_LOOKUPS),
    _share("hardware_share", "card"),
    _share("simple_share", "simple match"),
    _share("emc_share", "EMC"),
    _share("smc_share", "SMC"),
    _share("megaflow_share", "megaflows"),
    Column("subtables_per_hit", "subtables per hit", _field("subtables_per_hit"), number),
    _share("upcalls_share", "upcalls"),
    _share("lost_share", "unanswered"),
    _share("xdp_share", "in XDP", _XDP),
    Column("frames_per_call", "frames per call", _field("frames_per_call"), number),
    Column(
        "cycles_per_frame",
        "cycles per frame",
        _field("cycles_per_frame"),
        lambda value: significant(value, 4),
        about=_CYCLES,
    ),
    _share("busy_share", "busy", _BUSY),
    _share("kernel_share", "in the kernel", _KERNEL),
)


def _first(name: str) -> Callable[[PointSummary], Any]:
    return lambda point: getattr(point.new_flows, name) if point.new_flows else None


NEW_FLOW_COLUMNS = (
    Column("new_flows_sent_pps", "new flows/s", _first("sent_pps"), number),
    Column("new_flows_sent", "first frames", _first("sent"), "{:,}".format),
    Column("new_flows_lost", "lost", _first("lost"), "{:,}".format),
    Column("new_flows_p50_us", "first p50 µs", _first("p50_us"), number),
    Column("new_flows_p99_us", "first p99 µs", _first("p99_us"), number),
)
#: Said below their table.
NEW_FLOWS_NOTE = (
    "Each of these frames is the first and only one of its flow. Latencies of the other tables are without them; rates "
    "and losses there are of all frames."
)


def new_flow_columns(points: Sequence[PointSummary]) -> list[Column]:
    """All, where a point has new flows."""
    return [*NEW_FLOW_COLUMNS] if any(point.new_flows for point in points) else []


def datapath_columns(points: Sequence[PointSummary]) -> list[Column]:
    """Those in which a point has more than nothing; a share of time may be nothing."""
    known = {column.key: [column.of(point) for point in points] for column in LOOKUP_COLUMNS}
    times = ("busy_share", "kernel_share")
    return [
        column
        for column in LOOKUP_COLUMNS
        if any(value or (column.key in times and value is not None) for value in known[column.key])
    ]


def datapath_points(points: Sequence[PointSummary]) -> list[PointSummary]:
    """Those that have any of it."""
    return [point for point in points if point.datapath]


def by_node(points: Sequence[PointSummary]) -> list[str]:
    """A line for each point whose forwarder tells what each node of its graph costs."""
    named = [
        (" ".join((point.forwarder, *point.settings)), text)
        for point in datapath_points(points)
        if (text := (point.datapath or DatapathStats()).nodes_text())
    ]
    return [f"{name}, cycles per frame by node: {text}" for name, text in named]
