# SPDX-License-Identifier: Apache-2.0
"""A forwarder with two ports that does some work, and is none."""

from pathlib import Path as FilePath
from types import SimpleNamespace
from typing import Any

from pydantic import TypeAdapter

from xdplab.forwarders.base import Dut
from xdplab.model import CpuLayout, Path, Pipeline
from xdplab.model.pipeline import PipelineText

TEXT: TypeAdapter[Pipeline] = TypeAdapter(PipelineText)


def dut(pipeline: str) -> Dut:
    names = ("b0", "b1", "a0", "c0")
    ports: Any = [
        SimpleNamespace(role=n, ifname=n, mac=f"02:00:00:00:00:{i:02x}", address="") for i, n in enumerate(names)
    ]
    layout = CpuLayout(tester_tx=0, forwarder=1)
    host: Any = None
    made = TEXT.validate_python(pipeline)
    return Dut(host, tuple(ports[:2]), Path.THROUGH, layout, FilePath("/"), peers=tuple(ports[2:]), pipeline=made)
