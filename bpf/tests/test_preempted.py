# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""PREEMPT_RT: a frame may be preempted by another of its CPU, and neither is lost to the counters."""

import json
import platform
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BPF, clean, config, counts, only, sh, stream, xdpgen, xdpgen_running

SOURCE = Path(__file__).with_name("preempted.c")
#: A kernel that says so (uname -v).
REALTIME = """
#define _GNU_SOURCE
#include <string.h>
#include <sys/utsname.h>
int uname(struct utsname *name)
{
	memset(name, 0, sizeof(*name));
	strcpy(name->version, "#1 SMP PREEMPT_RT Debian");
	return 0;
}
"""


@pytest.fixture(scope="module")
def preempted(tmp_path_factory):
    program = tmp_path_factory.mktemp("preempted") / "preempted"
    argv = ["gcc", "-std=gnu11", "-O0", "-mno-red-zone", "-D_GNU_SOURCE", "-fno-strict-aliasing", f"-I{BPF}/common"]
    subprocess.run([*argv, f"-I{BPF}/xdpgen", "-w", "-o", program, SOURCE], check=True)
    return lambda on: json.loads(subprocess.run([program, str(on)], check=True, capture_output=True).stdout)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="steps through instructions as x86 does")
def test_preempted_at_each_instruction(preempted):
    got = preempted(1)
    frames = got["frames"]
    assert frames == 2 * got["steps"] - 1 > 1000
    assert [got[key] for key in ("received", "duplicated", "warmup", "other")] == [frames] * 4
    assert (got["sum_ns"], got["min_ns"], got["max_ns"]) == (frames * (frames + 1) // 2, 1, frames)


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="steps through instructions as x86 does")
def test_plain_additions_lose_frames_there(preempted):
    """What other kernels are spared."""
    got = preempted(0)
    assert got["received"] < got["frames"]


@pytest.fixture
def realtime(tmp_path, monkeypatch):
    source, shim = tmp_path / "uname.c", tmp_path / "uname.so"
    source.write_text(REALTIME, encoding="ascii")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, source], check=True)
    return lambda: monkeypatch.setenv("LD_PRELOAD", str(shim))


def constants_of(process):
    """What the kernel holds of a running receiver, by name."""
    reported = "".join(path.read_text(encoding="ascii") for path in Path(f"/proc/{process.pid}/fdinfo").iterdir())
    found = {}
    for map_id in re.findall(r"^map_id:\s*(\d+)$", reported, re.MULTILINE):
        if json.loads(sh("bpftool", "-j", "map", "show", "id", map_id))["name"] == "receiver.rodata":
            (entry,) = json.loads(sh("bpftool", "-j", "map", "dump", "id", map_id))
            (values,) = entry["formatted"]["value"].values()
            found |= {name: value for each in values for name, value in each.items()}
    return found


@pytest.mark.parametrize(
    ("on", "rx", "preempted"),
    [(True, {"rx": "tc"}, 1), (True, {"xdp_mode": "generic"}, 1), (True, {}, 0), (False, {"rx": "tc"}, 0)],
)
def test_where_additions_are_atomic(direct, realtime, on, rx, preempted):
    """Not with one receive queue: no two threads run its NAPI."""
    if on:
        realtime()
    ports = [direct.port("a0", rx="none"), direct.port("c0", **rx)]
    with xdpgen_running(config(ports, stream(), duration_s=5)) as process:
        got = constants_of(process)
    assert got["rx_preempted"] == preempted


@pytest.mark.parametrize("rx", [{"rx": "tc"}, {"xdp_mode": "generic"}])
def test_what_arrives_is_counted_there_too(direct, realtime, rx):
    realtime()
    got = only(xdpgen(config([direct.port("a0", rx="none"), direct.port("c0", **rx)], stream(count=400, pps=4000.0))))
    assert counts(got) == clean(400)
    assert got["latency"]["count"] == 400
