# SPDX-License-Identifier: Apache-2.0
"""Tables, pictures, exports and Robot's log say no more than the analysis does."""

import re
from pathlib import Path
from typing import Any

import pytest
from lab.records import encoded, point, run_record, trial

from xdplab.analysis import PointSummary, summarise
from xdplab.analysis.columns import figure_column, range_columns
from xdplab.methods import figure
from xdplab.methods.stages.figures import stage_rows
from xdplab.methods.tracing.figures import tracing_answer, tracing_part
from xdplab.report import plots, render
from xdplab.report.words import describe
from xdplab.results import RunFolder

A, B = point("fake:seed=1"), point("fake:seed=2")
STORED = Path(__file__).parent / "data" / "stored"
#: Of a hundred samples of a trial one lies above p99.
HUNDRED = [*range(1000, 1099), 50_000]


def stored(name: str) -> tuple[RunFolder, list[PointSummary]]:
    folder = RunFolder(STORED / name)
    return folder, summarise(folder.load(), folder.trials())


def seen(html: str) -> str:
    """What a reader sees, scripts and pictures apart."""
    html = re.sub(r"<(script|style|svg)\b.*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Those of each picture that is drawn with `plots.new_plot`."""
    found: list[Any] = []
    new = plots.new_plot

    def kept(height: float) -> Any:
        made = new(height)
        found.append(made[1])
        return made

    monkeypatch.setattr(plots, "new_plot", kept)
    return found


def test_a_percentile_that_is_not_carried_is_shown_nowhere(axes: list[Any]) -> None:
    (few,) = summarise(run_record(A), [trial(A, n, HUNDRED) for n in range(3)])
    (many,) = summarise(run_record(A), [trial(A, n, HUNDRED * 4) for n in range(3)])
    for one, known in ((few, False), (many, True)):
        shown = [figure_column(figure("p99_us")), *range_columns(figure("p99_us"))]
        found = [each.of(one) for each in shown] + [one.p99_us, one.p99_us_all]
        assert [value is not None for value in found] == [known] * 5
        plots.repetition_plot([one])
        assert sum(line.get_marker() == "|" for line in axes[-1].lines) == (3 if known else 0)
        assert sum(line.get_marker() == "o" for line in axes[-1].lines) == 3
    assert describe(trial(A, 0, HUNDRED)) == "p50 1.05 us, lost 0 of 100"
    assert "p99" in describe(trial(A, 0, HUNDRED * 12))


def test_a_stage_has_a_p99_where_ten_frames_lie_above_it() -> None:
    def of(values: list[int]) -> float | None:
        stage = {"count": len(values), "min_ns": 1000, "max_ns": 2000, "mean_ns": 1500.0, "rms_ns": 1.0}
        told = {name: {**stage, "hdr": encoded(values)} for name in ("driver", "stack", "complete")}
        return stage_rows([trial(A, 0, values, figures={"stages": told})])["complete"].p99_us

    assert of(HUNDRED) is None
    assert of(HUNDRED * 12) is not None


def test_what_tracing_costs_is_not_said_without_clean_rounds() -> None:
    folder, points = stored("tracing")
    sentence = tracing_answer(points, 10).sentence
    assert "too disturbed to say" in sentence
    page = seen(render(folder.load(), folder.trials()))
    for text in (sentence, page, *tracing_part(points, "bpf").told):
        assert "2,888,038,959" not in text
        assert not re.search(r"\d \([\d.,-]+ to [\d.,]+\), too disturbed", text)
    assert page.count("not said") >= 3


def test_what_probes_cost_is_not_said_without_clean_pairs() -> None:
    folder, _ = stored("breakdown")
    quiet = [each.model_copy(update={"status": "ok"}) if each.result else each for each in folder.trials()]
    clean, bad = (render(folder.load(), found) for found in (quiet, folder.trials()))
    assert "not said" in seen(bad)
    assert "not said" not in seen(clean)
