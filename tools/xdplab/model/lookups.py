# SPDX-License-Identifier: Apache-2.0
"""What a forwarder counted of its own work in a trial: lookup hits, and what they cost, by its own clock."""

from xdplab.model.base import Amount, Model

#: Keys of `TrialRecord.increments`: thread of a datapath -> `ThreadLookups`; thread of a graph -> node -> `NodeWork`.
LOOKUPS, NODES = "lookups", "nodes"


class ThreadLookups(Model):
    """Of a thread of Open vSwitch's netdev datapath (`dpif-netdev/pmd-stats-show`, since 4.0 `pmd-perf-show`).

    Each look-up of a frame ends in one place; a frame that is recirculated is looked up again.
    """

    #: Frames that it received from ports.
    frames: Amount = 0
    #: Look-ups next to the first of each frame.
    recirculated: Amount = 0
    #: Met by a flow of the network card ("PHWOL hits").
    hardware: Amount = 0
    #: Met by the table of flows that match nothing but the port and the Ethernet type ("simple match").
    simple: Amount = 0
    #: Met by the exact-match cache.
    emc: Amount = 0
    #: Met by the signature-match cache.
    smc: Amount = 0
    #: Met by the classifier of megaflows (dpcls).
    megaflow: Amount = 0
    #: Subtables that were looked into for those.
    subtables: Amount = 0
    #: Met by none, and answered by ofproto.
    upcalls: Amount = 0
    #: Met by none, and not answered.
    lost: Amount = 0
    #: Ticks of the time stamp counter in iterations that had frames; None of the main thread, whose are not counted.
    cycles: Amount | None = None
    #: The same in iterations that had none.
    idle: Amount | None = None


class NodeWork(Model):
    """Of a node of VPP's graph that was handed frames, or fetched them from ports, in one thread (`show runtime`)."""

    #: How often it was called.
    calls: Amount = 0
    #: Of a node that fetches: about how many of these calls found no frame.
    empty: Amount = 0
    #: Frames that it was handed or fetched.
    vectors: Amount = 0
    #: Those of them that it fetched.
    received: Amount = 0
    #: Ticks of the time stamp counter in all calls, within half a percent: VPP prints three digits of their mean.
    clocks: Amount = 0
    #: About how many of these the empty calls took; None where that is not known.
    idle: Amount | None = None
