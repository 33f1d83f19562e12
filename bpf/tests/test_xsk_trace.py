# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What xsk tells of batches itself, and what ovsprobe records of the same program."""

import json
import shutil
import signal
import subprocess

import pytest
from conftest import BPF, TIMEOUT_S, batches_of
from test_xsk_probes import traced, tracing  # noqa: F401 - a fixture
from xsk import SANITIZED, SOCKETS, XSK, frames, refused, wait_for_frames, xsk

OVSPROBE = BPF / "build" / "ovsprobe"
COUNT = 300


def ping(net, count=COUNT, program=XSK):
    with xsk(net, "a", "ping", "a0", program=program, streams=[frames()], count=count, timeout_us=5000000) as sender:
        return sender.finish(signal=False)["streams"][0]


def switched(reflector):
    reflector.process.send_signal(signal.SIGUSR2)
    reported = json.loads(reflector.line())
    assert (reported["event"], reported["error"]) == ("trace", None)
    return reported["recording"]


def recorded(net, folder, count=COUNT, program=XSK, sender=XSK, **options):
    path = folder / "trace.json"
    with xsk(net, "b", "reflect", "b0", program=program, trace=str(path), **options) as reflector:
        ping(net, 20, sender)  # nobody wanted these
        assert switched(reflector) is True
        assert ping(net, count, sender)["received"] == count
        assert switched(reflector) is False
        reported = json.loads(path.read_text())
        ping(net, 20, sender)
        reflector.finish()
    return reported


@pytest.mark.parametrize("sockets", SOCKETS)
def test_every_batch_is_stamped_from_departure_to_kick(middle, tmp_path, sockets):
    reported = recorded(middle, tmp_path, **SOCKETS[sockets])
    from_ping = [batch for batch in batches_of(reported) if batch["begun"]]  # IPv6 of the kernel comes along
    assert reported["batches"] == len(reported["records"]) == len(from_ping) + reported["unmatched"]
    assert len(from_ping) == COUNT
    assert reported["full"] == 0
    for batch in from_ping:
        assert batch["begun"] < batch["received"] <= batch["queued"] <= batch["kicked"]
        assert (batch["frames"], batch["sent"], batch["reaped"]) == (1, 1, 0)


def test_one_batch_in_ten_is_stamped_and_passes_the_probes(middle, tracing, tmp_path):  # noqa: F811
    probes = ["rx", "tx", "kick_begin", "kick_end"]
    own = shutil.copy(XSK, tmp_path)  # an xsk of another test would be counted too
    with traced(tracing, probes, own) as hits:
        reported = recorded(middle, tmp_path, program=own, sender=own, trace_every=10)
        count = hits()
    assert COUNT / 10 - 1 <= reported["batches"] <= COUNT / 10 + 3
    # the sender has the same file, and passes them always; its kicks come one for each frame
    frames_sent = COUNT + 40
    for name in probes:
        assert 1.05 * frames_sent < count[name] < 1.3 * frames_sent, count


def test_the_newest_records_stay(middle, tmp_path):
    path, room = tmp_path / "trace.json", 1 << 15
    with xsk(middle, "b", "reflect", "b0", trace=str(path), batch=1) as reflector:
        assert switched(reflector) is True
        with xsk(middle, "a", "gen", "a0", streams=[frames()]) as sender:
            wait_for_frames(reflector, "rx", room + 1000)
            sender.finish()
        assert switched(reflector) is False
        reflector.finish()
    reported = json.loads(path.read_text())
    assert len(reported["records"]) == room
    assert reported["full"] == reported["batches"] - room >= 1000
    received = [batch["received"] for batch in batches_of(reported)]
    assert received == sorted(received)


def test_the_sanitized_build_records_as_well(middle, tmp_path):
    if not SANITIZED.exists():
        pytest.skip("make -C bpf sanitized")
    assert recorded(middle, tmp_path, program=SANITIZED)["batches"] >= COUNT


def test_what_cannot_be_written_is_reported_and_the_run_goes_on(middle, tmp_path):
    with xsk(middle, "b", "reflect", "b0", trace=str(tmp_path / "missing" / "trace")) as reflector:
        assert switched(reflector) is True
        reflector.process.send_signal(signal.SIGUSR2)
        assert json.loads(reflector.line())["error"] == "it cannot be written"
        assert ping(middle)["received"] == COUNT
        reflector.process.terminate()
        out, err = (text.decode() for text in reflector.process.communicate(timeout=TIMEOUT_S))
    assert json.loads(out.splitlines()[-1])["event"] == "done"
    assert err.splitlines() == [f"xsk: cannot write trace: {tmp_path}/missing/trace: No such file or directory"]


def test_without_a_file_the_signal_does_nothing(middle):
    with xsk(middle, "b", "reflect", "b0") as reflector:
        reflector.process.send_signal(signal.SIGUSR2)
        assert "no trace" in json.loads(reflector.line())["error"]
        reflector.finish()


@pytest.mark.parametrize("option", [{"trace": "/tmp/trace"}, {"trace_every": 2}])
def test_other_roles_refuse_it(middle, option):
    config = {"role": "sink", "ports": [{"ifname": "b0"}], **option}
    assert f"{next(iter(option))} belongs to roles forward and reflect" in refused(middle, "b", config).replace(":", "")


def test_ovsprobe_follows_batches_through_xsk(middle):
    with xsk(middle, "b", "reflect", "b0") as reflector:
        (thread,), (port,) = reflector.ready["threads"], reflector.ready["ports"]
        numbers = {"--pid": reflector.process.pid, "--tid": thread["tid"], "--prog-id": port["prog_id"]}
        argv = [OVSPROBE, "--binary", XSK, "--provider", "xsk"]
        argv += [str(word) for option in numbers.items() for word in option]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as prober:
            try:
                assert json.loads(prober.stdout.readline()) == {"event": "ready"}
                ping(middle)
                prober.terminate()
                reported = json.loads(prober.communicate(timeout=TIMEOUT_S)[0])
            finally:
                prober.kill()
        reflector.finish()
    assert COUNT <= reported["batches"] <= COUNT + 10
    assert (reported["unmatched"], reported["full"]) == (0, 0)
    for batch in batches_of(reported):
        assert 0 < batch["begun"] < batch["received"] < batch["queued"] < batch["kicked"]


def test_a_provider_that_is_not_known_is_refused():
    argv = [OVSPROBE, "--binary", XSK, "--pid", "1", "--tid", "1", "--provider", "other"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("usage: ovsprobe"), len(done.stderr.splitlines())) == (2, 1, 1)
