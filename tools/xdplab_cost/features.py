# SPDX-License-Identifier: Apache-2.0
"""What of AF_XDP works with a kernel and a driver: each function is tried in a guest, with frames from a0 to a1."""

import datetime
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdplab.api import LocalHost, Model, bpf_program
from xdplab_cost.cells import DRIVERS, Driver, InGuest
from xdplab_cost.guest import CellFailed, Guest, cost_folder, keep
from xdplab_cost.lane import built

if TYPE_CHECKING:
    from nic.artefact import Artefact

#: Frames of a trial, and how many a second; of the two that count calls, so many that some find the driver awake.
_FRAMES, _PPS, _CALLS_PPS = 100, 1000.0, 20_000.0
#: A card's link goes down when a socket comes; of the guest's time, which takes none of ours while it sleeps.
_WARMUP_S = {"": 0.2, "igb": 3.0}
#: Of the guest's time: what has not ended by then hangs.
_LIMIT_S = 12
#: With FCS.
_SIZES = (64, 256, 512, 1024, 1028, 1044, 1280, 1518)
_FCS = 4
#: MTU and frame (with FCS) of several chunks: one page, as XDP in the kernel has it.
_LARGE_MTU, _LARGE = 3498, 3004
_CHUNK = 2048
#: `xsk-zerocopy` of enum netdev_xdp_act.
_CLAIMS_ZERO_COPY = 1 << 3
#: Fewer calls: at most this share.
_FEWER = 0.9
#: Context switches of threads that have run for each frame or so; threads that only started have two or three.
_BUSY_THREAD = 20
#: Exit code of `timeout -s KILL`.
_KILLED = 128 + 9
#: Exit code of `netdev` (bpf/cost): this kernel has no such thing.
_ABSENT = 3
_SHELL = Path(__file__).with_name("features.sh")

#: Word and detail.
Verdict = tuple[str, str]


class Feature(Model):
    """A function of AF_XDP with a kernel and a driver."""

    kernel: str
    driver: str
    #: Of `FEATURES`.
    feature: str
    #: `works`, `inert` (taken, without an effect), `not shown` (taken, and its effect cannot be seen), `falls back
    #: silently`, `hangs`, `stalls` (no frame comes), `loses frames`, `loses frames above N bytes`, `refused`, `absent`
    #: (not in this kernel), `not tried`; of `no flag` the mode that a socket gets which asks for none.
    found: str
    #: What was seen, in words.
    detail: str = ""
    #: When, as YYYY-MM-DD.
    date: str
    #: What tries it again.
    command: str

    @property
    def broken(self) -> bool:
        """It is accepted, and then frames are lost, the socket hangs, or it is in another mode without an error."""
        return self.found.startswith(("hangs", "stalls", "loses", "falls back"))


#: Of `Feature.found`.
WORKING = ("works", "zero-copy", "copy")


@dataclass(frozen=True)
class _Attempt:
    """What a guest printed of one try.

    Attributes:
        code: Exit code of xsk.
        lines: All lines.
        refused: Exit code of the settings before it, where they failed.
    """

    code: int
    lines: tuple[str, ...]
    refused: int = 0

    @property
    def records(self) -> list[dict[str, Any]]:
        """Its lines of JSON; one into which the kernel has printed is none."""
        found = []
        for line in self.lines:
            with suppress(ValueError):
                found += [json.loads(line)] if line.startswith("{") else []
        return found

    @property
    def ready(self) -> Mapping[str, Any]:
        return next((each for each in self.records if each["event"] == "ready"), {})

    @property
    def done(self) -> Mapping[str, Any]:
        return next((each for each in self.records if each["event"] == "done"), {})

    @property
    def complaint(self) -> str:
        """The first line in words: those after it are of what is taken back."""
        words = [line for line in self.lines if not re.match(r"[{[]|ran |sender |(non)?voluntary_ctxt", line)]
        return re.sub(r"^\S*(sh|ip|echo): ", "", words[0]) if words else ""

    @property
    def streams(self) -> list[Mapping[str, Any]]:
        return sorted(self.done.get("streams", ()), key=lambda each: int(each["id"]))

    @property
    def sockets(self) -> list[Mapping[str, Any]]:
        """As they are at its end."""
        return list(self.done.get("sockets", ()))

    @property
    def wrong(self) -> str:
        """What is wrong with its frames; empty where every one came, once and in order, and no chunk was lost."""
        sent, came = (sum(int(each[key]) for each in self.streams) for key in ("sent", "received"))
        if not self.streams or sent < 0.9 * _FRAMES * len(self.streams):
            return f"{sent} of {_FRAMES * max(1, len(self.streams))} frames could be sent"
        if came < sent:
            return f"{came} of {sent} frames came"
        for key, words in (("duplicated", "came twice"), ("out_of_order", "came out of order")):
            if count := sum(int(each[key]) for each in self.streams):
                return f"{count} of {sent} frames {words}"
        lost = sum(int(each["lost"]) for each in self.done.get("umems", ()))
        return f"{lost} chunks of memory were lost" if lost else ""

    @property
    def calls(self) -> int:
        """System calls that woke the kernel."""
        return sum(int(each["rx_wakes"]) + int(each["tx_kicks"]) for each in self.sockets)

    def number(self, pattern: str) -> int | None:
        """Sum of what a pattern finds in its lines; None where no line has it."""
        found = [int(each) for line in self.lines for each in re.findall(pattern, line)]
        return sum(found) if found else None


