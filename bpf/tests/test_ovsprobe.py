# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The prober on a program that has the probes of Open vSwitch; the real one is tried by tools/tests."""

import json
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import BPF, TIMEOUT_S, batches_of

OVSPROBE = BPF / "build" / "ovsprobe"
SOURCE = Path(__file__).with_name("sdt_batches.c")


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    if not Path("/usr/include/x86_64-linux-gnu/sys/sdt.h").exists() and not Path("/usr/include/sys/sdt.h").exists():
        pytest.skip("needs sys/sdt.h (package systemtap-sdt-dev)")
    binary = tmp_path_factory.mktemp("sdt") / "sdt_batches"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", binary, SOURCE], check=True)
    return binary


@contextmanager
def running(binary, *args):
    process = subprocess.Popen(
        [binary, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT_S)


def probe(binary, process, *args):
    ids = ["--pid", str(process.pid), "--tid", str(process.pid)]
    return subprocess.Popen(
        [OVSPROBE, "--binary", binary, *ids, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def recorded(binary, count, switch_ns, kick_ns, *args):
    with running(binary, count, switch_ns, kick_ns) as process:
        prober = probe(binary, process, *args)
        assert json.loads(prober.stdout.readline()) == {"event": "ready"}
        process.stdin.write("\n")
        assert process.stdout.readline() == "done\n"
        prober.send_signal(signal.SIGTERM)
        out, err = prober.communicate(timeout=TIMEOUT_S)
    assert (prober.returncode, err) == (0, "")
    return json.loads(out)


def test_every_batch_is_recorded_with_its_stages(batches):
    reported = recorded(batches, 1000, 20_000, 50_000)
    assert (reported["event"], reported["batches"], reported["unsent"], reported["full"]) == ("done", 1000, 0, 0)
    assert len(reported["records"]) == 1000
    found = batches_of(reported)
    switch = sorted(batch["queued"] - batch["received"] for batch in found)
    kick = sorted(batch["kicked"] - batch["queued"] for batch in found)
    assert switch[0] >= 20_000 and switch[500] < 40_000
    assert kick[0] >= 50_000 and kick[500] < 80_000
    assert [(batch["frames"], batch["sent"]) for batch in found[:5]] == [(1, 1), (2, 2), (3, 3), (4, 4), (1, 1)]
    # what the batch before took to come back; the first has none before it
    assert found[0]["reaped"] == 0
    assert all(batch["reaped"] > 0 for batch in found[1:])
    assert all(batch["begun"] == 0 for batch in found)  # no XDP program was named
    assert reported["unmatched"] == 0  # so nothing was to be matched


def test_one_in_so_many_is_recorded_and_what_does_not_fit_is_counted(batches):
    assert len(recorded(batches, 1000, 0, 0, "--every", "10")["records"]) == 100
    reported = recorded(batches, 100_000, 0, 0)
    assert reported["batches"] == 100_000 == len(reported["records"]) + reported["full"]
    assert reported["full"] > 0


def test_another_thread_is_not_recorded(batches):
    with running(batches, 10, 0, 0) as process, running(batches, 10, 0, 0) as other:
        ids = ["--pid", str(process.pid), "--tid", str(other.pid)]
        prober = subprocess.Popen([OVSPROBE, "--binary", batches, *ids], stdout=subprocess.PIPE, text=True)
        prober.stdout.readline()
        process.stdin.write("\n")
        process.stdout.readline()
        prober.terminate()
        out, _ = prober.communicate(timeout=TIMEOUT_S)
    assert json.loads(out)["batches"] == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--binary", "/bin/true", "--pid", "1"], "usage: ovsprobe"),
        (["--binary", "/bin/true", "--pid", "1", "--tid", "x"], "usage: ovsprobe"),
        (["--binary", "/bin/true", "--pid", "1", "--tid", "1", "--prog-id", "2147483647"], "XDP program 2147483647"),
    ],
)
def test_bad_options_are_one_line(args, words):
    done = subprocess.run([OVSPROBE, *args], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_a_program_without_the_probes_is_reported():
    sleep = shutil.which("sleep")
    with running(sleep, "20") as process:
        prober = probe(sleep, process)
        _, err = prober.communicate(timeout=TIMEOUT_S)
    assert prober.returncode == 2
    assert "tx_complete" in err
    assert "--enable-usdt-probes" in err
