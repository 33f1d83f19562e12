# SPDX-License-Identifier: Apache-2.0
"""Every number can be traced: `xdplab show RUN POINT`, and the rows of the report that lead there."""

import re
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import micro_records as micro, studies
from lab.command import Done
from lab.reading import render
from lab.records import point, run_record, trial

from xdplab.analysis.trace import find_point
from xdplab.model import InputError


def test_the_way_from_frames_to_a_percentile(tmp_path: Path, cli: Callable[..., Done]) -> None:
    assert (
        cli("run", studies.study_file(tmp_path, repetitions=3, answer=["fake", "fake:base_latency_us=9.0"])).code == 0
    )
    row = next(row for row in cli("show", "--json").json() if row["forwarder"] == "fake")
    lines = cli("show", "latest", row["point_id"][:8]).out.splitlines()
    assert lines[0].startswith(f"point {row['point_id']}: fake, path through, 64 bytes")
    counted = [line for line in lines if "frames sent" in line]
    assert len(counted) == 3
    assert all(line.endswith("ok; is used") for line in counted)
    (p50,) = [line for line in lines if line.startswith("p50, µs: median of 3 repetitions: ")]
    values = [float(text) for text in re.findall(r"#\d ([\d.]+)", p50)]
    assert statistics.median(values) == float(p50.rpartition(" = ")[2])
    assert abs(values[1] - row["by_repetition"][1]["figures"]["p50_us"]["value"]) < 0.001 * values[1]
    assert any(line.startswith("ratio fake over fake:base_latency_us=9.0: ") for line in lines)
    assert cli("show", "latest", "fake").out.splitlines() == lines


def test_each_trial_and_a_bound_are_reported(results: Path, cli: Callable[..., Done]) -> None:
    spec = micro.study(method={"name": "micro", "workloads": ["rxdrop"]})
    (at,) = micro.points_of(spec)
    trials = [micro.trial(at, 2e6, repetition=n, sent_pps=2e6) for n in range(3)]
    trials.append(micro.trial(at, 9e4, repetition=3, sent_pps=2e6))
    micro.store(results, spec, trials)
    out = " ".join(cli("show", "latest", "one").out.split())  # lines of 100 columns at most
    assert "0.090 Mpps; ok; is used" in out
    assert "rate, Mpps: median of 4 repetitions: #1 2, #2 2, #3 2, #4 0.09 = 2" in out
    assert "reported as at least 2: limited by tester" in out


def test_a_name_that_is_none_or_several_is_one_line(results: Path, cli: Callable[..., Done]) -> None:
    micro.store(results, micro.study(), [])
    cli("show", "latest", "nobody").refused("point 'nobody': there is none; there are ", "(one, rxdrop)")
    cli("show", "latest", "one").refused("point 'one': several are called so; there are ", "(one, l2fwd)")


def test_points_of_one_title_are_reported_by_what_differs() -> None:
    run = run_record(*(point("fake", frame_bytes=size) for size in (64, 128)))
    with pytest.raises(InputError, match=r"several .* \(fake, bytes=64\), \w+ \(fake, bytes=128\)"):
        find_point(run, "fake")


def test_a_row_of_the_report_leads_to_its_trials() -> None:
    at = point("fake:seed=1")
    html = render(run_record(at), [trial(at, n, [1000 + n] * 20) for n in range(3)])
    assert f'<a href="#way-{at.id}">fake (seed=1)</a>' in html
    (fold,) = re.findall(rf'<pre id="way-{at.id}">.*?</pre></details>', html, re.DOTALL)
    assert fold.count("20 frames sent, 20 received, 0 lost") == 3
    assert f'title="point {at.id}, 3 repetitions, ok"' in html
    in_turns = render(run_record(at), [trial(at, n, [1000 + n] * 20, turn=0) for n in range(3)])
    assert "20 frames sent" not in in_turns
    assert "3 trials in turns: `xdplab show " in in_turns
