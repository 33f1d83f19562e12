# SPDX-License-Identifier: Apache-2.0
"""The testbed file: which hosts, which ports, and the CPUs the four halves of a path may use."""

from typing import Annotated, Literal

from pydantic import Field

from xdplab.model.base import Model

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]


class CpuLayout(Model):
    """Where the four consumers of CPU time run ("whose core pays").

    `None` for a NAPI means inline: on veth it then runs on the core that sent the frame.
    """

    tester_tx: int = Field(ge=0)
    dut_napi: int | None = Field(default=None, ge=0)
    forwarder: int = Field(ge=0)
    tester_rx: int | None = Field(default=None, ge=0)
    housekeeping: tuple[int, ...] = ()

    def describe(self) -> str:
        """One line for tables: `tx 0 · napi inline · forwarder 1 · rx inline`."""
        napi = "inline" if self.dut_napi is None else str(self.dut_napi)
        rx = "inline" if self.tester_rx is None else str(self.tester_rx)
        return f"tx {self.tester_tx} · napi {napi} · forwarder {self.forwarder} · rx {rx}"


class TestbedSpec(Model):
    """A testbed file (`suites/testbeds/*.yaml`).

    `embedded` builds namespaces and veth pairs on this machine; `fake` simulates all of it without root.
    """

    __test__ = False  # the name is the field's term, not a pytest class

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: Name
    kind: Literal["embedded", "fake"]
    mtu: int = Field(default=1500, ge=576, le=3498)
    queues: int = Field(default=1, ge=1, le=16)
    #: CPUs the data path may use; default: all this process may run on.
    cpus: tuple[int, ...] | None = None
