# SPDX-License-Identifier: Apache-2.0
"""sockperf (3.7): how it is started, what it prints of its round trips, and its log of each of them.

It ends with exit code 0 whatever happened to it, so only what it prints counts.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from xdplab.forwarders.scrape import Line
from xdplab.model import LatencySummary, Model, PointFailed
from xdplab.model.histogram import HIGHEST_NS, histogram_of

#: Of the shortest message.
LEAST_BYTES = 14
#: From its start to its first message, of which it sleeps 2 s; and what it does not count at the beginning and the end.
_ASLEEP_S, _WARM_UP_S, _LAST_S = 2.1, 0.4, 0.05
#: From its start until its messages count; a little less, for what else is done until then.
BEFORE_S = _ASLEEP_S + 0.9 * _WARM_UP_S
#: Those that it prints.
_PERCENTILES = (25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999)
#: Its log and its percentiles round differently.
_ROUNDED_NS = 1
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
#: What it says instead of figures.
_COMPLAINT = re.compile(r"^sockperf: (ERROR: .*|No messages were .*)$", re.MULTILINE)
#: It compares what comes back with what it sent.
_DAMAGED = "data integrity test failed"

_DURATION = Line(
    "sockperf",
    r"sockperf: \[Valid Duration\] ",
    r"RunTime=(?P<seconds>[\d.]+) sec; SentMessages=(?P<sent>\d+); ReceivedMessages=(?P<received>\d+)",
)
_COUNTS = Line(
    "sockperf",
    r"sockperf: # dropped messages = ",
    r"(?P<dropped>\d+); # duplicated messages = (?P<duplicated>\d+); # out-of-order messages = (?P<late>\d+)",
)
_EXTREME = Line("sockperf", r"sockperf: ---> <(?P<which>MIN|MAX)> observation = ", r" *(?P<us>[\d.]+)")
_PERCENTILE = Line("sockperf", r"sockperf: ---> percentile ", r"(?P<percent>[\d.]+) = +(?P<us>[\d.]+)")
#: Of its log: number, departure and arrival in s, round trip in µs.
_MESSAGE = Line("log of sockperf", r"\d+, ", r"[\d.]+, [\d.]+, (?P<us>[\d.]+)")


class RoundTrips(Model):
    """What sockperf says of a trial."""

    #: In the time that counts.
    elapsed_s: float
    #: Messages of that time, and those of them that came back.
    sent: int
    received: int
    min_us: float
    max_us: float
    #: Percent -> µs.
    percentiles: dict[float, float]

    def latency(self, log: str) -> LatencySummary:
        """All round trips, from its log.

        Raises:
            PointFailed: the log has other round trips than those that it prints the percentiles of.
        """
        times_ns = sorted(_ns(found["us"]) for found in _MESSAGE.each(log))
        if not times_ns or len(times_ns) != self.received or not self._is_of(times_ns):
            raise PointFailed("sockperf: the round trips in its log do not match its percentiles")
        histogram = histogram_of()
        for time_ns in times_ns:
            histogram.record_value(min(time_ns, HIGHEST_NS))
        return LatencySummary(
            count=len(times_ns),
            min_ns=times_ns[0],
            max_ns=times_ns[-1],
            mean_ns=sum(times_ns) / len(times_ns),
            hdr=histogram.encode().decode(),
        )

    def _is_of(self, times_ns: Sequence[int]) -> bool:
        """Whether each percentile is the time of its rank, or of one next to it."""
        last = len(times_ns) - 1
        ends = ((0.0, self.min_us, 0), (100.0, self.max_us, 0), *((*each, 1) for each in self.percentiles.items()))
        for percent, us, around in ends:
            rank = percent / 100 * len(times_ns)
            low, high = math.ceil(rank) - 1 - around, math.floor(rank) + around
            if not times_ns[max(0, low)] - _ROUNDED_NS <= _ns(us) <= times_ns[min(last, high)] + _ROUNDED_NS:
                return False
        return True


def server(address: str, port: int) -> list[str]:
    return ["sockperf", "server", "--tcp", "--ip", address, "--port", str(port)]


def ping_pong(address: str, port: int, message_bytes: int, duration_s: float, log: Path) -> list[str]:
    """Arguments of a client that sends a message when it has the one before back, and compares each byte."""
    return [
        *["sockperf", "ping-pong", "--tcp", "--ip", address, "--port", str(port)],
        *["--time", str(seconds(duration_s)), "--msg-size", str(message_bytes)],
        *["--full-rtt", "--data-integrity", "--full-log", str(log)],
    ]


def seconds(duration_s: float) -> int:
    """The whole seconds that it runs for, so that it counts at least `duration_s`."""
    return math.ceil(duration_s + _WARM_UP_S + _LAST_S)


def counted_s(duration_s: float) -> float:
    """How much of that it counts."""
    return seconds(duration_s) - _WARM_UP_S - _LAST_S


def round_trips(text: str) -> RoundTrips:
    """From what its client prints.

    Raises:
        PointFailed: it complains, a message was lost, or a field is missing.
    """
    plain = _COLOURS.sub("", text)
    if complaint := _COMPLAINT.search(plain):
        damaged = "payload damaged: " if _DAMAGED in complaint.group(1) else ""
        raise PointFailed(f"{damaged}{complaint.group(0)}")
    duration, counts = _DURATION.one(plain), _COUNTS.one(plain)
    wrong = [f"{count} {what}" for what, count in counts.items() if count != "0"]
    if wrong:
        raise PointFailed(f"sockperf: messages over TCP: {', '.join(wrong)}")
    extremes = {found["which"]: found["us"] for found in _EXTREME.each(plain)}
    percentiles = {_number(found["percent"]): _number(found["us"]) for found in _PERCENTILE.each(plain)}
    missing = [*({"MIN", "MAX"} - {*extremes}), *(str(each) for each in _PERCENTILES if each not in percentiles)]
    if missing:
        raise PointFailed(f"sockperf: no line of {', '.join(missing)}")
    return RoundTrips(
        elapsed_s=_number(duration["seconds"]),
        sent=int(_number(duration["sent"])),
        received=int(_number(duration["received"])),
        min_us=_number(extremes["MIN"]),
        max_us=_number(extremes["MAX"]),
        percentiles=percentiles,
    )


def _number(text: str | None) -> float:
    return float(text or "nan")


def _ns(us: float | str | None) -> int:
    return round(float(us or "nan") * 1000)
