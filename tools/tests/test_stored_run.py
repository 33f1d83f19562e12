# SPDX-License-Identifier: Apache-2.0
"""A real run of three short repetitions, stored: it can be read, shown, compared and drawn as on the day it was made.

When this fails because a model has changed, old runs of users cannot be read either: raise SCHEMA_VERSION or read both.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.command import Done, inline

from xdplab.measure.distribution import Distribution
from xdplab.results import RunFolder

STORED = Path(__file__).parent / "data" / "stored-run"


@pytest.fixture
def run(results: Path) -> RunFolder:
    shutil.copytree(STORED, results / "stored")
    return RunFolder(results / "stored")


def test_a_stored_run_is_shown_with_its_figures(run: RunFolder, cli: Callable[..., Done]) -> None:
    rows = cli("show", "stored", "--json").json()
    expected = json.loads((STORED / "expected.json").read_text(encoding="utf-8"))
    assert [row["forwarder"] for row in rows] == [row["forwarder"] for row in expected]
    for row, known in zip(rows, expected, strict=True):
        assert {key: row[key] for key in known} == pytest.approx(known)
    assert "OVS on AF_PACKET" in cli("show", "stored").out.splitlines()[-1]


def test_histograms_of_the_tester_hold_what_its_counters_say(run: RunFolder) -> None:
    trials = [trial for trial in run.trials() if trial.result]
    assert len(trials) >= 9
    for trial in trials:
        for stream in trial.result.streams if trial.result else ():
            assert stream.latency
            found = Distribution.merged([stream.latency.hdr])
            assert found.count == stream.latency.count == stream.received
            assert stream.sent == stream.received + stream.lost
            assert found.values_ns[0] == pytest.approx(stream.latency.min_ns, rel=0.002)
            assert found.values_ns[-1] == pytest.approx(stream.latency.max_ns, rel=0.002)
            mean = float((found.values_ns * found.counts).sum() / found.count)
            assert mean == pytest.approx(stream.latency.mean_ns, rel=0.002)


def test_the_report_of_a_stored_run_is_drawn_again(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    done = inline(capsys, "report", "stored")
    assert (done.code, done.out.strip()) == (0, str(run.report))
    html = run.report.read_text(encoding="utf-8")
    assert html.count("<figure") == 2
    for words in ("OVS on AF_XDP", "native copy", "af_packet", "zero-copy: the veth driver", "top rate"):
        assert words in html
    # of three forwarders and repetitions; the default run has eight and five, and a page of at most 1 MB
    assert len(html.encode()) < 300_000


def test_a_stored_run_differs_from_itself_in_nothing(run: RunFolder, cli: Callable[..., Done]) -> None:
    (found,) = cli("compare", "stored", "stored", "--json").json()["comparisons"]
    assert found["environment"] == {}
    assert [point["p50_us"]["interval"]["ratio"] for point in found["points"]] == [1, 1, 1]


def test_the_stored_run_is_small() -> None:
    assert sum(path.stat().st_size for path in STORED.iterdir()) < 300_000
