# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The network functions: the same exact answers as XDP program, as AF_XDP application and as both."""

import ipaddress
import random
from collections import Counter

import pytest
from conftest import clean, config, counts, net_up, stream, xdpgen
from nf import (
    CLIENT,
    DST,
    HOP,
    SERVICE,
    SRC,
    Program,
    config as nf_config,
    expected,
    rebuilt,
    running,
    samples,
    tally,
    through,
    with_new_sums,
)
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from test_xsk_frames import Wire
from xsk import is_sound

FUNCTIONS = pytest.mark.parametrize("function", ["macswap", "router", "checksummer", "firewall", "load_balancer"])
PLACES = pytest.mark.parametrize("place", ["xdp", "af_xdp", "combined"])
ETH = Ether(src=SRC, dst=DST)
LAST = bytes(ETH / IP(src=CLIENT, dst=SERVICE) / UDP(sport=10000, dport=20000) / b"the last frame")


def mac_of(net, port):
    return net.exec(port[0], "cat", f"/sys/class/net/{port}/address").strip()


def reported(done, place):
    """Counters of the half that decides; the other half saw nothing, or only handed frames over."""
    return done["nf"]["af_xdp" if place == "af_xdp" else "xdp"]


@FUNCTIONS
def test_xdp_program_on_single_frames(middle, function):
    """BPF_PROG_TEST_RUN: verdict and bytes, also of frames that a network stack would not bring here."""
    own = mac_of(middle, "b1")
    with running(middle, nf_config(function, "xdp")) as app, Program(app.ready["ports"][0]["prog_id"]) as program:
        for sample in samples():
            verdict, frame = expected(function, sample, out_mac=own)
            found = program.run(sample.frame)
            assert found == ("forward" if verdict == "next" else verdict, frame), sample.name
        app.finish()


@FUNCTIONS
@PLACES
def test_frames_through_namespaces(middle, sanitized, function, place):
    """The user-space half is the build that ends at the first memory error or undefined behaviour."""
    own = mac_of(middle, "b1")
    frames = [sample for sample in samples() if sample.name != "tag cut"]  # no stack would show it to us
    answers = [expected(function, sample, out_mac=own) for sample in frames]
    audit = {} if place == "xdp" else {"audit": True}
    with running(middle, nf_config(function, place), program=sanitized, **audit) as app:
        with Wire(middle, "a0") as near, Wire(middle, "c0") as far:
            got = through((near, far), [sample.frame for sample in frames], LAST)
        done = app.finish()
    assert got == [frame for verdict, frame in answers if verdict == "next"]
    # the last frame, and nothing that we did not send
    wanted = tally([verdict for verdict, _ in answers] + ["next"])
    counted = reported(done, place)
    assert {key: counted[key] for key in wanted} == wanted
    assert counted["rx"] == len(frames) + 1
    assert counted["to_socket"] == 0
    assert is_sound(done)


@pytest.mark.parametrize("then", ["drop", "local"])
@PLACES
def test_what_comes_after_the_last_function(middle, then, place):
    with running(middle, nf_config("macswap", place, then=then)) as app:
        result = xdpgen(config([middle.port("a0"), middle.port("c0")], stream(), warmup_s=0))
        done = app.finish()
    assert counts(result["streams"][0])["received"] == 0
    assert reported(done, place)[{"drop": "dropped", "local": "local"}[then]] == 600
    assert reported(done, place)["undelivered"] == (600 if (then, place) == ("local", "af_xdp") else 0)


@pytest.mark.parametrize("hairpin_from", ["xdp", "af_xdp"])
def test_one_port_sends_back(middle, hairpin_from):
    with running(middle, nf_config("macswap", hairpin_from, next_hops=[HOP | {"port": 0}]), "b0") as app:
        result = xdpgen(config([middle.port("a0")], stream(rx_port=0), warmup_s=0))
        app.finish()
    assert counts(result["streams"][0]) == clean(600)


