# SPDX-License-Identifier: Apache-2.0
"""What the sections of a report are made of: the run, what was found, templates, the table of points, pictures."""

import hashlib
import math
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from xdplab.analysis.answers.order import in_order
from xdplab.analysis.answers.ranking import conditions
from xdplab.analysis.columns import own_columns
from xdplab.analysis.compare import missing_ratios, ratios_of
from xdplab.analysis.summary import trials_used
from xdplab.analysis.words import interval_text, ratio_cell, ratio_spread, verdict
from xdplab.measure import Column, Method
from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.distribution import distribution
from xdplab.measure.measured import Spread
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, TrialRecord
from xdplab.model.digits import loss, number, percent, significant
from xdplab.model.published import span
from xdplab.model.run import LAB_IN_A_BOX
from xdplab.model.study import RATES
from xdplab.report.chart import Chart, distribution_chart
from xdplab.results import trials_by_point

# Where a run was measured, in the words of its own record: on one machine or several, on network cards or not.

_VIRTUAL = ("veth", "tun", "dummy", "netdevsim")


class Place(NamedTuple):
    """Where a run was measured: drivers, network cards or not, one machine or several."""

    run: RunRecord

    @property
    def drivers(self) -> dict[str, list[str]]:
        """Driver of the data path's ports -> those ports; empty where there is no interface."""
        found: dict[str, list[str]] = {}
        for role, facts in sorted(self.run.environment.ports.items()):
            parts = re.search(r"^driver: (\S+)", str(facts.get("ethtool -i", "")), re.MULTILINE)
            found.setdefault(parts.group(1) if parts else "unknown driver", []).append(role)
        return found

    @property
    def virtual(self) -> bool:
        """No network card is on the path."""
        return self.run.testbed.kind != "hosts" or (bool(self.drivers) and {*self.drivers} <= {*_VIRTUAL})

    @property
    def emulated(self) -> bool:
        """On the guests of `make lab`."""
        return self.run.environment.machine == LAB_IN_A_BOX

    @property
    def where(self) -> str:
        spec = self.run.testbed
        if spec.kind != "hosts":
            return "on one machine" if spec.kind == "embedded" else "simulated"
        if self.emulated:
            return "on emulated machines"
        names = list(dict.fromkeys(spec.ports[role].host for role in sorted(spec.ports)))
        return f"on host {names[0]}" if len(names) == 1 else f"on hosts {', '.join(names[:-1])} and {names[-1]}"

    @property
    def caveat(self) -> str:
        if self.run.testbed.kind == "fake":
            return "simulated: figures of no machine"
        if self.emulated:
            return f"emulated ({LAB_IN_A_BOX}): figures of QEMU, not of machines or network cards"
        if self.virtual:
            return "veth pairs: figures of this machine, not of a network card"
        if not self.drivers:
            return "figures of these machines; what their ports are was not recorded"
        parts = [f"{driver} ({', '.join(roles)})" for driver, roles in self.drivers.items()]
        return f"figures of these network cards and machines: {'; '.join(parts)}"

    @property
    def inline(self) -> str:
        """What a NAPI means that the layout calls so."""
        if self.run.testbed.kind == "fake":
            return "nothing runs on a core, because the testbed is simulated"
        if self.virtual:
            return (
                "on veth a frame's receive half runs on the core that sent it, so the tester's core pays for the "
                "forwarder's receive NAPI, and the forwarder's core for the tester's receiver"
            )
        return "a card's receive NAPI runs where its interrupt does"

    @property
    def line_rate(self) -> str:
        if self.run.testbed.kind == "fake":
            return "A simulated link has no line rate"
        return "veth has no line rate" if self.virtual else "The speed of the ports is not known"

    @property
    def beside(self) -> str:
        """What others measured on, for the published figures next to ours."""
        return "Another machine and a network card" if self.virtual else "Another machine and another network card"


#: Curves of a picture: as many as its colours and strokes tell apart.
_MOST_CURVES = 32
#: HTML that may stand in the page as it is.
Section = Markup


