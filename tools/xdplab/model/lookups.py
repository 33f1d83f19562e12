# SPDX-License-Identifier: Apache-2.0
"""What a forwarder counted of its own work in a trial: where frames were met, and what they cost, by its own clock."""

from xdplab.model.base import Amount, Model

#: Key of `TrialRecord.counted`: thread of a datapath -> `ThreadLookups`.
LOOKUPS = "lookups"


class ThreadLookups(Model):
    """Of a thread of Open vSwitch's netdev datapath (`dpif-netdev/pmd-stats-show`, since 4.0 `pmd-perf-show`).

    Each look-up of a frame ends in one place; a frame that is recirculated is looked up again.
    """

    #: Frames that it received from ports.
    frames: Amount = 0
    #: Look-ups beside the first of each frame.
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
