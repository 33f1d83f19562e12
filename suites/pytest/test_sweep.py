# SPDX-License-Identifier: Apache-2.0
"""A sweep as a gate, one test for each combination of the study's settings.

pytest suites/pytest/test_sweep.py --runs 12 --max-p50-us 500
"""

from typing import Any

import pytest

from xdplab import api

STUDY = api.project_root() / "suites" / "studies" / "understanding-delays-embedded.yaml"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each point of the study, in its order; the study is read and nothing is run yet."""
    if "point" in metafunc.fixturenames:
        points = api.points(_study(metafunc.config))
        metafunc.parametrize("point", points, ids=lambda point: point.id)


def _study(config: pytest.Config) -> api.StudySpec:
    option = config.getoption
    changes: dict[str, Any] = {"testbed": option("--testbed"), "path": option("--path"), "tester": option("--tester")}
    changes["traffic.line_rate_bps"] = option("--line-rate")
    runs = option("--runs")
    if runs:
        changes["design"] = {"kind": "random", "runs": runs}
    return api.read_study(STUDY, {**changes, "repetitions": option("--repetitions")})


@pytest.fixture(scope="module")
def measured(pytestconfig: pytest.Config) -> dict[str, api.PointSummary]:
    """One run of the whole study: points are interleaved, so they cannot be run one test at a time."""
    run = api.measure(_study(pytestconfig))
    assert run.record.ended_early is None
    return {summary.point_id: summary for summary in run.points}


@pytest.mark.timeout(7200)
def test_a_configuration_is_measured(
    point: api.Point, measured: dict[str, api.PointSummary], pytestconfig: pytest.Config
) -> None:
    found = measured[point.id]
    if found.status == "unsupported":
        pytest.skip(found.reason)
    assert found.status == "ok", found.reason
    limit = pytestconfig.getoption("--max-p50-us")
    assert found.p50_us is not None, "no frame arrived"
    if limit is not None:
        doubts = "; ".join(api.doubts_of_one(found, "p50_us"))
        assert not doubts, f"p50 {found.p50_us:.2f} us cannot be held against {limit:g} us: {doubts}"
        assert found.p50_us <= limit, f"p50 {found.p50_us:.2f} us, not {limit:g} us or less"