@pytest.mark.parametrize(("place", "in_kernel"), [("xdp", None), ("af_xdp", None), ("combined", 0), ("combined", 1),
                                               ("combined", 2)])  # fmt: skip
def test_firewall_before_load_balancer_wherever_they_run(middle, place, in_kernel):
    """37 of 100 flows are denied; what passes those in the kernel goes on in user space."""
    given = {"flows": 1000, "drop_percent": 37, "acl_entries": 1000, "sessions": 500, "flow_src_ip": "10.0.0.1",
             "flow_dst_ip": "10.0.0.2", "service_prefix": "10.0.0.2/32", "xdp_functions": in_kernel}  # fmt: skip
    with running(middle, nf_config(["firewall", "load_balancer"], place, **given)) as app:
        flows = stream(flows=1000, pps=10000.0)
        result = xdpgen(config([middle.port("a0"), middle.port("c0")], flows, warmup_s=0))
        done = app.finish()
    assert counts(result["streams"][0])["received"] == 1890  # of 3000
    kernel, user = done["nf"]["xdp"], done["nf"]["af_xdp"]
    assert kernel["dropped"] + user["dropped"] == 1110
    assert kernel["forwarded"] + user["forwarded"] == 1890
    assert kernel["sessions_new"] + user["sessions_new"] == 315  # those of the second 500 flows that are not denied
    in_kernel = {"xdp": 2, "af_xdp": 0, "combined": in_kernel}[place]
    assert (kernel["rx"], user["rx"]) == (
        (3000, 0) if in_kernel == 2 else (3000, 1890) if in_kernel == 1 else (0, 3000)
    )
    assert kernel["to_socket"] == (1890 if in_kernel == 1 else 0)


@PLACES
def test_longest_prefix_wins(middle, place):
    rng = random.Random(7)
    hops = [{"mac": f"02:00:00:00:07:{n:02x}", "port": 1} for n in range(16)]
    routes = {}
    for _ in range(400):
        bits = rng.choice([7, 8, 9, 15, 16, 17, 20, 23, 24, 25, 28, 31, 32])
        network = ipaddress.ip_network((rng.choice([0x0A010000, 0xC0A80000]) | rng.getrandbits(16), bits), strict=False)
        routes[network] = rng.randrange(16)
    targets = [network[rng.randrange(min(network.num_addresses, 1 << 20))] for network in routes]
    targets += [ipaddress.ip_address(rng.choice([0x0A010000, 0x0A020000, 0xDD000000]) | rng.getrandbits(16))
                for _ in range(200)]  # fmt: skip
    wanted = []
    for target in targets:
        fitting = [network for network in routes if target in network]
        wanted.append(routes[max(fitting, key=lambda network: network.prefixlen)] if fitting else None)
    assert None in wanted
    given = {
        "next_hops": hops,
        "routes": 5000,
        "route_list": [{"prefix": str(network), "hop": hop} for network, hop in routes.items()],
    }
    frames = [bytes(ETH / IP(src=CLIENT, dst=str(target)) / UDP() / b"route") for target in targets]
    last = bytes(ETH / IP(src=CLIENT, dst=str(targets[wanted.index(0)])) / UDP() / b"the last frame")
    with running(middle, nf_config("router", place, **given)) as app:
        with Wire(middle, "a0") as near, Wire(middle, "c0") as far:
            got = through((near, far), frames, last)
        app.finish()
    assert [frame[5] for frame in got] == [hop for hop in wanted if hop is not None]


