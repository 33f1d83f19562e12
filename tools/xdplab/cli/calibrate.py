# SPDX-License-Identifier: Apache-2.0
"""`xdplab calibrate`: what the tester itself does on the direct link, interleaved, with ranges."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence

from xdplab import app
from xdplab.analysis.words import interval_text
from xdplab.measure.measured import Spread
from xdplab.model import InputError, Model, StreamSpec, TestbedSpec, TrialResult, TrialSpec
from xdplab.model.cells import columns
from xdplab.runner import interruptible, low_latency, recover
from xdplab.stats.interval import Interval, ratio_interval
from xdplab.testbed import Testbed, open_testbed
from xdplab.testers import TesterContext, run_trial
from xdplab.testers.xdpgen import Xdpgen

_FRAME_BYTES = 64
_RATES = (10_000.0, 100_000.0, 500_000.0, 1_000_000.0)
_SENDERS = {"live": "live frames", "xsk": "AF_XDP copy mode"}
#: Of one repetition.
TRIALS = len(_SENDERS) + len(_RATES)


class Paced(Model):
    """One rate."""

    pps: float
    on_schedule_ratio: Spread
    rate_error_ratio: Spread
    stalled_ratio: Spread
    p50_ns: Spread
    p99_ns: Spread


class Found(Model):
    """Everything `xdplab calibrate` measures."""

    repeats: int
    duration_s: float
    top_pps: Spread
    xsk_top_pps: Spread
    top_over_xsk: Interval
    paced: tuple[Paced, ...]

    def text(self) -> str:
        rows = [["offered kpps", "within 200 ns %", "rate error %", "stalled %", "p50 ns", "p99 ns"]]
        rows += [
            [
                f"{paced.pps / 1000:g}",
                paced.on_schedule_ratio.text(100),
                paced.rate_error_ratio.text(100, 4),
                paced.stalled_ratio.text(100),
                paced.p50_ns.text(1, 0),
                paced.p99_ns.text(1, 0),
            ]
            for paced in self.paced
        ]
        return (
            f"direct link, {_FRAME_BYTES}-byte frames, one core, {self.repeats} interleaved repetitions of "
            f"{self.duration_s:g} s; medians (ranges)\n"
            f"top rate, live frames:       {self.top_pps.text(1e-6)} Mpps\n"
            f"top rate, AF_XDP copy mode:  {self.xsk_top_pps.text(1e-6)} Mpps\n"
            f"ratio: {interval_text(self.top_over_xsk)} ({100 * self.top_over_xsk.confidence:.0f} % interval)\n"
            f"{columns(rows)}"
        )


def measure_tester(spec: TestbedSpec, repeats: int, duration_s: float, progress: Callable[[str], None]) -> Found:
    """Bring the testbed up, measure, take it down. `progress` is called for each of `TRIALS` trials a repetition.

    Raises:
        InputError: not possible on this testbed.
    """
    app.require_root(spec)
    recover(spec)
    testbed = open_testbed(spec)
    reason = Xdpgen().unsupported(testbed) if spec.kind != "fake" else "it measures xdpgen on a real testbed"
    if reason:
        raise InputError(f"calibrate: {reason}")
    top: dict[str, list[float]] = defaultdict(list)
    paced: dict[float, list[TrialResult]] = defaultdict(list)
    with interruptible():
        try:
            testbed.up()
            with low_latency(testbed):
                _measure(testbed, repeats, duration_s, progress, top, paced)
        finally:
            testbed.down()
    ratio = ratio_interval([live / xsk for live, xsk in zip(top["live"], top["xsk"], strict=True)])
    assert ratio is not None
    return Found(
        repeats=repeats,
        duration_s=duration_s,
        top_pps=Spread.of(top["live"]),
        xsk_top_pps=Spread.of(top["xsk"]),
        top_over_xsk=ratio,
        paced=tuple(_paced(rate, results) for rate, results in paced.items()),
    )


def _measure(
    testbed: Testbed,
    repeats: int,
    duration_s: float,
    progress: Callable[[str], None],
    top: dict[str, list[float]],
    paced: dict[float, list[TrialResult]],
) -> None:
    ports, host = testbed.direct_ports(), testbed.tester_host
    if ports is None:
        raise InputError("calibrate: the testbed has no direct link")
    folder = testbed.folder_on(host)
    host.make_folder(folder)
    context = TesterContext(ports, testbed.layout, "xdp", folder, host)
    for _ in range(repeats):
        for sender, words in _SENDERS.items():
            progress(f"top rate, {words}")
            top[sender].append(_run(context, None, duration_s, sender).streams[0].rx_pps)
        for rate in _RATES:
            progress(f"paced at {rate / 1e3:g} kpps")
            paced[rate].append(_run(context, rate, duration_s, "live"))


def _run(context: TesterContext, pps: float | None, duration_s: float, sender: str) -> TrialResult:
    kind = "load" if pps is None else "latency"
    stream = StreamSpec(kind=kind, pps=pps, frame_bytes=_FRAME_BYTES)
    with contextlib.closing(Xdpgen(sender=sender)) as tester:
        return run_trial(
            tester, context, TrialSpec(streams=(stream,), duration_s=duration_s, warmup_s=0.1, drain_s=0.1)
        )


def _paced(pps: float, results: Sequence[TrialResult]) -> Paced:
    streams = [result.streams[0] for result in results]
    latencies = [stream.latency for stream in streams if stream.latency]
    return Paced(
        pps=pps,
        on_schedule_ratio=Spread.of([(stream.on_schedule or 0) / max(stream.sent, 1) for stream in streams]),
        rate_error_ratio=Spread.of([abs(stream.achieved_pps - pps) / pps for stream in streams]),
        stalled_ratio=Spread.of([result.stalled_ns / 1e9 / result.elapsed_s for result in results]),
        p50_ns=Spread.of([latency.percentile_ns(50) for latency in latencies]),
        p99_ns=Spread.of([latency.percentile_ns(99) for latency in latencies]),
    )
