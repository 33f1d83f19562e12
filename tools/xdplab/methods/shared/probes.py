# SPDX-License-Identifier: Apache-2.0
"""Recorders of the static probes of a forwarding thread: `bpf/ovsprobe`, and perf as the delay study used it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xdplab.forwarders import Dut
from xdplab.forwarders.base import ProbeTarget
from xdplab.hosts import perf_probe
from xdplab.hosts.bpf import built
from xdplab.hosts.waiting import wait_until
from xdplab.methods.shared.batches import ProbeRecords
from xdplab.model import PointFailed, Unsupported

#: Records that fit the ring of `bpf/ovsprobe`, which is read when all is over.
ROOM = 60_000
#: perf opens events, and reads back all that it recorded.
_PERF_READY_S, _PERF_END_S = 20.0, 60.0
#: Provider -> its probes of receive, transmit and end of kick, and which of their arguments is the frames, from 1.
_PROBES = {"netdev_afxdp": (("rx_batch", "tx_batch", "tx_kick_end"), 3), "xsk": (("rx", "tx", "kick_end"), 2)}


def one_in(rate_pps: float, seconds: float) -> int:
    """How thinly to record so that what both directions may bring fits."""
    return max(1, round(2 * rate_pps * seconds / ROOM))


class Probes:
    """A recorder while it is attached."""

    def __init__(self, dut: Dut, name: str, argv: Sequence[str], end_s: float = 10.0) -> None:
        self._host, self._output, self._name, self._end_s = dut.host, dut.rundir / f"{name}.out", name, end_s
        self._running = dut.host.start(
            argv, log=dut.rundir / f"{name}.log", stdout=self._output, cpus=dut.layout.housekeeping
        )

    def wait_until_ready(self, timeout_s: float = 5.0) -> None:
        """Until all probes are attached.

        Raises:
            Unsupported: they cannot be, with the recorder's own words.
        """
        wait_until(
            lambda: bool(self._text()) or self._running.poll() is not None, timeout_s, f"{self._name}: its ready line"
        )
        if self._running.poll() is not None:
            raise Unsupported((self._running.log_tail(1) or (f"{self._name} exited without a message",))[0])

    def end(self) -> ProbeRecords:
        """Detach and read what was recorded.

        Raises:
            PointFailed: the recorder broke.
        """
        self._running.stop(self._end_s)
        _, _, last = self._text().partition("\n")
        try:
            return ProbeRecords.of(json.loads(last))
        except (ValueError, KeyError, TypeError):
            words = " ".join(self._running.log_tail(1)) or "its output is not valid JSON"
            raise PointFailed(f"{self._name}: {words}") from None

    def close(self) -> None:
        """Be sure that it is gone."""
        self._running.stop()

    def _text(self) -> str:
        return self._host.read(str(self._output)) if self._host.exists(self._output) else ""


@contextmanager
def attached(dut: Dut, target: ProbeTarget, every: int) -> Iterator[Probes]:
    """The probes of a thread, one batch in `every` recorded by `bpf/ovsprobe`.

    Raises:
        Unsupported: the program has no probes, or this kernel does not take them.
    """
    program = built("ovsprobe", dut.host)
    attachment = dut.host.xdp(target.ifname) if target.ifname else None
    numbers: dict[str, Any] = {
        "--pid": target.pid,
        "--tid": target.tid,
        "--every": every,
        "--provider": target.provider,
        **({"--prog-id": attachment.prog_id} if attachment else {}),
    }
    words = [word for name, value in numbers.items() for word in (name, str(value))]
    probes = Probes(dut, "ovsprobe", [program, "--binary", target.program, *words])
    try:
        probes.wait_until_ready()
        yield probes
    finally:
        probes.close()


@contextmanager
def recorded_by_perf(dut: Dut, target: ProbeTarget, every: int) -> Iterator[Probes]:
    """The same by perf, which sees no XDP redirect.

    Raises:
        Unsupported: perf is missing, or it cannot do this here.
    """
    names, frames_argument = _PROBES[target.provider]
    script = dut.host.program(Path(perf_probe.__file__))
    given = [target.program, str(target.tid), str(every), str(dut.rundir), str(frames_argument)]
    argv = [dut.host.python, script, *given, *(f"{target.provider}:{name}" for name in names)]
    probes = Probes(dut, "perf_probe", argv, _PERF_END_S)
    try:
        probes.wait_until_ready(_PERF_READY_S)
        yield probes
    finally:
        probes.close()
