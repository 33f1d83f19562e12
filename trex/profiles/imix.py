# SPDX-License-Identifier: Apache-2.0
"""The simple IMIX (64, 570 and 1518 bytes, 7 : 4 : 1) with latency probes of the smallest size next to it.

start -f imix.py --port 0 1 -t --load 50000 --flows 16
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from streams import make_stream
from templates import IMIX, description


class Imix:
    """What TRex calls for each port."""

    def get_streams(self, tunables=(), direction=0, port_id=0, **_):
        """Streams of one port."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--load", type=float, default=50_000.0)
        parser.add_argument("--probes", type=float, default=1000.0)
        parser.add_argument("--flows", type=int, default=1)
        asked = parser.parse_args(tunables)
        described = [description("latency", 10 + port_id, IMIX[0][0], asked.probes, direction=direction)]
        described += [
            description("load", 30 + 10 * port_id + number, size, asked.load * share, direction=direction,
                        flows=asked.flows, delay_us=25.0 * (number + 1))
            for number, (size, share) in enumerate(IMIX)
        ]  # fmt: skip
        return [make_stream(each) for each in described]


def register():
    """Called by TRex."""
    return Imix()