@dataclass(frozen=True)
class Page:
    """A report while it is made."""

    run: RunRecord
    method: Method[Any]
    trials: Sequence[TrialRecord]
    summaries: Sequence[PointSummary]
    answer: Answer

    @property
    def place(self) -> Place:
        return Place(self.run)

    @property
    def measured(self) -> list[PointSummary]:
        """The points that have a figure."""
        return [summary for summary in self.summaries if summary.repetitions]

    def section(self, of: Method[Any], template: str, **found: Any) -> Section:
        """A template of the folder of a method, which finds those of `xdplab.report` as well."""
        environment = templates(type(of).__module__)
        given = {"page": self, "run": self.run, "spec": of.spec, "answer": self.answer, "measured": self.measured}
        return Markup(environment.get_template(template).render(**given, **found))  # noqa: S704 - it escapes

    def table(self, columns: Sequence[Column] = (), caption: str = "The points that were measured") -> Section:
        """The points that were measured, with the columns of the method or those given, where one has a value."""
        points = in_order(self.method, self.measured)
        shown = [
            each
            for each in columns or own_columns(self.method)
            if "html" in each.places and any(each.of(point) is not None for point in points)
        ]
        ratios = {each.key: self.ratios(each.clause) for each in shown if each.ratio}
        found = {"points": points, "columns": shown, "ratios": ratios, "page": self, "answer": self.answer}
        found["caption"] = caption
        sizes = len({point.frame_bytes for point in points}) > 1
        template = templates().get_template("points.html.j2")
        return Markup(template.render(**found, several_sizes=sizes)) if points else Markup()  # noqa: S704 - it escapes

    def ratios(self, clause: str = "") -> dict[str, Comparison]:
        """Point id -> comparison with the answer's reference at the same setting; of what was measured `clause`."""
        return ratios_of(self.answer, self.measured, clause)

    def pictures(self) -> Section:
        """Distributions of latency, where there are any."""
        single = [summary for summary in self.measured if summary.samples]
        plots = latency_plots(self.method, single, self.trials) if single else []
        template = templates().get_template("pictures.html.j2")
        return Markup(template.render(plots=plots))  # noqa: S704 - it escapes

    @staticmethod
    def chart(found: Chart) -> Section:
        """A chart, and a table for readers without scripts."""
        macros: Any = templates().get_template("head.html.j2").module
        return Markup(macros.chart(found))  # noqa: S704 - it escapes


def templates(package: str = "") -> Environment:
    """Templates of a package and of this one, with everything escaped, and the filters that make numbers of them."""
    ours = PackageLoader("xdplab.report", ".")
    loader: BaseLoader = ChoiceLoader([PackageLoader(package, "."), ours]) if package else ours
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": lambda value: "–" if value is None else number(value)}
    environment.filters |= {"fixed": fixed, "loss": share, "kpps": kpps}
    environment.filters |= {
        "spread": spread,
        "missing_ratios": missing_ratios,
        "percent": percent,
        "span": span,
        "table": table,
    }
    environment.filters["share"] = share
    environment.filters |= {
        "interval": interval_text,
        "ratio_cell": ratio_cell,
        "ratio_spread": ratio_spread,
        "verdict": verdict,
    }
    environment.filters["zip"] = lambda columns: zip(*columns, strict=True)
    environment.globals |= {"asset": _asset, "script_names": SCRIPTS, "script_hashes": Markup(script_hashes())}  # noqa: S704
    return environment


# Style and scripts of our pages, put into each of them: a page is one file, and nothing is fetched.

#: Of every page.
SCRIPTS = ("chart.js", "table.js")


@cache
def asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def script_hashes() -> str:
    """What a page's Content-Security-Policy lets run: these scripts, and no other (CSP level 3, §2.3.1)."""
    digests = (hashlib.sha256(asset(name).encode()).digest() for name in SCRIPTS)
    return " ".join(f"'sha256-{b64encode(each).decode()}'" for each in digests)


def _asset(name: str) -> Markup:
    """A file of ours, as it is."""
    found = asset(name)
    return Markup(found.replace("/*cards*/", cards()))  # noqa: S704


def share(value: float | None) -> str:
    """`2.6 %`, 0 only when it is zero, a dash when it is not known."""
    return "–" if value is None else loss(value)


def latency_plots(
    method: Method[Any], measured: Sequence[PointSummary], trials: Sequence[TrialRecord]
) -> list[dict[str, Any]]:
    """One set of plots for each frame size and path, so that no picture mixes one-way with round trip."""
    plots = []
    for path, size, work in sorted({(each.path, str(each.frame_bytes), each.pipeline) for each in measured}):
        group = [each for each in measured if (each.path, str(each.frame_bytes), each.pipeline) == (path, size, work)]
        names = _curve_names(shown := in_order(method, group)[:_MOST_CURVES])
        own = trials_by_point(trials)
        curves = {names[s.point_id]: distribution(trials_used(method, own[s.point_id])) for s in shown}
        about = "Share of frames at or below a latency, to p99.999, all counted repetitions merged."
        about += f" The first {len(shown)} of {len(group)} points." if len(shown) < len(group) else ""
        plots.append(
            {
                "title": f"{group[0].quantity} latency, {group[0].frames}, path {path}"
                + (f", pipeline {work}" if work != "cross" else ""),
                "distribution": Page.chart(distribution_chart("cumulative distribution of latency", curves, about)),
            }
        )
    return plots


