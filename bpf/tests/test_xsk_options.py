# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every bad configuration of xsk: exit 2 and one line that says what to do."""

import copy
import json
import subprocess

import pytest
from conftest import net_up, sh
from xsk import XSK, frames, refused, xsk

FORWARD = {"role": "forward", "ports": [{"ifname": "b0"}, {"ifname": "b1"}]}
SINK = {"role": "sink", "ports": [{"ifname": "b0"}]}
PROBE = {"role": "probe", "ports": [{"ifname": "b0"}], "streams": [frames(pps=100.0)], "duration_s": 1}

NF = FORWARD | {"role": "nf", "nf": {"functions": ["macswap"], "place": "xdp"}}


def nf(**changes):
    return NF | {"nf": NF["nf"] | changes}


def route(prefix, hop):
    hops = [{"mac": "02:00:00:00:00:01"}]
    return nf(functions=["router"], next_hops=hops, route_list=[{"prefix": prefix, "hop": hop}])


BAD = [
    (FORWARD, {"unknown": 1}, "unknown key"),
    (FORWARD, {"role": "route"}, "one of forward reflect sink gen ping probe"),
    (FORWARD, {"ports": []}, "1 or 2"),
    (FORWARD, {"ports": [{"ifname": "b0"}]}, "role forward needs two"),
    (FORWARD, {"ports": [{"ifname": "b0"}] * 2}, "is there twice"),
    (FORWARD, {"ports": [{"ifname": "b0"}, {"ifname": "nothere"}]}, "ports[1].ifname nothere: create it"),
    (FORWARD, {"ports": [{"ifname": "b0"}, {"ifname": "b1", "netns": "/run/netns/nothere"}]}, "ports[1].netns"),
    (FORWARD, {"role": "sink"}, "one port"),
    (FORWARD, {"backend": "dpdk"}, "one of af_xdp af_packet"),
    (FORWARD, {"xdp_mode": "offload"}, "one of native generic"),
    (FORWARD, {"bind": "zero-copy", "xdp_mode": "generic"}, "needs xdp_mode native"),
    (FORWARD, {"bind": "zero-copy"}, 'no AF_XDP zero-copy: use bind "copy"'),
    (FORWARD, {"rx_ring": 1000}, "rx_ring: must be a power of two, not 1000"),
    (FORWARD, {"tx_ring": 4}, "from 8 to 32768"),
    (FORWARD, {"completion_ring": 64}, "must not be smaller than tx_ring"),
    (FORWARD, {"chunk_bytes": 3000}, "power of two"),
    (FORWARD, {"chunk_bytes": 8192}, "from 2048 to 4096"),
    (FORWARD, {"chunk_bytes": 2048, "headroom": 512}, "MTU of 1500"),
    (FORWARD, {"chunk_bytes": 3001, "unaligned": True}, "a multiple of 8"),
    (FORWARD, {"sockets": 2}, "needs shared_umem false"),
    (FORWARD, {"frames": 100}, "twice the batch"),
    (FORWARD, {"frames": 2, "batch": 1}, "frames: must be at least 4"),
    (FORWARD, {"batch": 0}, "from 1 to 512"),
    (FORWARD, {"tx_skb_budget": 16}, "from 32 to tx_ring"),
    (FORWARD, {"tx_skb_budget": 4096}, "from 32 to tx_ring"),
    (FORWARD, {"queue": 1}, "b0 has 1 receive queues: use queues 0 to 0"),
    (FORWARD, {"queues": 2}, "use queues 0 to 0"),
    (FORWARD, {"cpus": [0, 1]}, "more CPUs than queues"),
    (FORWARD, {"cpus": [4096]}, "no such CPU"),
    (FORWARD, {"cpus": ["one"]}, "CPU numbers"),
    (FORWARD, {"need_wakeup": 1}, "true or false"),
    (FORWARD, {"wake_tx": "ioctl"}, "one of sendto poll none"),
    (FORWARD, {"wake_tx": "none"}, "nothing would be sent"),
    (FORWARD, {"wait": "sleep"}, "one of spin poll"),
    (FORWARD, {"policy": "batch"}, "one of other fifo rr"),
    (FORWARD, {"stages": True}, "by role sink"),
    (FORWARD, {"multi_buffer": True}, "is of role sink"),
    (SINK, {"multi_buffer": True, "backend": "af_packet"}, "of AF_XDP sockets"),
    (SINK, {"multi_buffer": True, "stages": True}, "goes without stages"),
    (SINK, {"stages": True, "queues": 2, "cpus": [0, 1]}, "one CPU measures them"),
    (FORWARD, {"samples": "/tmp/x"}, "by roles ping and probe"),
    (FORWARD, {"streams": [frames()]}, "no frames of its own"),
    (FORWARD, {"backend": "af_packet", "queues": 2}, "one socket for all queues"),
    (FORWARD, {"backend": "af_packet", "wake_tx": "poll"}, "use sendto"),
    (FORWARD, {"backend": "af_packet", "tx_skb_budget": 32}, "an AF_XDP option"),
    (FORWARD, {"backend": "af_packet", "packet_version": 1}, "from 2 to 3"),
    (FORWARD, {"hugepages": True, "frames": 4194304}, "8192 pages in /sys/kernel/mm/hugepages/hugepages-2048kB/"),
    (PROBE, {"streams": []}, "1 to 16"),
    (PROBE, {"streams": [frames(pps=100.0, tx_port=1)]}, "no such port"),
    (PROBE, {"streams": [frames(pps=100.0, frame_bytes=1519)]}, "MTU 1500 of b0"),
    (PROBE, {"streams": [frames(pps=100.0, start_ns=2000000000)]}, "must be below duration_s"),
    (PROBE, {"streams": [frames(pps=100.0)] * 2}, "streams[1].id: is there twice"),
    (PROBE, {"role": "ping"}, "only role probe has a schedule"),
    (PROBE, {"role": "ping", "streams": [frames(), frames(id=1)]}, "this role has one"),
    (PROBE, {"samples": "/nowhere/x"}, "cannot write samples"),
    (PROBE, {"sockets": 2}, "one socket per port"),
    (FORWARD, {"nf": {}}, "nf: belongs to role nf"),
    (FORWARD, {"role": "nf"}, "nf: missing"),
    (FORWARD, {"role": "nf", "nf": []}, "must be an object"),
    (FORWARD, {"role": "nf", "nf": {}}, "nf.functions: missing"),
    (NF, {"backend": "af_packet"}, "AF_XDP sockets"),
    (NF, {"shared_umem": False}, "shared_umem"),
    (NF, {"sockets": 2}, "one per queue"),
    (nf(functions=[]), {}, "1 to 5"),
    (nf(functions=["switch"]), {}, "are router checksummer"),
    (nf(functions=[3]), {}, "are router checksummer"),
    (nf(functions=["router", "router"]), {}, "one is there twice"),
    (nf(place="kernel"), {}, "one of xdp af_xdp combined"),
    (nf(colour=1), {}, "nf.colour: unknown key"),
    (nf(xdp_functions=1), {}, "belongs to place combined"),
    (nf(place="combined", xdp_functions=2), {}, "more than there are functions"),
    (nf(stack_port=True), {}, "belongs to place af_xdp"),
    (nf(place="af_xdp", stack_port=True), {"ports": [{"ifname": "b0"}]}, "needs two ports"),
    (nf(functions=["router"]), {}, "next_hops: missing"),
    (nf(next_hops=[]), {}, "1 to 16"),
    (nf(own_address=True), {}, "nf.own_address: needs router as the first function"),
    (nf(next_hops=[{"mac": "02:00"}]), {}, "nf.next_hops[0].mac"),
    (nf(next_hops=[{"mac": "02:00:00:00:00:01", "ip": "10.1"}]), {}, "nf.next_hops[0].ip"),
    (nf(next_hops=[{"mac": "02:00:00:00:00:01", "port": 1}]), {"ports": [{"ifname": "b0"}]}, "port that there is not"),
    (nf(functions=["firewall"], acl_entries=1000001), {}, "from 0 to 1000000"),
    (nf(functions=["firewall"], acl_entries=5, flows=10, drop_percent=100), {}, "raise it"),
    (nf(functions=["firewall"], flows=10, drop_percent=50), {}, "a multiple of 100"),
    (nf(functions=["firewall"], acl=[{"src_ip": "10.0.0.1"}]), {}, "nf.acl[0].dst_ip: missing"),
    (nf(drop_percent=100), {}, "needs function firewall"),
    (route("10.0.0.0", 0), {}, "nf.route_list[0].prefix: must be a prefix"),
    (route("10.0.0.1/8", 0), {}, "bits set behind its length"),
    (route("10.0.0.0/8", 1), {}, "no such entry of next_hops"),
    (nf(service_prefix="10.0.0.0/33"), {}, "nf.service_prefix"),
    (nf(work_iterations=4097), {}, "from 0 to 4096"),
    (nf(work_bytes=1000), {}, "a power of two"),
    (nf(), {"unprivileged": True}, "unprivileged: belongs to roles forward and reflect"),
    (FORWARD, {"unprivileged": True, "policy": "fifo"}, "policy: takes rights"),
    (FORWARD, {"unprivileged": True, "ports": [{"ifname": "b0", "netns": "/proc/self/ns/net"}] * 2}, "start xsk there"),
]  # fmt: skip


