# SPDX-License-Identifier: Apache-2.0
"""What others published, printed next to ours and never compared by a test: in a study, or a file of this folder."""

from importlib.resources import files
from typing import Annotated, Literal

import yaml
from pydantic import Field

from xdplab.model.base import Model, Shown, validated
from xdplab.model.errors import InputError

Stage = Literal["driver", "stack", "complete"]
#: Where a network function runs: XDP program; AF_XDP application that spins, sleeps in poll(), or polls the driver; and
#: `combined`: the verdict is the XDP program's, with the application's sockets open.
NfMode = Literal["xdp", "af_xdp", "af_xdp-poll", "af_xdp-bp", "combined", "combined-poll", "combined-bp"]
Span = Annotated[tuple[float, ...], Field(min_length=2, max_length=2)]


def span(values: Span) -> str:
    """`3 to 5`, or one number where both are the same."""
    return " to ".join(dict.fromkeys(f"{value:g}" for value in values))


class PublishedSeries(Model):
    """Mpps of one forwarder over the published settings."""

    #: As we call it.
    forwarder: str
    #: As the document calls it.
    name: str
    #: Lowest and highest.
    mpps: Span


class PublishedRatio(Model):
    """What one forwarder forwards over what another does."""

    #: Whose rate.
    of: str
    #: Over whose.
    to: str
    #: Lowest and highest.
    ratio: Span


class PublishedFigure(Model):
    """One figure of a document. Forwarders bear our names, so that ours are found next to them."""

    #: Its caption.
    title: str
    #: Key of the figure of ours that it stands next to, in frames per second.
    metric: str
    #: How it was measured.
    conditions: str
    #: Rates that it shows.
    series: tuple[PublishedSeries, ...] = ()
    #: Ratios that the document states, or that follow from its rates.
    ratios: tuple[PublishedRatio, ...] = ()
    #: What has to be known next to it.
    note: str = ""

    @property
    def forwarders(self) -> tuple[str, ...]:
        """All that the figure speaks of, in its order."""
        named = [name for ratio in self.ratios for name in (ratio.of, ratio.to)]
        return tuple(dict.fromkeys([*(series.forwarder for series in self.series), *named]))


class PublishedCluster(Model):
    """One row of a table of clusters."""

    #: Its number in the table.
    cluster: int
    #: Mean latency.
    mean_us: float
    #: Standard deviation of it.
    std_us: float
    #: Settings that make it, in the document's words.
    rule: str


class PublishedTable(Model):
    """The clusters of one network card."""

    #: Its caption.
    title: str
    #: Round trip of ping by the kernel.
    ping_rtt_us: float
    #: How many clusters the text speaks of.
    clusters_in_text: int
    #: Clusters by mean latency, as the document orders them.
    order: tuple[int, ...]
    #: Rows.
    clusters: tuple[PublishedCluster, ...]
    #: Settings that are said to do nothing.
    insignificant: tuple[str, ...]
    #: Settings that are said to make it worse.
    worse: tuple[str, ...]


class Published(Model):
    """What a document says, and of which machine."""

    #: Which document, and of whom.
    source: Shown
    #: The machine of it.
    setup: Shown = ""
    #: Name -> a figure.
    figures: dict[str, PublishedFigure] = {}
    #: Name -> a table.
    tables: dict[str, PublishedTable] = {}
    #: What the latencies of the tables are of.
    quantity: str = ""
    #: Name in a rule of a table -> the settings that it stands for.
    stands_for: dict[str, tuple[str, ...]] = {}
    #: What the authors' own tracing cost, part of all their figures.
    tracing_overhead_us: Span | None = None
    #: Workload -> what the figure is called -> Mpps.
    mpps: dict[Shown, dict[Shown, float]] = {}
    #: Traffic -> network function -> mode -> Mpps.
    modes_mpps: dict[Shown, dict[Shown, dict[NfMode, float]]] = {}
    #: What the authors found, in words.
    finding: Shown = ""
    #: Row's title -> stage -> (min, max, peak to peak, mean, RMS) in us.
    stages_us: dict[Shown, dict[Stage, tuple[float, float, float, float, float]]] = {}


def published(name: str, where: str) -> Published:
    """The document NAME.yaml of this folder; `where`: the key of a study that names it, and its value.

    Raises:
        InputError: there is none; tells which there are.
    """
    found = [path for path in files(__package__).iterdir() if path.name.endswith(".yaml")]
    there = {path.name.removesuffix(".yaml"): path for path in found}
    if name not in there:
        raise InputError(f"{where}: no published document of that name; there are {', '.join(sorted(there))}")
    return validated(Published, yaml.safe_load(there[name].read_text(encoding="utf-8")), str(there[name]))


def published_figure(reference: str) -> tuple[Published, PublishedFigure]:
    """The document and the figure behind `NAME/FIGURE` of a study's `reproduces`.

    Raises:
        InputError: there is none; tells which there are.
    """
    document, known = _part(f"reproduces: {reference!r}", reference, "figure")
    return document, document.figures[known]


def published_table(reference: str) -> tuple[Published, PublishedTable]:
    """The document and the table behind `NAME/TABLE` of a study's `sweep.published`.

    Raises:
        InputError: there is none; tells which there are.
    """
    document, known = _part(f"sweep.published: {reference!r}", reference, "table")
    return document, document.tables[known]


def _part(where: str, reference: str, kind: Literal["figure", "table"]) -> tuple[Published, str]:
    name, _, part = reference.partition("/")
    document = published(name, where)
    known = document.figures if kind == "figure" else document.tables
    if part not in known:
        raise InputError(f"{where}: no such {kind}; there are {', '.join(f'{name}/{each}' for each in known)}")
    return document, part
