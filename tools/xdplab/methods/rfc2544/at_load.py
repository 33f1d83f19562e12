# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.2: latency unloaded and at shares of the throughput. The trials hold the histograms."""

from xdplab.measure.method import Session
from xdplab.measure.streams import load_streams, probe_streams
from xdplab.methods.rfc2544.scale import scale_of, trial_of
from xdplab.methods.rfc2544.spec import Rfc2544Spec
from xdplab.model import TrafficSpec

CLAUSE = "RFC 2544 26.2"
_SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
#: Probes are a small part of the load, and few enough for one in flight at a time when unloaded.
_PROBE_SHARE, PROBE_MAX_PPS = 0.05, 10_000.0


def latency_at_load(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, ndr_pps: float) -> None:
    """Probes beside loads; probe and load together make the share, so that 100 % is the throughput and no more."""
    scale = scale_of(spec)
    probe = min(PROBE_MAX_PPS, _PROBE_SHARE * ndr_pps)
    loads = []
    for share in _SHARES:
        streams = (*probe_streams(traffic, probe), *load_streams(traffic, max(0.0, share * ndr_pps - probe)))
        trial = trial_of(spec, streams, scale.at_load_s, 0.1)
        for repeat in range(scale.at_load_repeats):
            session.progress(f"  latency at {share:.0%} of the throughput, {repeat + 1} of {scale.at_load_repeats}")
            session.trial(trial, purpose="search", clause=f"{CLAUSE} at {share:.2f}")
        sent_pps = sum(stream.pps or 0.0 for stream in streams) / len(traffic.directions)
        loads.append({"share": share, "load_pps": sent_pps})
    session.found(CLAUSE, {"throughput_pps": ndr_pps, "probe_pps": probe, "loads": loads})
