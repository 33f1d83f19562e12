#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Static probes of a thread recorded by perf, as the delay study did; prints what `bpf/ovsprobe` prints.

Uprobes as `perf probe` defines them are put on the probes; `perf record` writes their time stamps until SIGTERM, `perf
script` reads them back. The XDP redirect is none of the thread's events: when a batch was redirected stays unknown.

Standard library only: it is also run on remote hosts.
Usage: perf_probe.py PROGRAM TID EVERY FOLDER FRAMES_ARGUMENT RX TX KICK_END   (probes as PROVIDER:NAME)
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator

#: Of what `bpf/common/batch_record.h` has.
_COLUMNS = ("received", "queued", "kicked", "frames", "sent")
_EVENTS = ("rx", "tx", "kicked")
#: `12.345678901: xdplab_1:rx_2: (55..) arg1=8 arg2=1`; a probe that is in several places has numbered events.
_LINE = re.compile(r"^\s*(\d+)\.(\d{9}):\s+\w+:(rx|tx|kicked)(?:_\d+)?:")
_LOST = re.compile(r"\blost (\d+)\b")
_GROUP = re.compile(r"^p:(xdplab_(\d+)/\S+)")
_TRACEFS = "/sys/kernel/tracing"


def batches(lines: Iterable[str], every: int = 1, frames_argument: int = 2) -> "dict[str, object]":
    """What `perf script` tells of batches; one in `every` is in the records.

    `frames_argument`: which argument of the probes of receive and transmit is the number of frames, from 1.
    """
    number = re.compile(rf"\barg{frames_argument}=(0x[0-9a-f]+|\d+)")
    records: list[list[int]] = []
    count = unsent = lost = received = queued = frames = sent = 0
    for line in lines:
        found = _LINE.match(line)
        if not found:
            gone = _LOST.search(line)
            lost += int(gone.group(1)) if gone else 0
            continue
        now, event = int(found.group(1) + found.group(2)), found.group(3)
        argument = number.search(line)
        passed = int(argument.group(1), 0) if argument else 0
        if event == "rx":
            unsent += bool(received)
            count, received, queued, frames = count + 1, now, 0, passed
        elif event == "tx" and received:
            queued, sent = now, passed
        elif event == "kicked" and queued:
            if count % every == 0:
                records.append([received, queued, now, frames, sent])
            received = queued = 0
    return {"columns": _COLUMNS, "records": records, "batches": count, "unmatched": 0, "unsent": unsent, "full": lost}


def _perf(*argv: str) -> str:
    done = subprocess.run(["perf", *argv], capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        sys.exit(f"perf {argv[-2]} {argv[-1]}: {_first_line(done.stderr) or f'exit code {done.returncode}'}")
    return done.stdout


def _mount_tracefs() -> None:
    """`ip netns exec` gives us a /sys without it, and a mount namespace to put it in."""
    if os.path.exists(f"{_TRACEFS}/uprobe_events"):
        return
    done = subprocess.run(["mount", "-t", "tracefs", "tracefs", _TRACEFS], capture_output=True, text=True, check=False)
    if done.returncode or not os.path.exists(f"{_TRACEFS}/uprobe_events"):
        sys.exit(f"no uprobes in tracefs: {done.stderr.strip() or 'the kernel has none'}")


def _command(line: str) -> None:
    """To uprobe_events, which cannot be sought."""
    descriptor = os.open(f"{_TRACEFS}/uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def _remove(wanted: "Callable[[int], bool]") -> None:
    """Events whose group has the number of a process that is wanted."""
    with open(f"{_TRACEFS}/uprobe_events", encoding="utf-8") as file:
        groups = [_GROUP.match(line) for line in file]
    for found in groups:
        if found and wanted(int(found.group(2))):
            with contextlib.suppress(OSError):  # another one was faster
                _command(f"-:{found.group(1)}")


@contextlib.contextmanager
def _probes(program: str, names: "list[str]", folder: str) -> Iterator[str]:
    """A group of events on those probes, removed in the end; so are those of runs that were killed."""
    group, ids = f"xdplab_{os.getpid()}", f"{folder}/buildid"
    _remove(lambda pid: not os.path.exists(f"/proc/{pid}"))
    _perf("--buildid-dir", ids, "buildid-cache", "--add", program)
    try:
        for event, name in zip(_EVENTS, names):  # noqa: B905 - Python 3.9 on hosts
            output = _perf("--buildid-dir", ids, "probe", "-x", program, "-D", f"%sdt_{name}")
            for number, line in enumerate(line for line in output.splitlines() if line.startswith("p:")):
                _command(f"p:{group}/{event}_{number} {line.split(None, 1)[1]}")
        yield group
    finally:
        _remove(lambda pid: pid == os.getpid())
        shutil.rmtree(ids, ignore_errors=True)


def read_back(data: str, every: int, frames_argument: int, said: str = "") -> "dict[str, object]":
    """What `perf script` tells of a recording; `said`: what `perf record` had to say when it ended.

    A recording that cannot be read ends the program with the words of both.
    """
    argv = ["perf", "script", "-i", data, "--ns", "-F", "trace:time,event,trace", "--show-lost-events"]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=complaints, encoding="utf-8") as script:
            assert script.stdout is not None
            found = batches(script.stdout, every, frames_argument)
        complaints.seek(0)
        words = _first_line(complaints.read()) or f"exit code {script.returncode}"
    if script.returncode:
        sys.exit(f"perf script: {words}" + (f"; perf record: {said}" if said else ""))
    return found


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _record(group: str, tid: str, data: str, stop: threading.Event) -> str:
    """Record from the line `ready` on until `stop`; returns what perf printed."""
    ask_read, ask = os.pipe()
    output, tell = os.pipe()
    # -B: build ids are of no use here, and perf 6.1 reads them in the mount namespace of the thread; it does not find
    # back from there into a chroot, and leaves a file without a header ("assertion failed at util/namespaces.c:301")
    argv = ["perf", "record", "-q", "-B", "-k", "CLOCK_MONOTONIC", "-e", f"{group}:*", "-t", tid, "-D", "-1",
            "-o", data, "--control", f"fd:{ask_read},{tell}"]  # fmt: skip
    perf = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=(ask_read, tell),
                            encoding="utf-8", errors="replace")  # fmt: skip
    os.close(tell)
    try:
        os.write(ask, b"enable\n")
        if not os.read(output, 16).startswith(b"ack"):
            sys.exit(f"perf record: {_first_line(perf.communicate()[1]) or 'it ended'}")
        print('{"event":"ready"}', flush=True)
        stop.wait()
    finally:
        perf.send_signal(signal.SIGINT)
        said = _first_line(perf.communicate()[1])
    return said


def main(program: str, tid: str, every: str, folder: str, frames_argument: str, *names: str) -> None:
    """Record until a signal; prints two lines of JSON."""
    if not shutil.which("perf"):
        sys.exit("perf is not installed; `apt-get install linux-perf` installs it")
    _mount_tracefs()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # whatever is under way, the probes are removed
        signal.signal(number, lambda *_: stop.set())
    data = f"{folder}/perf.data"
    with _probes(program, list(names), folder) as group:
        said = _record(group, tid, data, stop)
        found = read_back(data, int(every), int(frames_argument), said)
    os.unlink(data)
    print(json.dumps({"event": "done", **found}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 6 + len(_EVENTS):
        sys.exit(__doc__)
    main(*sys.argv[1:])