def _curve_names(group: Sequence[PointSummary]) -> dict[str, str]:
    """Point id -> its name, with what tells it from the others: two loads, or two testers, are two curves."""
    where = conditions(group, without=RATES)
    loads = {each.point_id: f"{significant((each.offered_pps or 0.0) / 1e3)} kpps" for each in group}
    several = len({*loads.values()}) > 1
    return {
        each.point_id: each.plain_name
        + each.variant
        + where[each.point_id]
        + (f", {loads[each.point_id]}" if several and each.offered_pps else "")
        for each in group
    }


def fixed(value: float | None, digits: int = 2) -> str:
    """A number for a table: three significant digits, a dash for nothing; what is not zero is never shown as zero."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    if 0 < abs(value) < 10**-digits:
        return significant(value, 2)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 20 else f"{value:.{digits}f}"


def spread(value: Spread | None, digits: int = 1, per: float = 1.0) -> str:
    """Median, and the range where there is more than one value."""
    if value is None:
        return "–"
    middle, low, high = (fixed(each / per, digits) for each in (value.median, value.low, value.high))
    return middle if value.count == 1 else f"{middle} ({low} to {high})"


def kpps(value: float | None) -> str:
    return "–" if value is None else number(value / 1000)


#: Columns from which on a table is of a kind -> the kind, and the width of a page up to which its rows are cards.
KINDS = {10: ("wide", "72rem"), 6: ("middling", "52rem"), 3: ("narrow", "30rem")}


def cards() -> str:
    rule = Template(asset("cards.css"))
    return "".join(rule.substitute(kind=kind, width=width) for kind, width in KINDS.values())


def table(rows: str, caption: str, sort: bool = False) -> Markup:
    """A table of rows `<tr>`, the first of which is its heading; with `sort` it is sorted and filtered by table.js.

    What stands in the rows is markup, which a template has escaped.
    """
    found = _Rows()
    found.feed(str.__str__(rows))  # a plain str: operations of Markup escape
    found.close()
    kind = next((kind for columns, (kind, _) in KINDS.items() if len(found.headings) >= columns), "")
    attributes = (f' class="{kind}"' if kind else "") + (" data-sort" if sort else "")
    head, *body = "".join(found.markup).split(_Rows.END)
    return Markup(  # noqa: S704 - see above; the caption is escaped here
        f'<div class="scroll"><table{attributes}><caption>{escape(caption)}</caption>\n'
        f"<thead>{head.strip()}</thead>\n<tbody>\n{''.join(body).strip()}\n</tbody></table></div>"
    )


class _Rows(HTMLParser):
    """Rows as they are, with a scope in the first, and the heading of its column at each cell of the others.

    Cells that span columns, and those of the first column, have none.
    """

    #: Behind the first row.
    END = "\0"

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.markup: list[str] = []
        self.headings: list[str] = []
        self._row, self._column, self._in_heading = 0, 0, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A row, a cell, or something in a cell."""
        text = self.get_starttag_text() or ""
        if tag == "tr":
            self._column = 0
        elif tag in ("td", "th") and not self._row:
            text = text.replace("<th", '<th scope="col"', 1)
            self.headings.append("")
            self._in_heading = True
        elif tag in ("td", "th"):
            span = int(dict(attrs).get("colspan") or 1)
            if span == 1 and 0 < self._column < len(self.headings):
                heading = " ".join(self.headings[self._column].split()).replace('"', "&quot;")
                text = f'{text[:-1]} data-label="{heading}">'
            self._column += span
        elif self._in_heading:
            self._break()
        self.markup.append(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._in_heading:
            self._break()
        self.markup.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        """The first row ends the heading."""
        self.markup.append(f"</{tag}>")
        if tag in ("td", "th"):
            self._in_heading = False
        elif tag == "tr":
            self.markup += [] if self._row else [self.END]
            self._row += 1

    def handle_data(self, data: str) -> None:
        self.markup.append(data)
        if self._in_heading:
            self.headings[-1] += data

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def _break(self) -> None:
        """A heading that is broken at a hyphen is one word."""
        self.headings[-1] = self.headings[-1][:-1] if self.headings[-1].endswith("-") else f"{self.headings[-1]} "
