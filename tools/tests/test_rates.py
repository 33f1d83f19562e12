# SPDX-License-Identifier: Apache-2.0
"""Rates as a share of the tester's calibrated top rate, what a method may ask of it, and how far calibrating is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done

from xdplab import app
from xdplab.measure import make_method
from xdplab.model import InputError, TrafficSpec
from xdplab.runner.plan import Listener
from xdplab.testbed import FakeTestbed
from xdplab.testers.fake import FakeTester, Sender


@pytest.mark.parametrize("asked", ["80%", "0.5%", "99.9%", "100%"])
def test_a_rate_may_be_a_share_of_the_testers_top_rate(asked: str) -> None:
    traffic = TrafficSpec.model_validate({"probe_pps": asked})
    share = float(asked.rstrip("%")) / 100
    assert traffic.at(91_000).probes_per_s == pytest.approx(91_000 * share)
    both = traffic.model_copy(update={"bidirectional": True})
    assert both.at(91_000).probes_per_s == pytest.approx(91_000 * share / 2)
    assert traffic.probes_text == f"{asked} of the tester's top rate"
    assert TrafficSpec.model_validate({"probe_pps": "50000"}).at(1.0).probes_per_s == 50_000


@pytest.mark.parametrize("asked", ["0%", "101%", "-5%", "80 %", "%", "100.1%", "0.0%", "fast"])
def test_a_share_that_is_none_is_refused(asked: str) -> None:
    with pytest.raises(InputError, match=r"study: traffic.probe_pps: ") as caught:
        studies.study(traffic={"probe_pps": asked})
    assert "\n" not in str(caught.value)


def test_a_run_asks_for_the_share_of_the_calibrated_rate(tmp_path: Path, results: Path) -> None:
    study = studies.study(traffic={"probe_pps": "25%"}, loads=[{}, {"probe_pps": "50%"}, {"probe_pps": 3000}])
    folder, outcome = app.run_study(app.prepare(study), Listener(), results)
    top = outcome.record.calibration
    assert top is not None
    asked = {trial.offered_pps for trial in folder.trials() if trial.result is not None}
    assert sorted(asked) == pytest.approx([3000.0, top.ceiling_pps / 4, top.ceiling_pps / 2])
    assert {outcome.record.traffic(point).probes_per_s for point in outcome.record.points.values()} == asked
    assert folder.report.is_file()


def test_a_dry_run_shows_the_share(cli: Callable[..., Done], tmp_path: Path) -> None:
    done = cli("run", studies.study_file(tmp_path, traffic={"probe_pps": "80%"}), "--dry-run")
    assert done.code == 0
    assert "80% of the tester's top rate" in done.out


def test_a_share_of_what_is_not_calibrated_is_refused(
    cli: Callable[..., Done], tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeTestbed, "direct_ports", lambda self: None)
    with pytest.raises(InputError, match=r"traffic.probe_pps: 80% .* no direct link .* give frames per second"):
        app.run_study(app.prepare(studies.study(traffic={"probe_pps": "80%"})), Listener(), results)


def test_a_share_is_of_one_tester() -> None:
    with pytest.raises(InputError, match=r"traffic.probe_pps: 80% would be another rate for each of its testers"):
        app.prepare(studies.study(traffic={"probe_pps": "80%"}, tester="fake", testers=["fake", "xdpgen"]))


def test_a_method_is_not_refused_for_a_rate_that_it_never_asks_for(results: Path, slow: None) -> None:
    """Of RFC 2544's throughput the study gives no rate: its default, 100 kpps, was refused to a tester of 91."""
    clause = {"name": "throughput", "preset": "quick", "budget_s": 3}
    prepared = app.prepare(studies.study(traffic={}, method=clause, repetitions=1))
    _, outcome = app.run_study(prepared, Listener(), results)
    assert outcome.error is None
    with pytest.raises(InputError, match=r"100000 pps asked for.*top rate.*is 9.* pps .*traffic.probe_pps=80%"):
        app.run_study(app.prepare(studies.study(traffic={}, repetitions=1)), Listener(), results)


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ({"name": "latency"}, 6000.0),
        ({"name": "latency", "light_pps": 5000}, 10_000.0),
        ({"name": "rfc2544"}, 0.0),
        ({"name": "throughput", "equal_load": {"latency_pps": 700}}, 1400.0),
        ({"name": "breakdown", "rates_pps": [10, 30, 20]}, 60.0),
        ({"name": "tracing", "rates_pps": [10, 30, 20]}, 60.0),
    ],
)
def test_what_each_method_asks_for(method: dict[str, Any], asked: float) -> None:
    study = studies.study(method=method, traffic={"probe_pps": 1000, "load_pps": 2000, "bidirectional": True})
    assert make_method(study.method).asked_pps(study.traffic) == asked


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated tester sends 91,000 frames per second at the most."""
    real = Sender

    def sender(top_pps: float, *rest: Any) -> Sender:
        return real(min(top_pps, 91_000.0), *rest)

    monkeypatch.setattr("xdplab.testers.fake.Sender", sender)


def test_calibrating_tells_how_far_it_is(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Lines(Listener):
        def progress(self, text: str) -> None:
            said.append(text)

    monkeypatch.setattr(FakeTester, "loses_by_itself", True)
    app.run_study(app.prepare(studies.study(repetitions=1)), Lines(), results)
    steps = [line for line in said if line.startswith("calibrating fake: ")]
    assert steps[:3] == [f"calibrating fake: trial {n} of 3, paced and at its top rate" for n in (1, 2, 3)]
    assert steps[3].endswith("kpps without loss? (step 1 of at most 6)")
