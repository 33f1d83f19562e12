# SPDX-License-Identifier: Apache-2.0
"""Charts and tables of our pages: light, nothing in them ends an element, and extremes stay."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from lab.records import point, trial
from lab.tags import Tags
from markupsafe import escape

from xdplab.measure.distribution import distribution
from xdplab.report import page as pages
from xdplab.report.chart import MAX_POINTS, Axis, Chart, InRow, Series, distribution_chart, row_chart
from xdplab.report.page import Page, table, templates

HOSTILE = "</script><!--<script>alert(1)</script>"
X, Y = Axis("time", "s"), Axis("latency", "µs")


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.none(), max_size=1500),
    st.booleans(),
)
def test_what_is_embedded_is_short_and_keeps_the_extremes(values: list[float | None], log: bool) -> None:
    chart = Chart("any", X, Axis("y", "", log=log), [Series("s", range(len(values)), values)])
    (found,) = json.loads(chart.json(120))["series"]
    assert len(found["x"]) == len(found["y"]) <= 120
    seen = [value for value in values if value is not None and np.isfinite(value) and (value > 0 or not log)]
    if seen:
        kept = [value for value in found["y"] if value is not None]
        assert min(kept) <= float(f"{min(seen):.6g}")
        assert max(kept) >= float(f"{max(seen):.6g}")


def test_a_spike_of_one_point_and_its_band_survive() -> None:
    y = np.ones(100_000)
    y[77_777] = 50.0
    low, high = y - 1, y + 1
    low[31_000], high[62_000] = -40, 90
    found = Chart("t", X, Y, []).thinned(Series("s", np.arange(100_000), y, low, high))
    assert found.low is not None
    assert found.high is not None
    assert len(found.x) <= MAX_POINTS
    assert (max(found.y), min(found.low), max(found.high)) == (50, -40, 90)  # type: ignore[type-var]
    assert (found.x[0], found.x[-1]) == (0, 99_999)


def test_names_and_missing_values_end_no_element() -> None:
    chart = Chart(HOSTILE, X, Axis(HOSTILE, HOSTILE), [Series(HOSTILE, [1, 2, 3], [1.0, None, float("nan")])])
    text = chart.json()
    assert not set("<>&") & set(text)
    assert json.loads(text)["series"] == [
        {"name": HOSTILE, "joined": True, "steps": False, "bars": False, "x": [1, 2, 3], "y": [1, None, None]}
    ]
    assert HOSTILE not in str(Page.chart(chart))


def test_a_page_runs_our_scripts_only_and_fetches_nothing() -> None:
    source = '{% import "head.html.j2" as ours %}{{ ours.head(bad) }}{{ ours.chart(chart) }}{{ ours.scripts() }}'
    chart = Chart("t", X, Y, [Series("s", [1, 2], [3, 4])], note="Below it.")
    page = templates().from_string(source).render(bad=HOSTILE, chart=chart)
    assert f"script-src {pages.script_hashes()}" in page
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert scripts == [pages.asset(name) for name in pages.SCRIPTS]
    assert f"<title>{escape(HOSTILE)}" in page
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", "".join(scripts))
    assert {address.split("/")[2] for address in re.findall(r"https?://[^\s\"'<>]+", page)} == {"www.w3.org"}


def test_each_cell_knows_its_heading() -> None:
    rows = (
        '<tr><th>name</th><th class="left">p50 µs<br>(&quot;a&quot;)</th><th>inter-<br>actions</th></tr>\n'
        '<tr id="x"><td>one</td><td class="left">2 &lt; 3</td><td>4</td></tr>'
        '<tr class="said"><td colspan="2">both</td><td>5</td></tr>'
    )
    found = Tags(table(rows, "Two & three", sort=True))
    assert found.of("th", "scope") == ["col"] * 3
    assert found.of("td", "data-label") == [None, 'p50 µs ("a")', "interactions", None, "interactions"]
    assert found.of("table", "class") == ["narrow"]
    assert "Two &amp; three" in table(rows, "Two & three")
    assert (" data-sort" in table(rows, "", sort=True), " data-sort" in table(rows, "")) == (True, False)


def test_rows_stand_in_their_order_and_bars_have_ends() -> None:
    places = {"a": [InRow(0, 2.0, 1.0, 3.0), InRow(1, 5.0)], "b": [InRow(1, 4.0, 0.0, 4.0)], "none": []}
    chart = row_chart("rows", ["first", "second"], X, places, bars={"b"})
    reported = json.loads(chart.json())
    assert reported["y"]["names"] == ["second", "first"]  # from the bottom
    assert [(each["name"], each["y"], each["low"], each["bars"]) for each in reported["series"]] == [
        ("a", [1, 0], [1, None], False),
        ("b", [0], [0], True),
    ]
    assert [*chart.rows()] == [("a", "2 (1 to 3)", "first"), ("a", "5", "second"), ("b", "4 (0 to 4)", "second")]


def test_series_of_one_name_have_one_colour() -> None:
    curves = [Series(name, [1.0, 2.0], [1.0, 2.0]) for name in ("a", "b", "a")]
    chart = Chart("t", X, Y, curves)
    assert chart.numbers == {"a": 0, "b": 1}


def test_without_scripts_a_chart_is_a_table_of_a_few_points() -> None:
    curve = distribution_chart("t", {"a": distribution([trial(point("fake"), 0, range(1000, 11_000))])}, "")
    rows = [*curve.rows()]
    assert [y for _, _, y in rows] == ["min", "p50", "p90", "p99", "p99.9"]
    assert [float(x) for _, x, _ in rows] == pytest.approx([1, 6, 10, 10.9, 11], rel=0.02)
    line = Chart("t", X, Y, [Series("s", range(100), [float(n) for n in range(100)])])
    assert len([*line.rows()]) == 12
    page = str(Page.chart(line))
    assert page.count("<td") == 3 * 12
    assert page.index("<noscript>") < page.index("<td") < page.index("</noscript>")