@dataclass(frozen=True)
class _Try:
    """Of one function.

    Attributes:
        name: Its column.
        judge: The verdict on what ended with exit code 0, given that and all attempts.
        config: Of xsk, over what all have.
        set_up: Shell: a status other than 0 is a refusal, whose reason is its last line.
        tear_down: Shell that takes that back, and prints what is to be known.
        run: Shell function that takes the configuration's name.
    """

    name: str
    judge: Callable[[_Attempt, Mapping[str, _Attempt]], Verdict]
    config: Mapping[str, Any] = field(default_factory=dict)
    set_up: str = "true"
    tear_down: str = "true"
    run: str = "one"


def _if_sound(verdict: Callable[[_Attempt, Mapping[str, _Attempt]], Verdict]) -> Callable[..., Verdict]:
    """Where frames are lost, that is the verdict."""

    def judge(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
        if wrong := attempt.wrong:
            none = sum(int(each["received"]) for each in attempt.streams) == 0
            return ("stalls" if none else "loses frames"), wrong
        return verdict(attempt, others)

    return judge


@_if_sound
def _passes(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
    return "works", ""


@_if_sound
def _shares(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
    umems = len(attempt.ready.get("umems", ()))
    return ("works" if umems == 1 else "inert"), f"the sockets of two ports have {umems} UMEM"


@_if_sound
def _without_a_flag(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
    if all(each["zero_copy"] for each in attempt.ready.get("sockets", ())):
        return "zero-copy", ""
    claims = others["claims"].number(r"xdp-features (\d+)") if "claims" in others else None
    if (claims or 0) & _CLAIMS_ZERO_COPY:
        return "falls back silently", "the driver claims zero-copy, and the socket is in copy mode"
    return "copy", ""


@_if_sound
def _needs_wakeup(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
    """The attempt is with the flag."""
    without = others.get(_NO_WAKEUP)
    if without is None or without.code or without.wrong:
        return "not shown", f"without it: {without.wrong or without.complaint if without else 'not tried'}"
    seen = f"{attempt.calls} calls that wake the kernel with it, {without.calls} without"
    return ("works" if attempt.calls <= _FEWER * without.calls else "inert"), seen


@_if_sound
def _polls(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
    ran = attempt.number(r"^ran +napi_busy_loop +(\d+)")
    if not any(each["napi_id"] for each in attempt.sockets):
        return "inert", "the sockets have no NAPI id"
    if ran is None:
        return "not shown", "the sockets have a NAPI id; this kernel has no probes that would count its polls"
    return ("works" if ran else "inert"), f"napi_busy_loop() ran {ran} times"


@_if_sound
def _threads(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
    switches = attempt.number(r"ctxt_switches:\s*(\d+)") or 0
    return ("works" if switches >= _BUSY_THREAD else "inert"), f"its threads were switched {switches} times"


def _sizes(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
    by_size = {size - _FCS: each for size, each in zip(_SIZES, attempt.streams, strict=False)}
    passed = [size for size, each in by_size.items() if each["sent"] >= 0.9 * _FRAMES and not each["lost"]]
    lost = [size for size in by_size if size not in passed]
    if by_size and not lost:
        return "works", f"{min(passed)} to {max(passed)} bytes"
    if passed and max(passed) < min(lost):
        return f"loses frames above {max(passed)} bytes", f"{max(passed)} bytes pass, {min(lost)} and more are lost"
    return "loses frames", f"of {', '.join(map(str, lost)) or 'all'} bytes"


def _several(attempt: _Attempt, others: Mapping[str, _Attempt]) -> Verdict:
    """Of the sink, which counts frames once, however many chunks they have."""
    frames, whole = (sum(int(each[key]) for each in attempt.sockets) for key in ("rx", "rx_bytes"))
    line = next((line.removeprefix("sender ") for line in attempt.lines if line.startswith("sender {")), "{}")
    sent = sum(int(each["sent"]) for each in json.loads(line).get("streams", ()))
    if not sent:
        return "not tried", f"frames of {_LARGE - _FCS} bytes could not be sent: {attempt.complaint}"
    if frames >= sent and whole == frames * (_LARGE - _FCS):
        return "works", f"{sent} frames of {_LARGE - _FCS} bytes in chunks of {_CHUNK}"
    return "loses frames", f"{frames} of {sent} frames of {_LARGE - _FCS} bytes came, with {whole} bytes in all"


_NO_WAKEUP = "need-wakeup off"
_BUSY = {"busy_poll_us": 20, "busy_poll_budget": 64}
_COUNT = "count napi_busy_loop"
_DEFERRED = "all napi_defer_hard_irqs 2 && all gro_flush_timeout 200000"
_NOT_DEFERRED = "all napi_defer_hard_irqs 0; all gro_flush_timeout 0"


def _stream(number: int, frame_bytes: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number, "kind": "latency", "tx_port": 0, "rx_port": 1, "pps": _PPS, "frame_bytes": frame_bytes,
        "src_mac": "02:00:00:00:00:10", "dst_mac": "02:00:00:00:00:11", "src_ip": "198.18.0.1", "dst_ip": "198.19.0.1",
        **more,
    }  # fmt: skip


def _tries(warmup_s: float) -> tuple[_Try, ...]:
    sizes = [_stream(number, size) for number, size in enumerate(_SIZES)]
    many = {"streams": [_stream(0, 64, pps=_CALLS_PPS)]}
    sink = {"role": "sink", "ports": [{"ifname": "a1"}], "multi_buffer": True, "chunk_bytes": _CHUNK,
            "duration_s": 2 * warmup_s + 1}  # fmt: skip
    return (
        _Try("sockets", _passes),
        _Try("no flag", _without_a_flag, {"bind": "auto"}),
        _Try(_NO_WAKEUP, _passes, {**many, "need_wakeup": False}),
        _Try("need-wakeup", _needs_wakeup, many),
        _Try("busy polling", _polls, _BUSY, _COUNT, "counted"),
        _Try(
            "preferred busy polling", _polls, {**_BUSY, "prefer_busy_poll": True}, f"{_DEFERRED} && {_COUNT}",
            f"counted; {_NOT_DEFERRED}",
        ),
        _Try("NAPI threads", _threads, set_up="all threaded 1", tear_down="switches; all threaded 0"),
        _Try(
            "NAPI threads that poll", _threads, set_up="netdev threaded a0 2 && netdev threaded a1 2",
            tear_down="switches; netdev threaded a0 0; netdev threaded a1 0",
        ),
        _Try("shared UMEM", _shares, {"shared_umem": True}),
        _Try("frame sizes", _sizes, {"streams": sizes, "chunk_bytes": _CHUNK}),
        _Try("multi-buffer", _several, sink, f"mtu {_LARGE_MTU}", "mtu 1500", run="several"),
    )  # fmt: skip


#: Columns of the table.
FEATURES = tuple(each.name for each in _tries(0) if each.name != _NO_WAKEUP)


def _script(driver: Driver) -> str:
    warmup_s = _WARMUP_S.get(driver.device, 1.0)
    timing = {"duration_s": _FRAMES / _PPS, "warmup_s": warmup_s, "drain_s": 0.05, "max_burst": 1_000_000}
    common: dict[str, Any] = {"bind": "zero-copy" if driver.zero_copy else "copy", "wait": "poll"}
    probe = {**common, **timing, "role": "probe", "ports": [{"ifname": "a0"}, {"ifname": "a1"}], "audit": True,
             "shared_umem": False, "streams": [_stream(0, 64)]}  # fmt: skip
    sender = {**timing, "warmup_s": 0, "role": "probe", "backend": "af_packet", "ports": [{"ifname": "a0"}],
              "streams": [_stream(0, _LARGE, rx_port=0)]}  # fmt: skip
    lines = [f"LIMIT_S={_LIMIT_S} LINK_S={warmup_s:g}", ". /lane/features.sh", _written("sender", sender)]
    for number, each in enumerate(_tries(warmup_s)):
        config = {**(probe if each.run == "one" else common), **each.config}
        lines += [
            _written(f"try{number}", config),
            f"$bb echo 'feature {each.name} begin'",
            f"if {each.set_up}; then {each.run} try{number}; code=$?; else code=refused-$?; fi",
            each.tear_down,
            f'$bb echo "feature {each.name} end $code"',
        ]
    return "\n".join([*lines, "off end"])


def _written(name: str, config: Mapping[str, Any]) -> str:
    return f"$bb echo {shlex.quote(json.dumps(config))} >/run/{name}.json"


def try_features(
    made: "Artefact | str", kernel: str, driver_name: str, say: Callable[[str], None], *, kept: bool = True
) -> list[Feature]:
    """Boot a guest and try all of them.

    Args:
        made: QEMU and that kernel, or why there is none.
        kernel: As it is asked for.
        driver_name: Of `DRIVERS`.
        say: Called with a line.
        kept: What is in the cache is taken from there.
    """
    command = f"xdplab cost tester --kernel {shlex.quote(kernel)} --driver {driver_name} --features"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()

    def feature(name: str, found: str, detail: str, date: str) -> Feature:
        return Feature(
            kernel=kernel, driver=driver_name, feature=name, found=found, detail=detail, date=date, command=command
        )

    try:
        if isinstance(made, str):
            raise CellFailed(made)
        console, date = _console(made, kernel, driver_name, today, say, kept=kept)
    except CellFailed as error:
        return [feature(name, "not tried", str(error), today) for name in FEATURES]
    return [feature(*each, date) for each in judged(console)]


def _console(
    made: "Artefact", kernel: str, driver_name: str, today: str, say: Callable[[str], None], *, kept: bool
) -> tuple[str, str]:
    """What the guest printed, and when; one that came to its end is kept.

    Raises:
        CellFailed: it did not come to the first function.
    """
    driver = DRIVERS[driver_name]
    programs = {
        str(bpf_program("xsk", LocalHost())): "usr/bin/xsk", str(built("netdev")): "usr/bin/netdev",
        str(_SHELL): "lane/features.sh",
    }  # fmt: skip
    guest = Guest(made, driver, InGuest(_script(driver), programs), "a1", 1)
    path = cost_folder() / f"features-{guest.digest}.json"
    if kept and path.is_file():
        was = json.loads(path.read_text(encoding="utf-8"))
        return was["console"], was["date"]
    output = guest.run()
    if "\nfeature " not in output.console:
        raise CellFailed(output.complaint)
    if "\ncost end" in output.console:
        keep(path, json.dumps({"date": today, "console": output.console}).encode())
    say(f"{kernel} {driver_name}: what works of AF_XDP ({output.seconds:.0f} s)")
    return output.console, today


_BLOCK = re.compile(r"^feature (?P<name>[^\n]+) begin\n(?P<text>.*?)^feature (?P=name) end (?P<code>\S+)$", re.M | re.S)


def judged(console: str) -> Iterator[tuple[str, str, str]]:
    """(function, word, what was seen) of each, in the order of the table."""
    attempts = {each["name"]: _attempt(each["text"], each["code"]) for each in _BLOCK.finditer(console)}
    begun = re.findall(r"^feature ([^\n]+) begin$", console, re.MULTILINE)
    for each in _tries(0):
        if each.name not in FEATURES:
            continue
        if each.name in attempts:
            yield (each.name, *_judge(each, attempts))
        elif each.name in begun:
            yield each.name, "hangs", "the guest hung in it"
        else:
            yield each.name, "not tried", f"the guest hung before it, in: {begun[-1]}"


def _judge(each: _Try, attempts: Mapping[str, _Attempt]) -> Verdict:
    attempt = attempts[each.name]
    if attempt.refused:
        return ("absent" if attempt.refused == _ABSENT else "refused"), attempt.complaint
    if attempt.code == _KILLED:
        return "hangs", f"timed out after {_LIMIT_S} s"
    if attempt.code:
        return "refused", attempt.complaint
    if not attempt.done:
        return "not tried", "its result cannot be read: the kernel printed into it"
    return each.judge(attempt, attempts)


def _attempt(text: str, code: str) -> _Attempt:
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    refused = code.removeprefix("refused-")
    return _Attempt(0, lines, int(refused)) if refused != code else _Attempt(int(code), lines)
