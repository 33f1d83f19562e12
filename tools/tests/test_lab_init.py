# SPDX-License-Identifier: Apache-2.0
"""`xdplab lab init` as far as it needs no machine: what it is given, CPUs, cables in words, the file."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from lab.command import Done

from xdplab.cli.lab.look import (
    Card,
    End,
    Proposal,
    Senders,
    Topology,
    cards,
    none_offered,
    offered,
    propose,
    roles_of,
    senders,
    topology,
)
from xdplab.cli.lab.wanted import Part, lab_hosts
from xdplab.cli.lab.written import testbed_text as text_of_testbed, trex_config
from xdplab.hosts import LocalHost
from xdplab.model import InputError, TestbedSpec

A0, A1, B0, B1, C0, C1 = (
    End(part, ifname)  # type: ignore[arg-type]
    for part, ifname in (
        ("tester", "ens1f0"),
        ("tester", "ens1f1"),
        ("forwarder", "ens2f0"),
        ("forwarder", "ens2f1"),
        ("far", "ens3f0"),
        ("far", "ens3f1"),
    )
)


def joined(*pairs: tuple[End, End], alone: tuple[End, ...] = ()) -> dict[End, set[End]]:
    """What is heard where these are the cables."""
    return {end: {other} for pair in pairs for end, other in (pair, pair[::-1])} | {end: set() for end in alone}


def test_cables_say_the_roles_of_three_hosts_and_the_direct_link() -> None:
    """Which port of the forwarder the tester is cabled to is found, not asked."""
    roles = roles_of(joined((A0, B1), (B0, C1), (A1, C0)), [])
    assert roles == {"a0": A0, "b0": B1, "b1": B0, "c0": C1, "d0": A1, "d1": C0}


def test_a_tester_may_have_both_ends() -> None:
    assert roles_of(joined((A0, B0), (A1, B1)), []) == {"a0": A0, "b0": B0, "b1": B1, "c0": A1}


def test_one_interface_of_each_is_a_testbed_for_hairpin() -> None:
    assert roles_of(joined((A0, B0)), []) == {"a0": A0, "b0": B0}


@pytest.mark.parametrize(
    ("heard", "without_link", "words"),
    [
        (joined((A0, C0), (B0, B1)), [],
         ["a cable between tester and forwarder is missing", "far ens3f0 faces tester ens1f0",
          "forwarder ens2f0 faces forwarder ens2f1"]),
        (joined((A0, B0), alone=(B1, C0)), [],
         ["a cable between far and forwarder is missing",
          "far ens3f0 sent test frames, and none arrived at an offered interface"]),
        (joined((A0, B0)), [B1, C0], ["far ens3f0 has no link", "forwarder ens2f1 has no link"]),
        (joined((A0, B0), alone=(B1, A1)), [], ["a second cable between tester and forwarder is missing"]),
        ({A0: {B0, B1}, B0: {A0, B1}, B1: {A0, B0}}, [], ["tester ens1f0 reaches forwarder ens2f0 and forwarder ens2f1",
                                                         "a switch or bridge"]),
        ({A0: {B0}, B0: set()}, [], ["forwarder ens2f0 hears tester ens1f0, and not the other way round"]),
    ],
    ids=["crossed", "a cable is missing", "no link", "no second cable", "a switch", "one way"],
)  # fmt: skip
def test_other_cables_are_reported_in_one_line(
    heard: dict[End, set[End]], without_link: list[End], words: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        roles_of(heard, without_link)
    text = str(caught.value)
    assert [word for word in words if word not in text] == []
    assert "\n" not in text


#: Two nodes of four cores, two threads each: 0-3 and 8-11 on node 0, 4-7 and 12-15 on node 1.
TWO_NODES = Topology(
    tuple(range(16)),
    {cpu: (cpu % 8, cpu % 8 + 8) for cpu in range(16)},
    {0: (0, 1, 2, 3, 8, 9, 10, 11), 1: (4, 5, 6, 7, 12, 13, 14, 15)},
)
ONE_NODE = Topology((0, 1, 2, 3), {cpu: (cpu,) for cpu in range(4)}, {0: (0, 1, 2, 3)})


@pytest.mark.parametrize(
    ("there", "node", "cpus", "why"),
    [
        (TWO_NODES, 1, (4, 5, 6, 7), "on NUMA node 1 of the card, one thread of each core, not core 0"),
        (TWO_NODES, 0, (1, 2, 3), "on NUMA node 0 of the card"),
        (TWO_NODES, None, (1, 2, 3, 4), "the card is on no NUMA node"),
        (ONE_NODE, 0, (1, 2, 3), "one NUMA node, one thread of each core, not core 0"),
        (ONE_NODE, None, (1, 2, 3), "one NUMA node"),
        (TWO_NODES._replace(isolated=(6, 7)), 1, (6, 7, 4, 5), "on NUMA node 1 of the card"),
        (TWO_NODES._replace(usable=(0, 1, 2)), 1, (1, 2), "none is free on NUMA node 1 of the card"),
        (Topology((0, 1), {0: (0, 1), 1: (0, 1)}, {0: (0, 1)}), 0, (1, 0), "too few cores"),
    ],
)
def test_cpus_are_those_of_the_card_without_core_0_and_second_threads(
    there: Topology, node: int | None, cpus: tuple[int, ...], why: str
) -> None:
    found = propose(there, node, 4)
    assert found.cpus == cpus
    assert why in found.why


def test_isolated_cpus_are_said() -> None:
    assert propose(TWO_NODES._replace(isolated=(6, 7)), 1, 2) == Proposal(
        (6, 7), "on NUMA node 1 of the card, one thread of each core, not core 0, isolated from other programs"
    )


@pytest.mark.parametrize(
    ("speed_mbps", "measured_pps", "cpus", "count", "why"),
    [
        (None, None, 16, 1, "CPUs that send for each of the tester's ports"),
        (1_000, None, 16, 1, "1 Gbit/s are 1.49 Mpps of 64 bytes; 4 Mpps a CPU, assumed"),
        (10_000, None, 16, 4, "10 Gbit/s are 14.9 Mpps of 64 bytes; 4 Mpps a CPU, assumed"),
        (10_000, 8e6, 16, 2, "10 Gbit/s are 14.9 Mpps of 64 bytes; 8 Mpps a CPU, as measured"),
        (25_000, None, 16, 8, "25 Gbit/s are 37.2 Mpps of 64 bytes; 4 Mpps a CPU, assumed: 10 would fill it"),
        (10_000, None, 7, 2, "10 Gbit/s are 14.9 Mpps of 64 bytes; 4 Mpps a CPU, assumed: 4 would fill it"),
        (100_000, None, 0, 1, "100 Gbit/s are 149 Mpps of 64 bytes; 4 Mpps a CPU, assumed: 38 would fill it"),
    ],
)
def test_as_many_cpus_send_as_fill_the_link_and_as_many_receive(
    speed_mbps: int | None, measured_pps: float | None, cpus: int, count: int, why: str
) -> None:
    assert senders(speed_mbps, measured_pps, cpus) == Senders(count, why)


def test_this_machine_tells_its_cpus() -> None:
    host = LocalHost()
    found = topology(host)
    assert found.usable == host.cpus
    assert all(cpu in found.siblings[cpu] for cpu in host.cpus)
    on_nodes = {cpu for cpus in found.nodes.values() for cpu in cpus}
    assert not found.nodes or set(host.cpus) <= on_nodes
    assert set(propose(found, None, 1).cpus) <= set(host.cpus)


def given(**changes: Any) -> Any:
    hosts = {"tester": "lab@192.0.2.10", "forwarder": "root@192.0.2.20:2222", "far": None}
    offers = changes.pop("offers", ["tester=ens1f0,ens1f1", "forwarder=ens2f0,ens2f1"])
    return lab_hosts("lab", {**hosts, **changes}, {"key": "~/.ssh/lab"}, offers, None)


def test_hosts_of_the_command_line_become_those_of_the_file() -> None:
    lab = given()
    assert (lab.tester.user, lab.tester.sudo, lab.tester.key, lab.tester.offer) == (
        "lab", True, "~/.ssh/lab", ("ens1f0", "ens1f1"),
    )  # fmt: skip
    assert (lab.forwarder.user, lab.forwarder.sudo, lab.forwarder.port) == ("root", False, 2222)
    assert list(lab.hosts) == ["tester", "forwarder"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"forwarder": None, "offers": []}, "no forwarder: give --forwarder USER@ADDRESS, or a file with --from"),
        ({"tester": "lab@a b"}, "tester.address"),
        ({"tester": "lab@x:y:z"}, "--tester 'lab@x:y:z': USER@ADDRESS or USER@ADDRESS:PORT"),
        ({"tester": "root@192.0.2.20:2222"}, "the same address twice"),
        ({"offers": ["testr=ens1f0"]}, "--offer 'testr=ens1f0'"),
        ({"offers": ["far=ens1f0"]}, "no host far is given"),
        ({"offers": ["tester=-x"]}, "tester.offer"),
    ],
)
def test_bad_hosts_are_one_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        given(**changes)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "no tester: give --tester USER@ADDRESS"),
        (("--tester", "root@192.0.2.1", "--from", "{file}"), "give the hosts in --from FILE or as options, not both"),
        (("--from", "{file}"), "tester: `192.0.2.1` is not"),
        (("--from", "/nowhere"), "/nowhere: No such file"),
        (("--name", "UP", "--tester", "root@192.0.2.1", "--forwarder", "root@192.0.2.2"), "name"),
        (
            ("--trex", "/t}", "--tester", "a@192.0.2.1", "--forwarder", "a@192.0.2.2"),
            "lab init: --trex: folder",
        ),
        (
            ("--trex", "/t", "--tester", "a@192.0.2.1", "--forwarder", "a@192.0.2.2", "--far", "a@192.0.2.3"),
            "--trex: TRex sends and receives on one machine; leave far out",
        ),
    ],
)
def test_bad_input_ends_the_command(
    cli: Callable[..., Done], tmp_path: Path, args: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    file = tmp_path / "hosts.yaml"
    file.write_text("tester: 192.0.2.1\nforwarder: {address: 192.0.2.2}\n", encoding="utf-8")
    done = cli("lab", "init", tmp_path / "lab.yaml", *(word.replace("{file}", str(file)) for word in args))
    done.refused(words.partition("`")[0])
    assert not (tmp_path / "lab.yaml").exists()


class Told:
    """A host as commands and files tell of it."""

    name = "dut"
    reached_by = ""

    def __init__(self, *links: dict[str, Any], default: str = "") -> None:
        self.links, self.default = links, default
        self.files = {
            "/sys/class/net/ens2f0/device/numa_node": "1",
            "/sys/class/net/ens2f0/speed": "100000",
            "/sys/class/net/ens2f1/device/numa_node": "-1",
            "/sys/class/net/ens2f1/speed": "-1",
        }

    def run(self, argv: list[str], **_: object) -> Any:
        if argv[0] == "ethtool":
            return SimpleNamespace(stdout="driver: ice\nfirmware-version: 4.40\nbus-info: 0000:18:00.0\n")
        routes = [{"dst": "default", "dev": self.default}] if self.default and "-4" in argv else []
        return SimpleNamespace(stdout=json.dumps(routes if "route" in argv else self.links))

    def xdp(self, ifname: str) -> None:
        return None

    def exists(self, path: str) -> bool:
        return path in self.files

    def read(self, path: str) -> str:
        return self.files.get(path, "")


def link(ifname: str, **more: Any) -> dict[str, Any]:
    return {"ifname": ifname, "link_type": "ether", "address": "02:00:00:00:00:01", "flags": ["UP"], **more}


def test_cards_are_reported_with_what_they_are_and_who_needs_them() -> None:
    address = {"local": "192.0.2.20", "prefixlen": 24, "scope": "global"}
    host: Any = Told(
        link("ens2f0"),
        link("ens2f1", flags=[], addr_info=[{"local": "fe80::1", "prefixlen": 64, "scope": "link"}]),
        link("eno1", addr_info=[address]),
        link("eno2"),
        link("eno3", master="br0"),
        link("br0", linkinfo={"info_kind": "bridge"}),
        {"ifname": "lo", "link_type": "loopback", "flags": ["UP"]},
        default="eno2",
    )
    found = cards(host)
    assert [card.text for card in found.values()] == [
        "ens2f0 (ice, 100 Gbit/s, NUMA node 1)",
        "ens2f1 (ice)",
        "eno1 (ice, has address 192.0.2.20/24)",
        "eno2 (ice, carries the default route)",
        "eno3 (ice, belongs to br0)",
    ]
    assert [card.up for card in found.values()] == [True, False, True, True, True]
    assert found["ens2f0"].pci == "0000:18:00.0"
    for name, why in (("eno1", "has address"), ("eno2", "carries the default route"), ("eno3", "belongs to br0")):
        with pytest.raises(InputError, match=f"forwarder: {name} {why}.* no test frame is sent from it.*--force"):
            offered("forwarder", found, (name,), force=False)
        assert offered("forwarder", found, (name,), force=True) == [found[name]]
    with pytest.raises(InputError, match=r"no interface 'ens2f9'.*ens2f0 \(ice"):
        offered("forwarder", found, ("ens2f9",), force=False)
    assert "free: ens2f0 (ice, 100 Gbit/s, NUMA node 1), ens2f1 (ice))" in str(none_offered("forwarder", found))


def test_a_bare_debian_has_no_ethtool_and_its_cards_are_known_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    host: Any = Told(link("ens2f0"), link("ens2f1"))
    host.files["/sys/class/net/ens2f0/device/uevent"] = "DRIVER=igb\nPCI_CLASS=20000\nPCI_SLOT_NAME=0000:18:00.0"
    host.files["/sys/class/net/ens2f1/device/uevent"] = "DRIVER=virtio_net\nMODALIAS=virtio:d00000001v00001AF4"
    host.files["/sys/class/net/ens2f1/device/../uevent"] = "DRIVER=virtio-pci\nPCI_SLOT_NAME=0000:03:00.0"
    there = host.run

    def run(argv: list[str], **more: object) -> Any:
        if argv[0] == "ethtool":
            raise InputError("b: program 'ethtool' not found there; install it on that host")
        return there(argv, **more)

    monkeypatch.setattr(host, "run", run)
    found = [(card.driver, card.pci, card.firmware) for card in cards(host).values()]
    assert found == [("igb", "0000:18:00.0", ""), ("virtio_net", "0000:03:00.0", "")]


def test_the_file_says_what_was_found_and_is_a_testbed() -> None:
    card = Card("ens1f0", "ice", "4.40", "0000:18:00.0", "02:00:00:00:00:01", 1, 100_000, up=True, needed="")
    ends = (A0, A1, B0, B1)
    found = {end: card._replace(ifname=end.ifname, mac=f"02:00:00:00:00:0{n}") for n, end in enumerate(ends)}
    found[A1] = found[A1]._replace(speed_mbps=None)
    cpus = {"tester": propose(TWO_NODES, 1, 2), "forwarder": None}
    roles = roles_of(joined((A0, B0), (A1, B1)), [])
    text = text_of_testbed(given(), roles, found, cpus, Senders(2, "for the link"), None)  # type: ignore[arg-type]
    spec = TestbedSpec.model_validate(yaml.safe_load(text))
    assert spec.senders == 2
    assert spec.ports["b0"].model_dump() == {
        "host": "forwarder", "ifname": "ens2f0", "mac": "02:00:00:00:00:02", "driver": "ice", "pci": "0000:18:00.0",
        "speed_mbps": 100_000, "trex": None,
    }  # fmt: skip
    assert spec.hosts["tester"].cpus == (4, 5)
    for words in (
        "senders: 2                       # for the link",
        "#     tester ens1f0 (a0) ---- (b0) forwarder ens2f0",
        "cpus: [4, 5]  # on NUMA node 1 of the card, one thread of each core, not core 0",
        "# cpus: left to xdplab, because another host is the same machine",
        "# firmware 4.40, NUMA node 1, its speed is unknown: give speed_mbps",
        "# d0, d1: two more ports of the tester",
    ):
        assert words in text


def test_a_trex_gets_the_cards_of_the_tester_by_their_address_on_the_bus() -> None:
    card = Card("ens1f0", "ice", "", "0000:18:00.0", "02:00:00:00:00:00", 1, 100_000, up=True, needed="")
    d0, d1 = End("tester", "ens1f2"), End("tester", "ens1f3")
    found = {
        end: card._replace(ifname=end.ifname, pci=f"0000:18:00.{n}", mac=f"02:00:00:00:00:0{n}")
        for n, end in enumerate((A0, A1, B0, B1, d0, d1))
    }
    roles = roles_of(joined((A0, B0), (A1, B1), (d0, d1)), [])
    cpus: dict[Part, Proposal | None] = {"tester": None, "forwarder": None}
    text = text_of_testbed(given(), roles, found, cpus, senders(None, None, 0), "/opt/trex/v3.08")
    spec = TestbedSpec.model_validate(yaml.safe_load(text))
    assert spec.trex is not None
    assert (spec.trex.folder, spec.trex.config) == ("/opt/trex/v3.08", "/etc/xdplab_trex_cfg.yaml")
    assert {role: port.trex for role, port in spec.ports.items()} == {
        "a0": 0, "c0": 1, "d0": 2, "d1": 3, "b0": None, "b1": None,
    }  # fmt: skip
    assert "# ens1f1 of the kernel, NUMA node 1" in text
    (config,) = yaml.safe_load(trex_config(roles, found, (2, 3, 4, 5, 6)))
    assert config["interfaces"] == ["0000:18:00.0", "0000:18:00.1", "0000:18:00.4", "0000:18:00.5"]
    assert [(each["src_mac"][-1], each["dest_mac"][-1]) for each in config["port_info"]] == [
        ("0", "1"), ("1", "0"), ("4", "5"), ("5", "4"),
    ]  # fmt: skip
    assert config["platform"] == {
        "master_thread_id": 2,
        "latency_thread_id": 3,
        "dual_if": [{"socket": 1, "threads": [4, 6]}, {"socket": 1, "threads": [5]}],
    }
    with pytest.raises(InputError, match="takes 4 CPUs for 4 ports, and the tester has 3 to give"):
        trex_config(roles, found, (2, 3, 4))
    with pytest.raises(InputError, match="TRex uses its ports in pairs, and ens1f0 has no partner"):
        trex_config(roles_of(joined((A0, B0)), []), found, (2, 3, 4))
    found[A1] = found[A1]._replace(pci="")
    with pytest.raises(InputError, match="tester ens1f1 is not a PCI device"):
        trex_config(roles, found, (2, 3, 4, 5))