def test_bad_options(middle):
    for base, change, words in BAD:
        assert words in refused(middle, "b", copy.deepcopy(base) | change), change
    assert middle.is_clean("b0", "b1")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"role": "sink", "role": "gen"}', "null"])
def test_bad_json(middle, text):
    refused(middle, "b", text)


@pytest.mark.parametrize("argv", [[], ["--what"], ["a", "b"], ["/nowhere/x.json"], ["--check"]])
def test_bad_arguments(argv):
    done = subprocess.run([XSK, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("xsk: ")


def test_check_opens_nothing(middle, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(FORWARD), encoding="ascii")
    assert middle.exec("b", XSK, "--check", path) == ""
    assert middle.is_clean("b0", "b1")


def test_a_port_with_a_program_is_refused(middle):
    with middle.xdpfwd("--if0", "b1", "--hairpin"):
        assert "port busy: b1 carries XDP program" in refused(middle, "b", FORWARD)
    assert middle.is_clean("b0", "b1")


def test_a_queue_that_somebody_holds_is_refused_after_a_while(middle):
    """A generator has no program, so that only the queue is in its way."""
    with xsk(middle, "b", "gen", "b0", streams=[frames()], batch=1, wake_tx="poll"):
        line = refused(middle, "b", {"role": "gen", "ports": [{"ifname": "b0"}], "streams": [frames()]})
    assert "b0 queue 0: another socket has this queue" in line


def test_a_queue_that_is_closed_soon_is_waited_for(middle):
    """AF_XDP gives a queue back some 30 ms after close()."""
    options = {"streams": [frames()], "batch": 1, "duration_s": 0.3}
    with xsk(middle, "b", "gen", "b0", **options) as first, xsk(middle, "b", "gen", "b0", **options) as second:
        first.finish(signal=False)
        assert second.ready["sockets"][0]["bind_retries"] > 0
        assert second.finish(signal=False)["sockets"][0]["tx"] > 0


def test_jumbo_mtu_needs_room_in_a_chunk():
    with net_up(("a0", "b0")) as net:
        for port in ("a0", "b0"):
            sh("ip", "-n", net.ns(port[0]), "link", "set", port, "mtu", "3500")
        sink = {"role": "sink", "ports": [{"ifname": "b0"}]}
        assert "chunk_bytes" in refused(net, "b", sink | {"chunk_bytes": 2048})
        with xsk(net, "b", "sink", "b0") as running:
            running.finish()
