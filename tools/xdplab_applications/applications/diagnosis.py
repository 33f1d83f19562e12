# SPDX-License-Identifier: Apache-2.0
"""Why TCP does not come through, or is slow: what the ports are set to is changed, one thing at a time, and tried."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from xdplab.api import PointFailed, is_veth, significant
from xdplab_applications.applications.ends import Ends, TcpCounts
from xdplab_applications.applications.programs import Broken, Programs
from xdplab_applications.applications.spec import Direction, Feature, Workload

#: A trial of each direction: long enough for TCP to be past its first retransmission, which waits for 0.2 s.
_TRY_S, _TRY_WARMUP_S, _TRY_PATIENCE_S = 0.3, 0.1, 1.0
#: Of a second look at what carried nothing: several retransmissions, of which one may come through.
_SECOND_LOOK_S = 1.5
#: Of a trial after which there is nothing to switch.
_PROOF_S = 0.05
_WAYS: tuple[Direction, ...] = ("forward", "backward")
#: It is slowed where it carries less than this share of what it carries otherwise.
SLOWED = 0.5
_WORDS: dict[Feature, str] = {
    "checksum": "checksum offload",
    "segmentation": "segmentation offload (TSO)",
    "vlan": "VLAN offload",
    "gro": "generic receive offload (GRO) at the forwarder's ports",
}
_WHY: dict[Feature, str] = {
    "checksum": "frames leave with a checksum that a card would finish, and this forwarder does not",
    "segmentation": "frames leave that are longer than the MTU, for a card to cut them",
    "vlan": "the tag is in the metadata of a frame, where XDP and this forwarder do not see it",
    "gro": "they merge segments into frames longer than the MTU, which this forwarder does not take",
}


@dataclass(frozen=True)
class Tried:
    """One try: what came through in the slower direction, or why nothing did."""

    mbps: float
    broken: str
    counts: TcpCounts

    @property
    def symptoms(self) -> str:
        """What the kernels of both ends counted, in words."""
        counts = {
            "arrived with a wrong checksum": self.counts.checksum_errors,
            "retransmitted": self.counts.retransmitted,
        }
        return ", ".join(f"{count} segment{'s' * (count > 1)} {what}" for what, count in counts.items() if count)


@dataclass(frozen=True)
class Cure:
    """One thing that can be set otherwise."""

    name: str
    why: str
    command: str
    apply: Callable[[], None]


@dataclass(frozen=True)
class Finding:
    """What is wrong, and the command that fixes it."""

    text: str
    #: True where TCP does not come through; False where it is slow.
    breaks: bool


def diagnose(programs: Programs, forwarder_mtu: int, mode: str) -> Finding | None:
    """None where applications work as well as they do with everything switched off.

    `forwarder_mtu`: of its ports, in bytes; `mode`: how it has them, in a word.

    Raises:
        PointFailed: they do not work whatever is switched; the message has the counters.
    """
    ends = programs.ends
    cures = _cures(ends, forwarder_mtu)
    first = _try(programs, _TRY_S if cures else _PROOF_S)
    try:
        for cure in cures:
            cure.apply()
            now = _try(programs, _TRY_S)
            _put_back(ends)
            if _cures_it(first, now) and _is_enough(programs, cure, cures[-1], first, now):
                again = _try(programs, _SECOND_LOOK_S if first.broken else _TRY_S)
                if _confirmed(programs, cure, again):
                    worked = next((each for each in (first, again) if not each.broken), None)
                    return Finding(_text(cure, worked or first, now, mode), breaks=worked is None)
    finally:
        _put_back(ends)
    if not first.broken:
        return None
    last = _try(programs, _SECOND_LOOK_S)  # bulk of one direction may have filled queues that the other waited for
    if not last.broken:
        return None
    why = f"; {last.symptoms}" if last.symptoms else ""
    raise PointFailed(f"TCP does not come through: {last.broken}{why}{_generic(mode)}")


def _cures_it(as_set: Tried, cured: Tried) -> bool:
    return not cured.broken and (bool(as_set.broken) or as_set.mbps < SLOWED * cured.mbps)


def _is_enough(programs: Programs, cure: Cure, everything: Cure, first: Tried, now: Tried) -> bool:
    """Whether TCP is about as fast with one cure as with all: what breaks it may hide what slows it."""
    if cure is everything or not first.broken:
        return True
    everything.apply()
    best = _try(programs, _TRY_S)
    _put_back(programs.ends)
    return bool(best.broken) or now.mbps >= SLOWED * best.mbps


def _confirmed(programs: Programs, cure: Cure, as_set: Tried) -> bool:
    """Whether a second pair says the same: a machine that stood still during the first try looks like a cure."""
    cure.apply()
    cured = _try(programs, _TRY_S)
    _put_back(programs.ends)
    return _cures_it(as_set, cured)


def _put_back(ends: Ends) -> None:
    ends.set_offloads(ends.offloads)
    if ends.mtu:
        ends.set_mtu(ends.mtu)


def _cures(ends: Ends, forwarder_mtu: int) -> list[Cure]:
    """Settings with which not every forwarder works: each alone, then all of them."""
    cures = []
    # a segment needs a checksum, which goes with it: it is tried last
    for feature in sorted(ends.offloads, key=lambda each: each == "checksum"):
        gone = ("checksum", "segmentation") if feature == "checksum" else (feature,)
        named = [_WORDS[each] for each in gone if each in ends.offloads]
        left = tuple(each for each in ends.offloads if each not in gone)
        cures.append(Cure(" and ".join(named), _WHY[feature], ends.off(feature), partial(ends.set_offloads, left)))
    if ends.mtu > forwarder_mtu:
        name = f"an MTU of {ends.mtu} above the forwarder's {forwarder_mtu}"
        why = "it drops longer frames, and the sender is not notified"
        command = f"ip link set dev {ends.client.ifname} mtu {forwarder_mtu}"
        cures.append(Cure(name, why, command, partial(ends.set_mtu, forwarder_mtu)))
    if len(cures) > 1:
        cures.append(
            Cure(
                " combined with ".join(each.name for each in cures),
                "; ".join(each.why for each in cures),
                "; ".join(each.command for each in cures),
                partial(_apply_all, ends, forwarder_mtu),
            )
        )
    return cures


def _apply_all(ends: Ends, forwarder_mtu: int) -> None:
    ends.set_offloads(())
    if ends.mtu > forwarder_mtu:
        ends.set_mtu(forwarder_mtu)


def unavailable_offloads(ends: Ends, native: Collection[str]) -> str:
    """Offloads of a container's veth that these ports do not have, and why; "": none is missing.

    `native`: roles of the forwarder's ports that have an XDP program in native mode.
    """
    ports: dict[tuple[Feature, str], list[str]] = {}
    for port, feature in ends.unavailable():
        other = ends.forwarders[ends.ports.index(port)].role if ends.forwarders else ""
        by_veth = other in native and is_veth(port.host, port.ifname)
        by_program = "the XDP program in native mode at the other end switches it off"
        why = by_program if by_veth else "the driver does not switch it on"
        ports.setdefault((feature, why), []).append(port.ifname)
    return "; ".join(f"{_WORDS[it]} stays off at {' and '.join(names)}: {why}" for (it, why), names in ports.items())


def _generic(mode: str) -> str:
    """In native mode veth switches segmentation off at the other end of its pair, in generic mode it does not."""
    return "; XDP is in generic mode there, and native mode is another way" if "generic" in mode else ""


def _text(cure: Cure, before: Tried, after: Tried, mode: str) -> str:
    what = before.broken or f"only {_rate(before.mbps)}"
    symptoms = f" ({before.symptoms})" if before.symptoms else ""
    generic = _generic(mode) if _WORDS["segmentation"] in cure.name else ""
    return (
        f"{cure.name} {'breaks' if before.broken else 'slows'} TCP: {what}{symptoms}; {cure.why}{generic}. "
        f"`{cure.command}`, and the same at the other side, fixes it: {_rate(after.mbps)} with it"
    )


def _rate(mbps: float) -> str:
    return f"{significant(mbps)} Mbit/s"


def _try(programs: Programs, duration_s: float) -> Tried:
    """Bulk in both directions, one after the other: what breaks one may not break the other."""
    before, mbps, bulk = programs.ends.counts(), [], Workload("bulk", 1)
    broken = ""
    try:
        with programs.our_server():
            for direction in _WAYS:
                found = programs.ours(bulk, direction, duration_s, _TRY_WARMUP_S, _TRY_PATIENCE_S)
                if not found.goodput_mbps and duration_s > _PROOF_S:
                    raise Broken("small requests came through, and not a byte of bulk")
                mbps.append(found.goodput_mbps or 0.0)
    except Broken as exc:
        broken = str(exc)
    return Tried(min(mbps, default=0.0), broken, programs.ends.counts().since(before))