def test_servers_and_replies(middle):
    """A flow keeps its server, in every form the same; replies get the service's address back."""
    hops = [{"mac": f"02:00:00:00:08:{n:02x}", "ip": f"10.8.0.{n + 1}", "port": 1} for n in range(3)]
    flows = [ETH / IP(src=f"198.18.0.{n}", dst=SERVICE) / layer for n in range(1, 60) for layer in
             (UDP(sport=1000 + n, dport=20000) / Raw(b"q"), TCP(sport=2000 + n, dport=20000) / Raw(b"q"))]  # fmt: skip
    found = {}
    for place in ("xdp", "af_xdp"):
        with running(middle, nf_config("load_balancer", place, next_hops=hops, sessions=3)) as app:
            with Wire(middle, "a0") as near, Wire(middle, "c0") as far:
                first = through((near, far), [bytes(flow) for flow in flows], LAST)
                assert through((near, far), [bytes(flow) for flow in flows], LAST) == first
                back = [self_reply(frame) for frame in first]
                answers = through((far, near), back, self_reply(translate_last(LAST, first, hops)))
            done = app.finish()
        servers = [Ether(frame)[IP].dst for frame in first]
        assert set(servers) == {hop["ip"] for hop in hops}
        assert [frame[5] for frame in first] == [int(server.split(".")[3]) - 1 for server in servers]
        for answer, frame, flow in zip(answers, first, flows, strict=True):
            assert (Ether(answer)[IP].src, Ether(answer)[IP].dst) == (SERVICE, flow[IP].src)
            for each in (answer, frame):
                assert each == rebuilt(each, with_new_sums)
        assert reported(done, place)["sessions_new"] == len(flows)
        found[place] = first
    assert found["xdp"] == found["af_xdp"]


def translate_last(last, frames, hops):
    """The marker as the load balancer sent it: its session was there at the start."""
    del frames
    packet = Ether(last)
    key = (ipaddress.ip_address(CLIENT), ipaddress.ip_address(SERVICE), 10000, 20000)
    packet[IP].dst = hops[server_of(*key, len(hops))]["ip"]
    return bytes(packet)


def server_of(src, dst, sport, dport, servers):
    """The rule of nf_packet.h on a little-endian machine."""

    def swapped(value, size):
        return int.from_bytes(int(value).to_bytes(size, "big"), "little")

    value = swapped(src, 4) ^ swapped(dst, 4) ^ (swapped(sport, 2) << 16) ^ swapped(dport, 2)
    value = ((value ^ value >> 15) * 0x2C1B3C6D) & 0xFFFFFFFF
    return (value ^ value >> 12) % servers


def self_reply(frame):
    packet = Ether(frame)
    layer = UDP if packet.haslayer(UDP) else TCP
    packet.src, packet.dst = packet.dst, packet.src
    packet[IP].src, packet[IP].dst = packet[IP].dst, packet[IP].src
    packet[layer].sport, packet[layer].dport = packet[layer].dport, packet[layer].sport
    with_new_sums(packet)
    return bytes(packet)


@PLACES
def test_a_full_table_refuses(middle, place):
    """Room for 1,024 sessions beyond those at the start."""
    given = {"sessions": 0, "flow_dst_ip": "10.0.0.2", "service_prefix": "10.0.0.0/24"}
    with running(middle, nf_config("load_balancer", place, **given)) as app:
        flows = stream(flows=2000, pps=5000.0)  # slow: a ring holds 0.4 s of it while the program waits for its CPU
        result = xdpgen(config([middle.port("a0"), middle.port("c0")], flows, warmup_s=0, duration_s=1.2))
        counted = reported(app.finish(), place)
    assert counts(result["streams"][0])["received"] == 3 * 1024
    assert counted["sessions_new"] == 1024
    assert counted["sessions_refused"] == counted["dropped"] == 3 * 976


@PLACES
def test_a_million_entries(middle, place):
    given = {"flows": 10000, "drop_percent": 100, "acl_entries": 1000000, "flow_src_ip": "10.0.0.1",
             "flow_dst_ip": "10.0.0.2"}  # fmt: skip
    with running(middle, nf_config("firewall", place, **given)) as app:
        half = "af_xdp" if place == "af_xdp" else "xdp"
        assert app.ready["nf"][half]["acl"] == 1000000
        streams = [stream(flows=10000, pps=10000.0), stream(id=1, udp_dst=5, pps=1000.0)]
        result = xdpgen(config([middle.port("a0"), middle.port("c0")], *streams, warmup_s=0))
        app.finish()
    assert [counts(got)["received"] for got in result["streams"]] == [0, 300]


