# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The static probes: all there, a nop while nobody traces, and hit as often as the counters say when somebody does."""

import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import sh
from xsk import XSK, frames, xsk

PROBES = {
    "rx", "tx", "fill", "complete", "kick_begin", "kick_end", "wake_rx_begin", "wake_rx_end", "wait_begin", "wait_end",
    "sent", "received",
}  # fmt: skip
NOP = 0x90


def places():
    """Name -> file offsets, from the notes; code lies in the segment that is read and executed."""
    notes = sh("readelf", "--wide", "-n", XSK)
    text = re.search(r"LOAD +(0x\w+) (0x\w+) 0x\w+ 0x\w+ 0x\w+ R E", sh("readelf", "--wide", "-l", XSK))
    shift = int(text[1], 16) - int(text[2], 16)
    found = {}
    for name, address in re.findall(r"Provider: xsk\s+Name: (\w+)\s+Location: (0x\w+)", notes):
        found.setdefault(name, []).append(int(address, 16) + shift)
    return found


@pytest.fixture
def tracing():
    """tracefs, mounted if it is not."""
    here = Path("/sys/kernel/tracing")
    if (here / "uprobe_events").exists():
        yield here
        return
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tracefs", "tracefs", folder], capture_output=True, check=False)
        if mounted.returncode or not Path(folder, "uprobe_events").exists():
            pytest.skip("tracefs with uprobes is not available")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def command(tracing, line):
    """Append to uprobe_events, which cannot be sought."""
    descriptor = os.open(tracing / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def traced(tracing, names, program=XSK):
    """Uprobes on all places of some probes; yields a function that tells how often each name was hit, by whomever."""
    group = f"xsk{os.getpid()}"
    events = [(f"{name}_{n}", at) for name in names for n, at in enumerate(places()[name])]
    for event, at in events:
        command(tracing, f"p:{group}/{event} {program}:{at:#x}")

    def hits():
        profile = (tracing / "uprobe_profile").read_text(encoding="ascii")
        count = dict.fromkeys(names, 0)
        for line in profile.splitlines():
            event, number = line.split()[-2:]
            if event in dict(events):
                count[event.rsplit("_", 1)[0]] += int(number)
        return count

    switch = tracing / "events" / group / "enable"
    switch.write_text("1", encoding="ascii")
    try:
        yield hits
    finally:
        switch.write_text("0", encoding="ascii")
        for event, _ in events:
            command(tracing, f"-:{group}/{event}")


def test_idle_probes_are_single_nops():
    code = XSK.read_bytes()
    found = places()
    assert set(found) == PROBES
    assert {code[at] for offsets in found.values() for at in offsets} == {NOP}


def test_probes_are_hit_as_often_as_frames_pass(middle, tracing):
    with traced(tracing, ["sent", "received", "kick_begin", "kick_end"]) as hits, xsk(middle, "b", "reflect", "b0"):
        with xsk(middle, "a", "ping", "a0", streams=[frames()], count=25, timeout_us=5000000) as ping:
            done = ping.finish(signal=False)
        count = hits()
    (got,) = done["streams"]
    assert (count["sent"], count["received"]) == (got["sent"], got["received"]) == (25, 25)
    assert count["kick_end"] >= 50  # both programs have the same file
    assert abs(count["kick_begin"] - count["kick_end"]) <= 2  # the counts are read while both go on
