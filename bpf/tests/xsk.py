# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Running bpf/xsk in the namespaces of a test."""

import contextlib
import json
import signal
import subprocess
import time

from conftest import BPF, TIMEOUT_S, stream

XSK = BPF / "build" / "xsk"
SANITIZED = BPF / "build" / "sanitized" / "xsk"
#: All that is not the role: back ends and modes that carry frames on veth.
SOCKETS = {
    "native": {},
    "generic": {"xdp_mode": "generic"},
    "poll": {"wait": "poll"},
    "packet-v2": {"backend": "af_packet"},
    "packet-v3": {"backend": "af_packet", "packet_version": 3},
    "packet-qdisc": {"backend": "af_packet", "qdisc_bypass": False},
}


def frames(**more):
    """A stream of the first port to itself, as fast as the role sends."""
    return stream(**{"tx_port": 0, "rx_port": 0, "pps": None} | more)


def is_sound(result):
    """No chunk is lost, none is with the kernel for sending, and the audit agrees with the counters."""
    for umem in result["umems"]:
        assert umem["lost"] == 0, umem
        assert umem["sending"] == 0, umem
        if umem["audit"]:
            same = ("free", "receiving", "sending")
            assert [umem["audit"][key] for key in same] == [umem[key] for key in same], umem
            assert (umem["audit"]["held"], umem["audit"]["wrong_moves"]) == (0, 0), umem
    return True


class Running:
    """A started xsk: `ready` is its first line."""

    def __init__(self, process):
        self.process = process
        self.ready = json.loads(self.line())

    def line(self):
        text = self.process.stdout.readline()
        assert text, self.process.stderr.read()
        return text.decode()

    def finish(self, expect=0, signal=True):
        """Its last line; `signal`: it is asked to end, else it ends by itself."""
        if signal:
            self.process.terminate()
        out, err = (each.decode() for each in self.process.communicate(timeout=TIMEOUT_S))
        assert self.process.returncode == expect, err
        self.complaints = err.splitlines()
        assert len(self.complaints) == (1 if expect else 0), err
        return json.loads(out.splitlines()[-1])


@contextlib.contextmanager
def xsk(net, letter, role, *ifnames, program=XSK, **options):
    """It runs in the namespace `letter`."""
    ports = [{"ifname": name} for name in ifnames]
    config = json.dumps({"role": role, "ports": ports} | options)
    argv = ["ip", "netns", "exec", net.ns(letter), str(program), "-"]
    pipe = subprocess.PIPE
    # unbuffered: what a reader of lines has buffered is lost to communicate()
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        try:
            process.stdin.write(config.encode())
            process.stdin.close()
            process.stdin = None
            yield Running(process)
        finally:
            process.kill()


def wait_for_frames(running, key, count):
    """Until its first socket has received (`rx`) or sent (`tx`) that many."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        running.process.send_signal(signal.SIGUSR1)
        if json.loads(running.line())["sockets"][0][key] >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"not {count} frames of {key} in {TIMEOUT_S} s")


def refused(net, letter, config):
    """Its one line when it does not start."""
    text = config if isinstance(config, str) else json.dumps(config)
    argv = ["ip", "netns", "exec", net.ns(letter), str(XSK), "-"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2, done.stderr or done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("xsk: "), done.stderr
    assert not done.stdout
    return lines[0]
