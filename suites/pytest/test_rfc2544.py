# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.1 as a gate: a forwarder must reach a throughput without loss.

pytest suites/pytest/test_rfc2544.py --forwarder ovs-afxdp --min-ndr-pps 500000
"""

from statistics import median

import pytest

from xdplab import app
from xdplab.analysis import summarise
from xdplab.cli.progress import ConsoleListener
from xdplab.model import Missing
from xdplab.tools import project_root


@pytest.mark.timeout(7200)
def test_throughput_without_loss(forwarder: str, pytestconfig: pytest.Config) -> None:
    option = pytestconfig.getoption
    study = app.read_study(
        project_root() / "suites" / "studies" / "rfc2544.yaml",
        {
            "testbed": option("--testbed"),
            "tester": option("--tester"),
            "forwarders": [forwarder],
            "answer": None,
            "traffic.frame_bytes": option("--frame-bytes"),
            "method.preset": option("--preset"),
            "method.clauses": ["throughput"],
            "method.loss_ratios": [0.0],
            "repetitions": option("--repetitions"),
        },
    )
    try:
        with ConsoleListener() as listener:
            folder, outcome = app.run_study(app.prepare(study), listener, app.results_folder())
    except Missing as exc:
        pytest.skip(str(exc))
    assert outcome.error is None and outcome.interrupted is None
    (point,) = summarise(outcome.record, folder.trials())
    if point.status == "unsupported":
        pytest.skip(point.reason)
    assert point.status in ("ok", "disturbed"), point.reason
    ndr = median(figures.ndr_pps or 0.0 for figures in point.by_repetition)
    wanted = option("--min-ndr-pps")
    limits = point.figures["throughput"]["bounds"][0]["limited_by"]
    noise = f"; disturbed: {point.reason}" if point.status == "disturbed" else ""
    assert ndr >= wanted, f"{forwarder}: {ndr:.0f} pps without loss (limited by {limits}), not {wanted:.0f}{noise}"
