# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The XDP_REDIRECT forwarder."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import XDPFWD, clean, config, counts, only, stream, xdpgen, xdpgen_running

BOTH = ["--if0", "b0", "--if1", "b1"]


def event(process, number):
    process.send_signal(number)
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_forwards_both_ways(middle, mode):
    ports = [middle.port("a0"), middle.port("c0")]
    streams = [stream(pps=10000.0), stream(id=1, tx_port=1, rx_port=0, pps=5000.0)]
    with middle.xdpfwd(*BOTH, "--mode", mode) as process:
        assert process.ready["event"] == "ready"
        assert process.ready["mode"] == mode
        assert process.ready["prog_id"] > 0
        # generic redirects and native receivers do not go together on veth
        sender = "auto" if mode == "native" else "xsk"
        result = xdpgen(config(ports, *streams, sender=sender, warmup_s=0))
        seen = event(process, signal.SIGUSR1)
        done = event(process, signal.SIGTERM)
        assert process.wait(30) == 0
    assert [counts(s) for s in result["streams"]] == [clean(3000), clean(1500)]
    assert seen == {"event": "counters", "rx": [3000, 1500], "redirected": [3000, 1500], "errors": [0, 0],
                    "tx_dropped": [0, 0]}  # fmt: skip
    assert done == seen | {"event": "done"}
    assert middle.is_clean("b0", "b1")


def test_a_port_that_is_down_is_an_error(middle):
    run = config([middle.port("a0"), middle.port("c0")], warmup_s=0, duration_s=1.0, link_changes=True)
    try:
        with middle.xdpfwd(*BOTH) as process:
            with xdpgen_running(run, wait_s=0.6) as sending:
                middle.exec("b", "ip", "link", "set", "b1", "down")
                result = json.loads(sending.communicate(timeout=30)[0])
            done = event(process, signal.SIGINT)
    finally:
        middle.exec("b", "ip", "link", "set", "b1", "up")
        middle.accept_redirects("b1")
        middle.accept_redirects("c0")
    lost = counts(result["streams"][0])["lost"]
    assert lost > 0
    assert (done["rx"][0], done["redirected"][0], done["errors"][0]) == (2000, 2000 - lost, lost)


def built(folder, program):
    """An object file of somebody's."""
    source, made = folder / "theirs.bpf.c", folder / "theirs.bpf.o"
    source.write_text(
        f"""
        #include <linux/bpf.h>
        #include <bpf/bpf_helpers.h>
        {program}
        char LICENSE[] SEC("license") = "GPL";
        """,
        encoding="ascii",
    )
    include = f"/usr/include/{os.uname().machine}-linux-gnu"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", f"-I{include}", "-c", source, "-o", made], check=True)
    return made


def test_why_the_kernel_refuses_a_program_is_said_in_its_own_words(middle, tmp_path):
    """A link brings an error number only; the message comes by netlink. Ours takes frames of several buffers."""
    made = built(
        tmp_path,
        """
        struct {
            __uint(type, BPF_MAP_TYPE_DEVMAP); __type(key, int); __type(value, int); __uint(max_entries, 64);
        } ports SEC(".maps");
        SEC("xdp") int forward(struct xdp_md *ctx) { return bpf_redirect_map(&ports, 0, 0); }
        """,
    )
    for port in ("a0", "b0"):
        middle.exec(port[0], "ip", "link", "set", port, "mtu", "9000")
    try:
        with middle.program("b", XDPFWD, *BOTH, f"--object={made}") as process:
            assert process.wait(30) == 2
            said = process.stderr.read()
    finally:
        for port in ("b0", "a0"):
            middle.exec(port[0], "ip", "link", "set", port, "mtu", "1500")
    assert said.startswith("xdpfwd: cannot attach native XDP: b0: ")
    assert said.endswith("libbpf: Kernel error message: veth: Peer MTU is too large to set XDP\n")
    assert middle.is_clean("b0", "b1")


def test_a_program_that_libbpf_refuses_is_said_in_its_words(middle, tmp_path):
    made = built(
        tmp_path,
        """
        struct { unsigned type, key_size, value_size, max_entries, flags; }
        ports __attribute__((section("maps"), used)) = { BPF_MAP_TYPE_DEVMAP, 4, 4, 2, 0 };
        SEC("xdp") int forward(struct xdp_md *ctx) { return bpf_redirect_map(&ports, 0, 0); }
        """,
    )
    with middle.program("b", XDPFWD, *BOTH, f"--object={made}") as process:
        assert process.wait(30) == 2
        said = process.stderr.read()
    assert "legacy map definitions in 'maps' section are not supported by libbpf v1.0+" in said
    assert "clang" not in said


def test_peer_that_takes_no_redirects(middle):
    """Refused frame by frame, or (before Linux 6.3) when they are flushed: it is said, once."""
    middle.accept_redirects("c0", on=False)
    try:
        with middle.xdpfwd(*BOTH) as process:
            result = xdpgen(config([middle.port("a0"), middle.port("c0", rx="tc")], warmup_s=0))
            seen = event(process, signal.SIGUSR1)
            done = event(process, signal.SIGINT)
            _, err = process.communicate(timeout=60)
    finally:
        middle.accept_redirects("c0")
    assert counts(only(result))["received"] == 0
    assert seen["errors"][0] + seen["tx_dropped"][1] == done["errors"][0] + done["tx_dropped"][1] == 600
    assert err == (
        "xdpfwd: nothing leaves at b1, 600 frames were dropped there: the peer needs an XDP program or NAPI "
        "(ethtool -K PEER gro on), both ports up\n"
    )


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_a_program_that_passes_every_frame_leaves_it_to_the_kernel(middle, mode):
    """What no bridge takes ends in B's stack, and nothing of it leaves at the other port."""
    with middle.xdpfwd(*BOTH, "--pass", "--mode", mode) as process:
        assert process.ready["action"] == "pass"
        assert middle.attached("b0")["xdp"] and middle.attached("b1")["xdp"]
        statistics = ["cat", "/sys/class/net/b0/statistics/rx_packets"]
        before = int(middle.exec("b", *statistics))
        result = xdpgen(config([middle.port("a0"), middle.port("c0")], warmup_s=0))
        assert int(middle.exec("b", *statistics)) - before >= 600
    assert counts(only(result))["received"] == 0
    assert middle.is_clean("b0", "b1")


def test_refuses_a_busy_port(middle):
    with middle.xdpfwd("--if0", "b1", "--hairpin"):
        with middle.program("b", XDPFWD, *BOTH) as second:
            _, err = second.communicate(timeout=60)
        assert second.returncode == 2
        assert err.startswith("xdpfwd: port busy: b1 carries XDP program")
        assert len(err.splitlines()) == 1
        assert not middle.attached("b0")["xdp"]


def test_kill_9_leaves_nothing(middle):
    with middle.xdpfwd(*BOTH) as process:
        assert middle.attached("b0")["xdp"] and middle.attached("b1")["xdp"]
        process.kill()
        process.wait(30)
    time.sleep(0.1)
    assert middle.is_clean("b0", "b1")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--if0", "lo"],
        ["--if0", "nothere", "--hairpin"],
        ["--if0", "lo", "--if1", "lo"],
        ["--if0", "lo", "--hairpin", "--mode", "offload"],
        ["--if0", "lo", "--hairpin", "more"],
        ["--if0", "lo", "--hairpin", "--pass"],
        ["--if0", "lo", "--pass", "--object", "mine.o"],
        ["--what"],
    ],
)
def test_bad_options(argv):
    done = subprocess.run([XDPFWD, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("xdpfwd: ")
    assert len(done.stderr.splitlines()) == 1
