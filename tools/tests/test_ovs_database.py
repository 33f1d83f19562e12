# SPDX-License-Identifier: Apache-2.0
"""A bridge goes into the database of Open vSwitch without ovs-vsctl, as that would put it there."""

from pathlib import Path
from typing import Any

import pytest
from lab.ovs_host import OvsHost, dut_maker, forwarder

from xdplab.forwarders.ovs import daemon
from xdplab.model import PointFailed, XdplabError


def test_columns_become_what_their_text_means() -> None:
    columns = [
        "type=dpdk",
        "mtu_request=1500",
        "options:n_rxq=1",
        "options:dpdk-devargs=net_af_xdp0,iface=b0,budget=64",
    ]
    columns += ["other_config:pmd-rxq-affinity=0:1,1:2", 'other_config:hwaddr="02:00:00:00:00:01"']
    assert daemon.row(columns) == {
        "type": "dpdk",
        "mtu_request": 1500,
        "options": ["map", [["n_rxq", "1"], ["dpdk-devargs", "net_af_xdp0,iface=b0,budget=64"]]],
        "other_config": ["map", [["pmd-rxq-affinity", "0:1,1:2"], ["hwaddr", "02:00:00:00:00:01"]]],
    }


class Answering(OvsHost):
    """Its database answers transactions that begin with some operation as it is told."""

    def __init__(self, begin: str, answer: Any) -> None:
        super().__init__()
        self.begin, self.answer = begin, answer

    def ask_socket(self, path: Path, method: str, *params: Any, timeout_s: float = 30.0) -> Any:
        if path.name == "db.sock" and method == "transact" and params[1]["op"] == self.begin:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer
        return super().ask_socket(path, method, *params, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("begin", "answer", "words"),
    [
        (
            "insert",
            [{}, {"error": "constraint violation", "details": "of b0"}],
            "database: constraint violation: of b0",
        ),
        ("insert", XdplabError("B: db.sock: it hung up"), "B: db.sock: it hung up"),
        ("wait", [{"error": "timed out"}], "its configuration: timed out after 0 s"),
        ("wait", [{"error": "unknown column", "details": "cur_cfg"}], "database: unknown column: cur_cfg"),
    ],
)
def test_a_daemon_that_does_not_take_it_fails_the_point(
    begin: str, answer: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = forwarder("ovs-afxdp")
    monkeypatch.setattr(type(made), "start_timeout_s", 0.0)
    with pytest.raises(PointFailed, match=f"^ovs-afxdp: {words}$"):
        made.start(dut_maker(tmp_path)(Answering(begin, answer)))
