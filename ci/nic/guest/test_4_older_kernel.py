# SPDX-License-Identifier: Apache-2.0
"""`xdplab run` on Debian 12's own kernel: forwarders, settings and what it has not, and all put back.

veth pairs under emulation: a slow forwarder may lose frames, because a core is away for longer than its queues hold.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from xdplab.analysis import summarise
from xdplab.cli import main
from xdplab.forwarders import make_forwarder
from xdplab.forwarders.ovs.builds import PATCHED, find_build, missing
from xdplab.hosts import LocalHost
from xdplab.hosts.kernel import DATAPATH, datapath_ports, link_names, remove_link
from xdplab.model import ForwarderSpec
from xdplab.results import RunFolder
from xdplab.testbed.needs import who_has

_DEBIANS = "/usr/lib/openvswitch-switch/ovs-vswitchd"
#: Debian's, unless `ovs/build` has made the patched one.
_STOCK = missing(LocalHost(), find_build(PATCHED, _DEBIANS, LocalHost()), "")
#: Forwarder -> mode that the record shows, as the kernel tells it.
MODES = {
    "linux-bridge": "kernel bridge",
    "xdp": "native",
    "xsk:busy_poll_us=20": "native copy",
    "xsk:backend=af_packet": "af_packet v2",
    "ovs-afpacket": "af_packet",
    "ovs-kernel": "kernel datapath",
    "ovs-dpdk": "native copy",
    "testpmd": "native copy",
    **(
        {"ovs-afxdp": "native copy"}
        if _STOCK
        else {"ovs-afxdp:build=patched": "native copy", "ovs-afxdp:flow_offload=true": "native copy + XDP flows"}
    ),
}
#: What this kernel or veth has not, and a word of the reason.
UNSUPPORTED = {"xsk:tx_skb_budget=256": "needs 6.17", "xsk:bind=zero-copy": "NETDEV_XDP_ACT_XSK_ZEROCOPY"}
#: Both ports of the forwarder have them in each trial.
KNOBS: dict[str, Any] = {"napi_defer_hard_irqs": 2, "gro_flush_timeout": 20000, "mtu": 1400}
#: The kernel forwards these without a thread of its own that could be late.
LOSSLESS = ("linux-bridge", "xdp", "ovs-kernel")
_STUDY: dict[str, Any] = {
    "schema": 1,
    "name": "older-kernel",
    "testbed": "embedded",
    "tester": "xdpgen",
    "forwarders": [*MODES, *UNSUPPORTED],
    "knobs": KNOBS,
    "method": {"name": "latency", "duration_s": 0.2, "warmup_s": 0.1, "drain_s": 0.3},
    "traffic": {"probe_pps": 500},
    "repetitions": 1,
}


def machine() -> dict[str, str]:
    """What a run could leave behind."""
    asked = {"links": ["ip", "-o", "link"], "namespaces": ["ip", "netns"], "programs": ["ps", "-e", "-o", "comm="]}
    ours = {name: LocalHost().run(argv).stdout for name, argv in asked.items()}
    kept = ("ovs", "xdp", "xsk", "dpdk")  # kernel threads come and go
    return ours | {"programs": "".join(line for line in ours["programs"].splitlines() if line.startswith(kept))}


def measured(folder: Path, **changes: Any) -> RunFolder:
    """A run as a user types it, in this process: another takes 20 s to load Python's modules."""
    (folder / "study.yaml").write_text(yaml.safe_dump(_STUDY | changes), encoding="utf-8")
    before = machine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["xdplab", "run", str(folder / "study.yaml"), "--results", str(folder / "results")])
        with pytest.raises(SystemExit, check=lambda ended: not ended.code):
            main()
    assert machine() == before
    return RunFolder((folder / "results/latest").resolve())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """One run of all."""
    return measured(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def rows(done: RunFolder) -> dict[str, dict[str, Any]]:
    """What `xdplab show --json` prints, by forwarder."""
    return {row.forwarder: row.model_dump(mode="json") for row in summarise(done.load(), done.trials())}


@pytest.mark.timeout(350)  # the first waits for the run of all
@pytest.mark.parametrize("title", MODES)
def test_a_forwarder_carries_frames_in_its_mode_under_these_settings(
    done: RunFolder, rows: dict[str, dict[str, Any]], title: str
) -> None:
    row = rows[title]
    assert (row["status"], row["reason"], row["mode"]) == ("ok", "", MODES[title]), row["reason"]
    (trial,) = [each for each in done.trials() if each.point_id == row["point_id"] and each.result]
    assert trial.result is not None
    (stream,) = trial.result.streams
    assert stream.sent > 50
    assert (stream.received > 0, stream.duplicated) == (True, 0)
    if title in LOSSLESS:
        assert stream.lost == 0
    assert {name: set(map(str, trial.knobs[name].values())) for name in KNOBS} == {
        name: {str(value)} for name, value in KNOBS.items()
    }


def test_busy_polling_is_in_force(done: RunFolder, rows: dict[str, dict[str, Any]]) -> None:
    """Up to Linux 6.12 a veth's sockets have a NAPI id, from their first frame on."""
    point = rows["xsk:busy_poll_us=20"]["point_id"]
    (trial,) = [each for each in done.trials() if each.point_id == point and each.result]
    sockets = trial.mode["application"]["sockets"]
    assert all(sock["busy_poll_us"] == 20 for sock in sockets)
    assert any(sock["napi_id"] > 0 for sock in sockets)


@pytest.mark.timeout(200)
def test_the_kernel_s_datapath_does_pipelines_to_the_byte(tmp_path: Path) -> None:
    asked = ["acl:100x8", "conntrack", "meter", "nat"]
    run = measured(tmp_path, forwarders=["ovs-kernel"], pipeline=[*asked, "vxlan"], knobs={})
    found = {row.pipeline: row for row in summarise(run.load(), run.trials())}
    assert {name: found[name].status for name in asked} == dict.fromkeys(asked, "ok")
    assert "does not support pipeline vxlan" in found["vxlan"].reason
    assert [each.increments["datapath"]["hit"] > 90 for each in run.trials() if each.result] == [True] * len(asked)


def test_the_datapath_of_another_open_vswitch_stays() -> None:
    """Its bridge is in the one datapath that a network namespace has; without it, it is one that a run left."""
    host, made = LocalHost(), make_forwarder(ForwarderSpec(name="ovs-kernel"))

    def dpctl(*argv: str) -> str:
        return host.run(["ovs-dpctl", *argv]).stdout

    dpctl("add-dp", DATAPATH)
    for name in ("br-int", "xdplab0"):
        dpctl("add-if", DATAPATH, f"{name},type=internal")
    assert "ovs-system" in (who_has(host, made.name, made.own_links) or "")
    why = "ovs-system has ports that xdplab did not make, br-int: it is left alone"
    assert [remove_link(host, DATAPATH, made.own_links) for _ in range(2)] == [why] * 2
    assert datapath_ports(dpctl("show")) == {"br-int"}
    assert "xdplab0" not in link_names(host)
    dpctl("del-if", DATAPATH, "br-int")
    assert remove_link(host, DATAPATH, made.own_links) == ""
    assert who_has(host, made.name, made.own_links) is None


@pytest.mark.parametrize("title", UNSUPPORTED)
def test_what_is_not_there_is_unsupported_with_the_reason(rows: dict[str, dict[str, Any]], title: str) -> None:
    row = rows[title]
    assert (row["status"], row["repetitions"]) == ("unsupported", 0)
    assert UNSUPPORTED[title] in row["reason"]
