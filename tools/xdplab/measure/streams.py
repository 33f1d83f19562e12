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


def new_flow_streams(traffic: TrafficSpec, pps: float | None) -> tuple[StreamSpec, ...]:
    """One stream of first frames per direction, `pps` flows per second; none when that is None."""
    if not pps:
        return ()
    return tuple(
        StreamSpec(
            kind="latency",
            pps=pps,
            frame_bytes=traffic.smallest,
            direction=direction,
            start_ns=round(1e9 / pps * (index + 0.25) / len(traffic.directions)),
            new_flows=True,
            **traffic.headers,
        )
        for index, direction in enumerate(traffic.directions)
    )


def load_streams(traffic: TrafficSpec, pps: float | None, count: int = 0, start_ns: int = 0) -> tuple[StreamSpec, ...]:
    """Load of `pps` per direction: the profile's new flows, the rest shared between its sizes and address pairs.

    New flows come whatever `pps` is, None and 0 too. `count` frames in all per direction (0: until the trial ends),
    from `start_ns` on: such a part of a trial has none.
    """
    if count or start_ns:
        return _known_flow_streams(traffic, pps, count, start_ns)
    new_pps = traffic.new_flows_pps or 0.0
    return (*_known_flow_streams(traffic, max(0.0, (pps or 0.0) - new_pps)), *new_flow_streams(traffic, new_pps))


def _known_flow_streams(
    traffic: TrafficSpec, pps: float | None, count: int = 0, start_ns: int = 0
) -> tuple[StreamSpec, ...]:
    """Load of flows that are known."""
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
