# SPDX-License-Identifier: Apache-2.0
"""Programs of the user's as forwarder `command`: what they send by, one-way, addresses, pins."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lab.compiling import hop
from lab.ovs_host import forwarder
from lab.rooted import Lab
from lab.studies import a_testbed, study

from xdplab.model import InputError
from xdplab.runner import make_plan
from xdplab.testers import make_tester
from xdplab.tools import project_root

FWD = str(project_root() / "bpf" / "build" / "xdpfwd")
ARGV = [FWD, "--if0={port_a}", "--if1={port_b}", "--mode=native"]
#: Ends with a word unless the addresses are those of the ports, and there is a file system for pins, and it is empty.
SCRIPT = f"""#!/bin/sh
[ "$(cat /sys/class/net/$1/address) $(cat /sys/class/net/$2/address)" = "$3 $4" ] || {{ echo ports; exit 3; }}
case "$5 $6" in 02:*:61:00\\ 02:*:63:00) ;; *) echo tester $5 $6; exit 3 ;; esac
[ "$(stat --file-system --format %T /sys/fs/bpf)" = bpf_fs ] || {{ echo no bpffs; exit 3; }}
mkdir /sys/fs/bpf/mine || exit 3
exec {FWD} --if0=$1 --if1=$2 --mode=native
"""


#: Pins the links of the programs that it has attached, and ends without them.
PINNING = f"""#!{sys.executable}
import json, subprocess, sys
one = subprocess.Popen([{FWD!r}, "--if0=" + sys.argv[1], "--if1=" + sys.argv[2]], stdout=subprocess.PIPE)
program = json.loads(one.stdout.readline())["prog_id"]
links = json.loads(subprocess.run(["bpftool", "-j", "link", "show"], capture_output=True).stdout)
for each in [each for each in links if each.get("prog_id") == program]:
    subprocess.run(["bpftool", "link", "pin", "id", str(each["id"]), sys.argv[3] + "/" + str(each["id"])], check=True)
