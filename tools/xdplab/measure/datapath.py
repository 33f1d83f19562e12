# SPDX-License-Identifier: Apache-2.0
"""Where a forwarder met its frames and what they cost, by its own counters."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from xdplab.forwarders.process import LOOKUPS, NODES, XDP_FLOW_LEFT, XDP_FLOW_OFFLOADED, NodeWork, ThreadLookups
from xdplab.measure.figure import CPU, CPU_IDLE
from xdplab.measure.measured import Measured
from xdplab.model import InputError, Model, TrialRecord
from xdplab.model.digits import percent, significant

_THREADS = TypeAdapter(dict[str, ThreadLookups])
_GRAPHS = TypeAdapter(dict[str, dict[str, NodeWork]])
#: Share of polling without frames above which what is left of a node's clocks is within their half percent.
_MOSTLY = 0.8
#: Share of frames lost above which threads were busy all the time.
_OVERLOADED = 0.01
#: Fields of `ThreadLookups` in which a look-up ends.
ENDS = ("hardware", "simple", "emc", "smc", "megaflow", "upcalls", "lost")


class DatapathStats(Model):
    """Of the trials that a point is judged by, else of a search's steps; warm-ups counted, over all threads.

    Shares are of look-ups.
    """

    #: Frames that the threads received.
    frames: int = 0
    #: Look-ups of each frame: more than 1 where frames are recirculated.
    lookups_per_frame: float | None = None
    #: Met by a flow of the network card.
    hardware_share: float | None = None
    #: Met by the table of flows that match nothing but the port ("simple match").
    simple_share: float | None = None
    #: Met by the exact-match cache (EMC).
    emc_share: float | None = None
    #: Met by the signature-match cache (SMC).
    smc_share: float | None = None
    #: Met by the classifier of megaflows (dpcls).
    megaflow_share: float | None = None
    #: Subtables that the classifier looked into for each of its hits.
    subtables_per_hit: float | None = None
    #: Met by none of these, and answered by ofproto.
    upcalls_share: float | None = None
    #: Met by none, and not answered.
    lost_share: float | None = None
    #: Ticks of the time stamp counter for each frame, in the iterations that had any, or in all nodes of a graph; None
    #: where a thread that had frames does not count them, or where most of them were those of polling without frames.
    cycles_per_frame: float | None = None
    #: Node of VPP's graph -> its part of them; that of a node that fetches frames is left out where they are None.
    cycles_by_node: dict[str, float] = {}
    #: Frames of each call of nodes that fetch frames, calls without any left out.
    frames_per_call: float | None = None
    #: Of these ticks and those of polling without frames, from before a trial's traffic until after it.
    busy_share: float | None = None
    #: Of the CPU time of forwarding threads, polling counted, from before a trial's traffic until after it: what they
    #: spent in the kernel, softirqs on top of them among it. Of trials in overload, or with Poisson departures.
    kernel_share: float | None = None
    #: Of the frames that came to ports, those that flows in XDP took: threads have not seen them.
    xdp_share: float | None = None

    def text(self) -> str:
        """For the line of a trial."""
        shares = [(name, getattr(self, f"{key}_share")) for key, name in _NAMES.items()]
        parts = [f"{name} {percent(share)}" for name, share in shares if share]
        parts = [f"look-ups met by {', '.join(parts)}"] if parts else []
        parts += [f"{significant(self.cycles_per_frame, 4)} cycles per frame"] if self.cycles_per_frame else []
        parts = [f"{self.frames:,} frames", *parts] if self.frames else []
        parts += [f"{percent(self.kernel_share)} of its threads' time in the kernel"] if self.kernel_share else []
        return ", ".join(parts)

    def nodes_text(self) -> str:
        """Nodes with their cycles per frame, the most expensive first."""
        ordered = sorted(self.cycles_by_node.items(), key=lambda pair: -pair[1])
        return ", ".join(f"{node} {significant(cycles, 3)}" for node, cycles in ordered)


_NAMES = {
    "hardware": "the card", "simple": "simple match", "emc": "EMC", "smc": "SMC", "megaflow": "megaflows",
    "upcalls": "upcalls", "lost": "nothing",
}  # fmt: skip


def datapath_stats(trials: Iterable[TrialRecord]) -> DatapathStats | None:
    """None of a forwarder that counts nothing of the kind.

    Raises:
        InputError: a record is not one that xdplab wrote.
    """
    trials = list(trials)
    own = {**_lookups(trials), **_nodes(trials), "kernel_share": _kernel_share(trials)}
    in_xdp = offloaded(trials)
    found = DatapathStats(**own, xdp_share=in_xdp.met / (in_xdp.met + in_xdp.left) if in_xdp else None)
    return found if found != DatapathStats() else None


def _kernel_share(trials: Sequence[TrialRecord]) -> float | None:
    fair = [trial for trial in trials if _sampled_fairly(trial)]
    known = [use for trial in fair for use in trial.threads if use.user_ns is not None and use.system_ns is not None]
    kernel = sum(use.system_ns or 0 for use in known)
    spent = kernel + sum(use.user_ns or 0 for use in known)
    return kernel / spent if spent else None


def _sampled_fairly(trial: TrialRecord) -> bool:
    """The kernel's timer beats with frames that leave evenly, and so with a thread that keeps up with them."""
    if trial.asked and any(stream.departures == "poisson" for stream in trial.asked.streams):
        return True
    result = trial.result
    return result is not None and result.lost - result.tester_lost > _OVERLOADED * result.sent


