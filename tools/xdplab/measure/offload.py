# SPDX-License-Identifier: Apache-2.0
"""How many frames an offload took: by what the forwarder's ports counted in each trial, not by what was asked for."""

from collections.abc import Iterable

from xdplab.forwarders.ovs_ports import LEFT, OFFLOADED
from xdplab.model import Model, TrialRecord


class Offloaded(Model):
    """Frames that offloaded flows forwarded, and those that went to the socket."""

    met: int
    left: int

    def text(self) -> str:
        """For the report, for a trial's line, for Robot."""
        others = ", the others went to the socket" if self.left else ""
        return f"{self.met:,} of {self.met + self.left:,} frames met a flow in XDP{others}"


def offloaded(trials: Iterable[TrialRecord]) -> Offloaded | None:
    """Over all ports and these trials; None when no frame met such a flow."""
    ports = [port for trial in trials for port in trial.counted.values() if OFFLOADED in port]
    met = sum(port[OFFLOADED] for port in ports)
    return Offloaded(met=met, left=sum(port.get(key, 0) for port in ports for key in LEFT)) if met else None
