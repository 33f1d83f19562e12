# SPDX-License-Identifier: Apache-2.0
"""Forwarder xdp says why nothing comes through where the peer of its port takes no redirected frames."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab.answering import answering

from xdplab.forwarders import Dut
from xdplab.forwarders.kernel.xdp import XdpForwarder, XdpOptions
from xdplab.hosts import LocalHost
from xdplab.model import CpuLayout, Path as Way

WORDS = "xdpfwd: nothing leaves at b1, 600 frames were dropped there: the peer needs an XDP program or NAPI"


class Machine(LocalHost):
    """bpf/xdpfwd is a program that says `words` on stderr when it is asked for its counters."""

    words = ""

    def start(self, argv: Any, **more: Any) -> Any:
        return super().start(answering('{"event": "ready"}', "{}", self.words), **more)


@pytest.mark.parametrize("words", ["", WORDS])
def test_what_the_program_says_is_in_the_reason(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdplab.hosts.bpf.bpf_program", lambda name: Path("/bin/true"))
    monkeypatch.setattr(Machine, "words", words)
    made = XdpForwarder(XdpOptions())
    port: Any = SimpleNamespace(role="b0", ifname="b0")
    made.start(Dut(Machine(), (port,), Way.HAIRPIN, CpuLayout(tester_tx=0, forwarder=0), tmp_path))
    try:
        assert made.why_silent() == words
    finally:
        made.stop()