one.wait()
"""


def command(argv: list[str], **options: Any) -> dict[str, Any]:
    return {"name": "command", "label": Path(argv[0]).name, "options": {"argv": argv, **options}}


@pytest.mark.root
def test_a_program_that_redirects_is_found_to_and_works_alone(lab: Lab) -> None:
    done = lab.run(tester="xdpgen", forwarders=[command(ARGV)], options=["--allow-program", FWD])
    assert done.code == 0, done.err
    assert "xdpfwd: redirects by XDP, as its ports count" in done.out + done.err
    assert lab.newest().load().rx_program == "xdp"
    assert [row["status"] for row in lab.rows()] == ["ok"]
    lab.assert_nothing_left()


@pytest.mark.root
def test_one_that_does_not_spares_the_forwarders_core_the_receivers_napi(lab: Lab) -> None:
    xsk = {"role": "forward", "ports": [{"ifname": "{port_a}"}, {"ifname": "{port_b}"}]}
    script = lab.folder / "app"
    text = str(xsk).replace("'", '"').replace("{port_a}", "$1").replace("{port_b}", "$2")
    app = project_root() / "bpf" / "build" / "xsk"
    script.write_text(f"#!/bin/sh\nexec {app} - <<END\n{text}\nEND\n", encoding="utf-8")
    script.chmod(0o755)
    argv = [str(script), "{port_a}", "{port_b}"]
    done = lab.run(tester="xdpgen", forwarders=[command(argv)], options=["--allow-program", str(script)])
    assert done.code == 0, done.err
    assert "app: does not redirect by XDP, as its ports count" in done.out + done.err
    assert lab.newest().load().rx_program == "tc"
    lab.assert_nothing_left()


@pytest.mark.root
def test_one_that_ends_while_it_is_looked_at_is_named(lab: Lab) -> None:
    argv = ["sh", "-c", "exit 3 # {port_a} {port_b}"]
    done = lab.run(tester="xdpgen", forwarders=[command(argv)], options=["--allow-program", "sh"])
    words = "sh: it could not be inspected: sh ended with exit code 3; assumed not to redirect by XDP"
    assert words in done.out + done.err
    assert "by XDP, as its ports count" not in done.out + done.err
    assert [row["status"] for row in lab.rows()] == ["failed"]
    lab.assert_nothing_left()


@pytest.mark.root
def test_it_knows_the_addresses_and_pins_to_a_file_system_of_its_own(lab: Lab) -> None:
    script = lab.folder / "pins"
    script.write_text(SCRIPT, encoding="utf-8")
    script.chmod(0o755)
    argv = [str(script), "{port_a}", "{port_b}", "{mac_a}", "{mac_b}", "{tester_mac_a}", "{tester_mac_c}"]
    asked = {"tester": "xdpgen", "forwarders": [command(argv)], "repetitions": 2}
    done = lab.run(**asked, options=["--allow-program", str(script)])
    assert done.code == 0, done.err
    assert not Path("/sys/fs/bpf/mine").exists()
    lab.assert_nothing_left()


@pytest.mark.root
def test_a_program_of_libxdp_without_a_dispatcher_is_reset_and_leaves_nothing(lab: Lab) -> None:
    """It outlives its sockets, and a second start would find the port taken."""
    made = hop(lab.folder, "hop", {})
    asked = {"method": {"name": "reset", "drain_s": 0.5}, "forwarders": [command([str(made), "{port_a}", "{port_b}"])]}
    done = lab.run(**asked, repetitions=2, options=["--allow-program", str(made)])
    assert done.code == 0, done.err
    (row,) = lab.rows()
    assert (row["status"], row["reason"]) == ("ok", "")
    assert row["figures"]["reset"]["reset_us"]["low"] > 0
    lab.assert_nothing_left()


@pytest.mark.root
@pytest.mark.parametrize(
    ("options", "said"),
    [({}, "pinning has left behind at b0: B: b0"), ({"redirects": True}, "pinning changed xdp of b0")],
)
def test_a_link_that_somebody_pinned_is_named_with_its_file(lab: Lab, options: dict[str, Any], said: str) -> None:
    """It outlives its program, and only its owner knows whether it may go: the run ends."""
    script, pins = lab.folder / "pinning", lab.folder / "pins"
    script.write_text(PINNING, encoding="utf-8")
    script.chmod(0o755)
    pins.mkdir()
    subprocess.run(["mount", "-t", "bpf", "bpf", pins], check=True)
    try:
        asked = [command([str(script), "{port_a}", "{port_b}", str(pins)], **options)]
        done = lab.run(tester="xdpgen", forwarders=asked, options=["--allow-program", str(script)])
    finally:
        subprocess.run(["umount", pins], check=True)
    assert done.code == 1, done.err
    held = rf"cannot be detached: a bpf_link is pinned at {pins}/\d+.*; `rm {pins}/\d+.*` detaches it"
    assert re.search(rf"xdplab: {said}.* {held}; .*{held}\n", done.err), done.err
    lab.assert_nothing_left()


@pytest.mark.root
def test_one_that_forwards_one_way_is_proven_one_way(lab: Lab) -> None:
    one = [FWD, "--if0={port_a}", "--if1={port_b}", "--mode=native"]
    done = lab.run(tester="xdpgen", forwarders=[command(one, one_way=True)], options=["--allow-program", FWD])
    assert done.code == 0, done.err
    lab.assert_nothing_left()


def test_what_needs_a_way_back_is_refused() -> None:
    spec = command(["/bin/true"], one_way=True)
    assert forwarder("command:argv=/bin/true,one_way=true").one_way
    tester = make_tester("xdpgen")
    for changes, what in (({"path": "reflect"}, "path reflect"), ({"traffic": {"bidirectional": True}}, "traffic.bid")):
        asked = study(forwarders=[spec], tester="xdpgen", testbed="embedded", **changes)
        with pytest.raises(InputError, match=f"one_way=true: it forwards one way only, and {what}"):
            make_plan(asked, a_testbed("embedded"), tester)


def test_placeholders_that_there_are_not_are_named() -> None:
    with pytest.raises(
        InputError, match=r"argv: \{mac_c\}: there is only \{port_a\}, \{port_b\}, \{mac_a\}, \{mac_b\}, "
    ):
        forwarder("command:argv=/bin/true {mac_c}")
    assert os.access(FWD, os.X_OK)


#: Receives and counts, through AF_PACKET; what it has counted is in its second argument.
CAPTURE = f"""#!{sys.executable}
import os, socket, sys, time
time.sleep(float(sys.argv[3]))
port, count, at = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)), 0, 0
port.bind((sys.argv[1], 0))
while True:
    count += port.recv_into(bytearray(2048)) > 0
    if time.monotonic() > at:
        open(sys.argv[2] + ".new", "w").write(f"drops: 7\\nframes: {{count}}\\n")
        os.rename(sys.argv[2] + ".new", sys.argv[2])
        at = time.monotonic() + 0.02