def _lookups(trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """Fields of `DatapathStats` that Open vSwitch's threads tell."""
    every = [one for trial in trials for one in _read(_THREADS, trial, LOOKUPS).values()]
    threads = [one for one in every if one.frames]
    if not threads:
        return {}
    sums = Counter({key: sum(getattr(one, key) for one in threads) for key in (*ENDS, "subtables", "frames")})
    lookups = sums["frames"] + sum(one.recirculated for one in threads)
    cycles = _sum_if_known(one.cycles for one in threads)
    polling = [one for one in every if one.cycles is not None or one.frames]
    busy, idle = (_sum_if_known(getattr(one, key) for one in polling) for key in ("cycles", "idle"))
    return {
        "frames": round(sums["frames"]),
        "lookups_per_frame": lookups / sums["frames"],
        **{f"{key}_share": sums[key] / lookups for key in ENDS},
        "subtables_per_hit": sums["subtables"] / sums["megaflow"] if sums["megaflow"] else None,
        "cycles_per_frame": cycles / sums["frames"] if cycles is not None else None,
        "busy_share": busy / (busy + idle) if busy and idle is not None else None,
    }


def _nodes(trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """Fields of `DatapathStats` that the nodes of VPP's threads tell."""
    work: dict[str, list[NodeWork]] = {}
    for trial in trials:
        for nodes in _read(_GRAPHS, trial, NODES).values():
            for name, one in nodes.items():
                if one.calls:
                    work.setdefault(name, []).append(one)
    every = [one for own in work.values() for one in own]
    frames = sum(one.received for one in every)
    if not frames:
        return {}
    idle = _sum_if_known(one.idle for one in every)
    clocks, polled = sum(one.clocks for one in every), sum(one.clocks for one in every if one.received)
    parts = idle is not None and idle <= _MOSTLY * polled
    fetched = sum(one.calls - one.empty for one in every if one.received)
    by_node = {
        name: sum(one.clocks - (one.idle or 0) for one in own) / frames
        for name, own in work.items()
        if parts or not any(one.received for one in own)
    }
    return {
        "frames": round(frames),
        "cycles_per_frame": sum(by_node.values()) if parts else None,
        "cycles_by_node": by_node,
        "frames_per_call": frames / fetched if fetched else None,
        "busy_share": 1 - idle / clocks if clocks and idle is not None else None,
    }


def _sum_if_known(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _read(form: TypeAdapter[Any], trial: TrialRecord, key: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = form.validate_python(trial.increments.get(key, {}))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(map(str, ("increments", key, *first["loc"])))
        raise InputError(f"trials.jsonl, point {trial.point_id}: {where}: {first['msg']}") from None
    return found


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
    ports = [port for trial in trials for port in trial.increments.values() if XDP_FLOW_OFFLOADED in port]
    met = sum(port[XDP_FLOW_OFFLOADED] for port in ports)
    return Offloaded(met=met, left=sum(port.get(key, 0) for port in ports for key in XDP_FLOW_LEFT)) if met else None


# CPU time per million frames of a trial, as figures of its repetition.


def cpu_figures(trial: TrialRecord) -> dict[str, Measured]:
    """Key of a figure -> what is known of it; {} where nobody looked."""
    used = trial.cpu
    if used is None:
        return {}
    if used.doubt:
        return {CPU.key: Measured(value=None, low=0.0, high=math.inf, doubt=used.doubt)}
    found = {CPU.key: Measured(value=used.s_per_mframes, resolution=used.resolution)}
    met = datapath_stats([trial])
    if met is not None and met.busy_share is not None and used.polling_s:
        idle_s = (1 - met.busy_share) * used.polling_s
        found[CPU_IDLE.key] = Measured(value=idle_s / used.frames * 1e6, resolution=used.resolution)
    return found
