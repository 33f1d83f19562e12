# SPDX-License-Identifier: Apache-2.0
"""Options of the gates; `pytest suites/pytest/test_rfc2544.py --help` lists them."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xdplab")
    group.addoption("--testbed", default="embedded", help="name in suites/testbeds, or a file")
    group.addoption("--path", default=(), help="through, reflect or hairpin (default: as the testbed has it)")
    group.addoption("--line-rate", default=None, help="of the ports in bit/s (default: speed_mbps of the testbed file)")
    group.addoption("--tester", default="xdpgen", help="tester")
    group.addoption("--forwarder", action="append", default=[], help="forwarder[:option=value,...]; may be repeated")
    group.addoption("--frame-bytes", default="64", help="frame size with FCS, or imix")
    group.addoption("--preset", default="quick", help="quick, csit, tst009, rfc2544 or binary")
    group.addoption("--repetitions", type=int, default=1, help="searches per forwarder")
    group.addoption("--min-ndr-pps", type=float, default=0.0, help="throughput without loss that must be reached")
    group.addoption("--runs", type=int, default=0, help="a random part of a sweep's combinations instead of all")
    group.addoption("--max-p50-us", type=float, default=None, help="median latency that no configuration may exceed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "forwarder" in metafunc.fixturenames:
        metafunc.parametrize("forwarder", metafunc.config.getoption("--forwarder") or ["ovs-afxdp"])