"""


def micro(lab: Lab, case: dict[str, Any], workload: str, programs: list[str]) -> tuple[int, str, dict[str, Any]]:
    """Exit code, stderr and the row of one program at one workload."""
    method = {"name": "micro", "workloads": [workload], "duration_s": 0.3, "warmup_s": 0.1}
    allow = [part for each in programs for part in ("--allow-program", each)]
    done = lab.run(tester="xdpgen", forwarders=[case], method=method, options=allow)
    lab.assert_nothing_left()
    (row,) = lab.rows()
    return done.code, done.out + done.err, row


@pytest.mark.root
def test_a_program_that_only_receives_is_counted_by_itself(lab: Lab) -> None:
    """It needs a second until it receives, and says so to nobody."""
    script = lab.folder / "capture"
    script.write_text(CAPTURE, encoding="utf-8")
    script.chmod(0o755)
    case = command(
        [str(script), "{port_a}", "{folder}/count", "1"],
        counter=["cat", "{folder}/count"],
        counter_pattern=r"frames: (\d+)",
    )
    code, said, row = micro(lab, case, "rxdrop", [str(script), "cat"])
    assert (code, row["status"]) == (0, "ok"), said
    assert row["mpps"] > 0.001

    case["options"]["counter_pattern"] = "received: ([0-9]+)"
    case["options"]["ready_s"] = 2
    code, said, row = micro(lab, case, "rxdrop", [str(script), "cat"])
    assert (code, row["status"]) == (1, "failed"), said
    assert "command: counter=cat: no number by 'received: ([0-9]+)'; it printed drops: 7 | frames: " in row["reason"]


@pytest.mark.root
@pytest.mark.parametrize("workload", ["rxdrop", "l2fwd"])
def test_a_program_with_one_port_is_counted_by_the_kernel_or_the_tester(lab: Lab, workload: str) -> None:
    script = lab.folder / "app"
    role = {"rxdrop": "sink", "l2fwd": "reflect"}[workload]
    app = project_root() / "bpf" / "build" / "xsk"
    text = f'{{"role": "{role}", "ports": [{{"ifname": "$1"}}]}}'
    script.write_text(f"#!/bin/sh\nexec {app} - <<END\n{text}\nEND\n", encoding="utf-8")
    script.chmod(0o755)
    code, said, row = micro(lab, command([str(script), "{port_a}"]), workload, [str(script)])
    assert (code, row["status"], row["mode"]) == (0, "ok", "native copy"), said
    assert row["mpps"] > 0.001
    assert ("redirect by XDP, as its ports count" in said) == (workload == "l2fwd")


@pytest.mark.root
@pytest.mark.parametrize("workload", ["rxdrop", "txonly", "l2fwd"])
def test_a_program_that_does_not_do_what_it_is_asked_for_is_said_to(lab: Lab, workload: str) -> None:
    case = command(["sleep", "60"], ready_s=0.5, redirects=False)
    code, _, row = micro(lab, case, workload, ["sleep"])
    words = (
        "command: no frame came through forward within 0.5 s"
        if workload == "l2fwd"
        else f"{workload}: no frame within 0.5 s"
    )
    assert (code, row["status"], row["reason"].startswith(words)) == (1, "failed", True), row["reason"]
