# SPDX-License-Identifier: Apache-2.0
"""Load with latency probes next to it, in one direction or both.

start -f latency.py --port 0 -t --size 64 --load 100000 --probes 1000 --flows 16
start -f latency.py --port 0 1 -t --load 100000          the other port sends the way back
start -f latency.py --port 0 -t --flows 50000 --targets 2 --seed 1     50,000 ports for each target, drawn evenly

Latency streams keep their rate whatever the multiplier: `-m` scales the load alone.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from streams import make_stream
from templates import description


class Latency:
    """What TRex calls for each port."""

    def get_streams(self, tunables=(), direction=0, port_id=0, **_):
        """Streams of one port; stream numbers differ from port to port, as TRex asks."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--size", type=int, default=64)
        parser.add_argument("--load", type=float, default=100_000.0)
        parser.add_argument("--probes", type=float, default=1000.0)
        parser.add_argument("--flows", type=int, default=1)
        parser.add_argument("--sources", type=int, default=1)
        parser.add_argument("--targets", type=int, default=1)
        parser.add_argument("--seed", type=int)
        parser.add_argument("--vlan", type=int)
        parser.add_argument("--outer-vlan", type=int)
        parser.add_argument("--pcp", type=int, default=0)
        parser.add_argument("--dscp", type=int, default=0)
        parser.add_argument("--ip", type=int, default=4, choices=(4, 6))
        asked = parser.parse_args(tunables)
        more = {"direction": direction, "vlan": asked.vlan, "ip": asked.ip}
        more |= {"outer_vlan": asked.outer_vlan, "pcp": asked.pcp, "dscp": asked.dscp}
        addresses = {"sources": asked.sources, "targets": asked.targets, "seed": asked.seed}
        described = [description("latency", 10 + port_id, asked.size, asked.probes, **more)]
        if asked.load:
            described.append(
                description(
                    "load", 30 + port_id, asked.size, asked.load, flows=asked.flows, delay_us=50.0, **addresses, **more
                )
            )
        return [make_stream(each) for each in described]


def register():
    """Called by TRex."""
    return Latency()