def test_work_takes_time_and_changes_nothing(middle):
    given = {"work_iterations": 4096, "work_lookups": 1024, "work_bytes": 1 << 22}
    rates = {}
    for place in ("xdp", "af_xdp"):
        for work in ({}, given):
            with running(middle, nf_config("macswap", place, **work)) as app:
                ports = [middle.port("a0"), middle.port("c0")]
                result = xdpgen(config(ports, stream(pps=None, kind="load"), warmup_s=0))
                app.finish()
            rates[place, bool(work)] = counts(result["streams"][0])["received"]
        # 4,096 iterations and 1,024 reads take more than 10 us
        assert 0 < rates[place, True] < 0.3 * 100_000
        assert rates[place, False] > 2 * rates[place, True]


def test_the_way_to_the_stack_and_back():
    """AF_XDP: local frames go out of the second port, and all that comes in there out of the first."""
    with net_up(("a0", "b0"), ("b2", "b3")) as net:
        given = nf_config("router", "af_xdp", then="local", stack_port=True, next_hops=[HOP | {"port": 0}])
        with running(net, given, "b0", "b2", audit=True) as app:
            with Wire(net, "a0") as outside, Wire(net, "b3") as stack:
                local = [sample.frame for sample in samples() if sample.name in ("udp", "arp", "ipv6", "icmp")]
                got = through((outside, stack), local, LAST)
                assert [frame for frame in got if frame in local] == [local[2], local[3]]  # no IPv4: as they came
                assert len(got) == 4
                back = list(reversed(local))
                assert through((stack, outside), back, LAST) == back
            done = app.finish()
    assert Counter({key: done["nf"]["af_xdp"][key] for key in ("local", "undelivered", "forwarded")}) == {
        "local": 5, "undelivered": 0, "forwarded": 5}  # fmt: skip
    assert is_sound(done)


@pytest.mark.parametrize("place", ["xdp", "af_xdp", "combined"])
def test_several_queues_have_a_thread_each(place):
    """veth takes the queue of the sending CPU: one direction comes in at each."""
    with net_up(("a0", "b0"), ("b1", "c0"), queues=2) as net:
        given = {"flows": 1000, "drop_percent": 20, "xdp_functions": 1 if place == "combined" else None}
        given |= {"flow_src_ip": "10.0.0.1", "flow_dst_ip": "10.0.0.2"}
        nf = nf_config(["firewall", "macswap"], place, **given)
        with running(net, nf, queues=2, cpus=[0, 1], audit=True) as app:
            assert len(app.ready["threads"]) == (0 if place == "xdp" else 2)
            ports = [net.port("a0", rx="tc", tx_cpu=0), net.port("c0", rx="tc", tx_cpu=1)]
            streams = [stream(pps=5000.0, flows=1000), stream(id=1, tx_port=1, rx_port=0, pps=5000.0, flows=1000)]
            result = xdpgen(config(ports, *streams, warmup_s=0, duration_s=0.4))
            done = app.finish()
        assert [counts(got)["received"] for got in result["streams"]] == [1600, 1600]
        dropping = reported(done, "af_xdp" if place == "af_xdp" else "xdp")
        assert dropping["dropped"] == 800
        assert is_sound(done)


def test_what_is_in_use_is_reported(middle):
    asked = nf_config(["firewall", "router"], "combined", xdp_functions=1, acl_entries=77, routes=12, work_lookups=3)
    with running(middle, asked, busy_poll_us=20) as app:
        ready = app.ready
        app.finish()
    assert ready["options"]["nf"] | asked == ready["options"]["nf"]
    assert ready["nf"] == {"xdp": {"acl": 77, "sessions": 0, "routes": 0}, "af_xdp": {"acl": 0, "sessions": 0}}
    assert {port["xdp_mode"] for port in ready["ports"]} == {"native"}
    assert len(ready["sockets"]) == 2
    assert middle.is_clean("b0", "b1")
