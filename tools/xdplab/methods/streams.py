# SPDX-License-Identifier: Apache-2.0
"""The streams of a traffic profile. Their phases are spread so that no two depart together."""

import itertools

from xdplab.model import StreamSpec, TrafficSpec


def probe_streams(traffic: TrafficSpec, pps: float | None = None) -> tuple[StreamSpec, ...]:
    """One latency stream per direction, at the profile's probe rate or at `pps`."""
    rate = pps or traffic.probes_per_s
    count = len(traffic.directions)
    return tuple(
        StreamSpec(
            kind="latency",
            pps=rate,
            frame_bytes=traffic.smallest,
            direction=direction,
            start_ns=round(1e9 / rate * index / count),
            **traffic.headers,
        )
        for index, direction in enumerate(traffic.directions)
    )


def load_streams(traffic: TrafficSpec, pps: float | None, count: int = 0, start_ns: int = 0) -> tuple[StreamSpec, ...]:
    """Load of `pps` per direction, shared between the profile's sizes and address pairs; none when `pps` is None or 0.

    `count` frames in all per direction (0: until the trial ends), from `start_ns` on.
    """
    if not pps:
        return ()
    parts = list(itertools.product(traffic.directions, traffic.sizes.items(), range(traffic.address_pairs)))
    streams = []
    for index, (direction, (size, share), pair) in enumerate(parts):
        part = share / traffic.address_pairs
        streams.append(
            StreamSpec(
                kind="load",
                pps=pps * part,
                frame_bytes=size,
                direction=direction,
                pair=pair,
                departures=traffic.departures,
                count=round(count * part),
                start_ns=start_ns + round(1e9 / (pps * part) * (index + 0.5) / len(parts)),
                **traffic.headers,
            )
        )
    return tuple(streams)


def burst_streams(traffic: TrafficSpec, count: int) -> tuple[StreamSpec, ...]:
    """`count` frames per direction back to back, as fast as the tester can."""
    return tuple(
        StreamSpec(
            kind="load", pps=None, frame_bytes=traffic.smallest, direction=direction, count=count, **traffic.headers
        )
        for direction in traffic.directions
    )
