# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.1 as a gate: a forwarder must reach a throughput without loss.

pytest suites/pytest/test_rfc2544.py --forwarder ovs-afxdp --min-ndr-pps 500000
"""

import pytest

from xdplab import api


@pytest.mark.timeout(7200)
def test_throughput_without_loss(forwarder: str, pytestconfig: pytest.Config) -> None:
    option = pytestconfig.getoption
    study = api.read_study(
        api.project_root() / "suites" / "studies" / "rfc2544.yaml",
        {
            "testbed": option("--testbed"),
            "path": option("--path"),
            "traffic.line_rate_bps": option("--line-rate"),
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
        run = api.measure(study)
    except api.Missing as exc:
        pytest.skip(str(exc))
    assert run.record.ended_early is None
    (point,) = run.points
    if point.status == "unsupported":
        pytest.skip(point.reason)
    assert point.status == "ok", point.reason
    missed = point.measured["ndr_pps"].not_reached(option("--min-ndr-pps"))
    assert not missed, f"{forwarder}: throughput without loss: {missed}"
