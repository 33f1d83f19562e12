# SPDX-License-Identifier: Apache-2.0
"""Where a forwarder met its frames and what they cost, by its own counters."""

from collections import Counter
from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

from xdplab.analysis.offload import offloaded
from xdplab.model import InputError, Model, TrialRecord
from xdplab.model.digits import percent, significant
from xdplab.model.lookups import LOOKUPS, ThreadLookups

_THREADS = TypeAdapter(dict[str, ThreadLookups])
#: Fields of `ThreadLookups` in which a look-up ends.
ENDS = ("hardware", "simple", "emc", "smc", "megaflow", "upcalls", "lost")


class Met(Model):
    """Of the trials that stand for a point, or of a search's steps where none does; warm-ups counted, over all threads.

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
    #: Ticks of the time stamp counter for each frame, in the iterations that had any; None where a thread that had
    #: frames does not count them.
    cycles_per_frame: float | None = None
    #: Of the frames that came to ports, those that flows in XDP took: threads have not seen them.
    xdp_share: float | None = None

    def text(self) -> str:
        """For the line of a trial."""
        shares = [(name, getattr(self, f"{key}_share")) for key, name in _NAMES.items()]
        told = [f"{name} {percent(share)}" for name, share in shares if share]
        told += [f"{significant(self.cycles_per_frame, 4)} cycles per frame"] if self.cycles_per_frame else []
        return f"{self.frames:,} frames, look-ups met by {', '.join(told)}" if told else ""


_NAMES = {
    "hardware": "the card", "simple": "simple match", "emc": "EMC", "smc": "SMC", "megaflow": "megaflows",
    "upcalls": "upcalls", "lost": "nothing",
}  # fmt: skip


def met_of(trials: Iterable[TrialRecord]) -> Met | None:
    """None of a forwarder that counts nothing of the kind.

    Raises:
        InputError: a record is not one that xdplab wrote.
    """
    trials = list(trials)
    threads = [one for trial in trials for one in _threads_of(trial).values() if one.frames]
    in_xdp = offloaded(trials)
    xdp_share = in_xdp.met / (in_xdp.met + in_xdp.left) if in_xdp else None
    if not threads:
        return Met(xdp_share=xdp_share) if xdp_share else None
    sums = Counter({key: sum(getattr(one, key) for one in threads) for key in (*ENDS, "subtables", "frames")})
    lookups = sums["frames"] + sum(one.recirculated for one in threads)
    cycles = [one.cycles for one in threads]
    known = [each for each in cycles if each is not None]
    return Met(
        frames=round(sums["frames"]),
        lookups_per_frame=lookups / sums["frames"],
        **{f"{key}_share": sums[key] / lookups for key in ENDS},
        subtables_per_hit=sums["subtables"] / sums["megaflow"] if sums["megaflow"] else None,
        cycles_per_frame=sum(known) / sums["frames"] if len(known) == len(cycles) else None,
        xdp_share=xdp_share,
    )


def _threads_of(trial: TrialRecord) -> dict[str, ThreadLookups]:
    try:
        return _THREADS.validate_python(trial.counted.get(LOOKUPS, {}))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(map(str, ("counted", LOOKUPS, *first["loc"])))
        raise InputError(f"trials.jsonl, point {trial.point_id}: {where}: {first['msg']}") from None
