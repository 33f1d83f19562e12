# SPDX-License-Identifier: Apache-2.0
"""A sweep as a gate, one test for each combination of the study's settings.

pytest suites/pytest/test_sweep.py --runs 12 --max-p50-us 500
"""

from typing import Any

import pytest

from xdplab import app
from xdplab.analysis import PointSummary, summarise
from xdplab.analysis.doubts import doubts_of_one
from xdplab.cli.progress import ConsoleListener
from xdplab.model import Point, StudySpec
from xdplab.tools import project_root

STUDY = project_root() / "suites" / "studies" / "understanding-delays-embedded.yaml"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each point of the study, in its order; the study is read and nothing is run yet."""
    if "point" in metafunc.fixturenames:
        points = app.prepare(_study(metafunc.config)).plan.points
        metafunc.parametrize("point", points, ids=lambda point: point.id)


def _study(config: pytest.Config) -> StudySpec:
    changes: dict[str, Any] = {"testbed": config.getoption("--testbed"), "tester": config.getoption("--tester")}
    runs = config.getoption("--runs")
    if runs:
        changes["design"] = {"kind": "random", "runs": runs}
    return app.read_study(STUDY, {**changes, "repetitions": config.getoption("--repetitions")})


@pytest.fixture(scope="module")
def measured(pytestconfig: pytest.Config) -> dict[str, PointSummary]:
    """One run of the whole study: points are interleaved, so they cannot be run one test at a time."""
    with ConsoleListener() as listener:
        folder, outcome = app.run_study(app.prepare(_study(pytestconfig)), listener, app.results_folder())
    assert outcome.error is None and outcome.interrupted is None
    return {summary.point_id: summary for summary in summarise(outcome.record, folder.trials())}


@pytest.mark.timeout(7200)
def test_a_configuration_is_measured(
    point: Point, measured: dict[str, PointSummary], pytestconfig: pytest.Config
) -> None:
    found = measured[point.id]
    if found.status == "unsupported":
        pytest.skip(found.reason)
    assert found.status in ("ok", "disturbed"), found.reason
    limit = pytestconfig.getoption("--max-p50-us")
    assert found.p50_us is not None, "no frame arrived"
    if limit is not None:
        doubts = "; ".join(doubts_of_one(found, "p50_us"))
        assert not doubts, f"p50 {found.p50_us:.2f} us cannot be held against {limit:g} us: {doubts}"
        assert found.p50_us <= limit, f"p50 {found.p50_us:.2f} us, not {limit:g} us or less"
