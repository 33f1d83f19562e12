# SPDX-License-Identifier: Apache-2.0
"""Cards for DPDK's own driver, on a machine that is played: who gets them, who is refused, and how each comes back.

The lane does it for real, on emulated cards behind an IOMMU (`ci/nic/guest/test_5_own_driver.py`). Machines without an
IOMMU are only here: Debian's kernels are built without vfio's mode for them.
"""

from collections.abc import Callable
from pathlib import Path as FilePath
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lab.command import Done
from lab.pci import BUS, Card, PciHost

from xdplab.forwarders import Dut, make_forwarder, plain_name
from xdplab.forwarders.base import mode_name
from xdplab.forwarders.dpdk import VdevOptions
from xdplab.hosts import Host
from xdplab.knobs import KnobContext, make_knob
from xdplab.model import CpuLayout, ForwarderSpec, InputError, Path, TrafficSpec, Unsupported, XdplabError, plugins
from xdplab.runner import refusals
from xdplab.runner.settings import OF_DRIVER, Settings
from xdplab.testbed import Port, TestbedLock, cards

A0, A1 = "0000:02:00.0", "0000:03:00.0"
LAYOUT = CpuLayout(tester_tx=0, forwarder=1)


def two(**given: Any) -> PciHost:
    return PciHost(Card(A0, "p0"), Card(A1, "p1"), **given)


def ports(host: PciHost) -> tuple[Port, ...]:
    there = cast(Host, host)
    return tuple(Port(f"b{n}", there, f"p{n}", mac="", mtu=1500, lasting=True) for n in (0, 1))


def refused(host: PciHost) -> str | None:
    return cards.why_not_taken(cast(Host, host), ports(host))


def in_use(card: Card) -> None:
    """As a run has it: up, promiscuous, without offloads, with a MAC of somebody's."""
    card.mtu, card.queue_len, card.mac, card.disable_ipv6 = 1400, "777", "02:00:00:00:00:01", "1"
    card.flags |= {"UP", "PROMISC"}
    card.features.update(gro="off", tso="off")


def seen(host: PciHost) -> list[dict[str, Any]]:
    return [{key: set(value) if key == "flags" else value for key, value in vars(card).items() if key != "features"}
            | card.features for card in host.cards.values()]  # fmt: skip


def test_cards_are_taken_and_come_back_as_they_were() -> None:
    host, lock = two(), TestbedLock("t")
    for card in host.cards.values():
        in_use(card)
    before = seen(host)
    taken = cards.take(lock, ports(host))
    assert [(port.pci, port.ifname, port.in_kernel) for port in taken] == [(A0, "p0", False), (A1, "p1", False)]
    assert {card.driver for card in host.cards.values()} == {"vfio-pci"}
    assert lock.changed
    done = cards.give_back(lock, cast(Host, host))
    assert done == ["B: p0 back to driver igb", "B: p1 back to driver igb"]
    assert seen(host) == before
    assert not lock.changed
    assert cards.give_back(lock, cast(Host, host)) == []


def test_a_run_that_was_killed_at_any_step_leaves_what_can_be_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state file is written before anything is done; half a pair is given back as a whole one."""
    steps = range(8)
    for step in steps:
        host, lock = two(), TestbedLock(f"t{step}")
        for card in host.cards.values():
            in_use(card)
        before, run, left = seen(host), host.run, [step]

        def dying(argv: Any, run: Any = run, left: list[int] = left, **given: Any) -> Any:
            if argv[0] == "tee":
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
            return run(argv, **given)

        monkeypatch.setattr(host, "run", dying)
        try:
            cards.take(lock, ports(host))
        except KeyboardInterrupt:
            assert lock.changed
        monkeypatch.setattr(host, "run", run)
        cards.give_back(lock, cast(Host, host))
        assert seen(host) == before


def _to_a_machine(host: PciHost) -> None:
    host.users = [71]


def _to_another_driver(host: PciHost) -> None:
    host.cards[A0].driver = "igb_uio"


def _to_an_address(host: PciHost) -> None:
    card = host.cards[A0]
    card.driver, card.ifname = "igb", "eth7"
    card.addresses.append({"local": "192.0.2.7", "prefixlen": 24, "scope": "global"})


@pytest.mark.parametrize(
    ("given", "who"),
    [
        (_to_a_machine, f"B: b0: card {A0}: process 71 has it through vfio-pci by now"),
        (_to_another_driver, f"B: b0: card {A0}: driver igb_uio has it by now"),
        (_to_an_address, f"B: b0: card {A0}: eth7 has address 192.0.2.7/24 by now"),
    ],
)
def test_after_a_killed_run_a_card_that_somebody_has_is_not_taken_from_him(
    given: Callable[[PciHost], None], who: str
) -> None:
    host, lock = two(), TestbedLock("t")
    cards.take(lock, ports(host))
    given(host)
    before = seen(host)[0]
    force = "" if host.users else "`xdplab restore --force` takes it all the same, "
    with pytest.raises(InputError, match=f"{who}; end that, {force}or `xdplab restore --forget b0` leaves it so"):
        cards.give_back(lock, cast(Host, host), ask=True)
    assert seen(host)[0] == before
    assert "b0" in lock.state()["cards"]
    if host.users:  # whom the kernel would wait for
        with pytest.raises(
            XdplabError, match=r"process 71 has it through vfio-pci; end that; `xdplab restore` tries again"
        ):
            cards.give_back(lock, cast(Host, host))
        host.users = []
    cards.give_back(lock, cast(Host, host))
    assert {card.driver for card in host.cards.values()} == {"igb"}
    assert not lock.changed


def test_after_a_killed_run_a_card_that_nobody_has_comes_back() -> None:
    host, lock = two(), TestbedLock("t")
    before = seen(host)
    cards.take(lock, ports(host))
    host.cards[A0].driver, host.cards[A0].ifname = "igb", "eth7"  # somebody's, or a restore that was killed
    cards.give_back(lock, cast(Host, host), ask=True)
    assert seen(host) == before


def test_a_card_that_vfio_does_not_take_is_unsupported_and_given_back() -> None:
    host, lock = two(), TestbedLock("t")
    host.broken = "vfio-pci"
    before = seen(host)
    with pytest.raises(Unsupported, match=f"B: {A0}: vfio-pci does not take it, it has no driver"):
        cards.take(lock, ports(host))
    cards.give_back(lock, cast(Host, host))
    assert seen(host) == before


def test_what_cannot_be_given_back_is_not_forgotten_and_not_in_the_way_of_the_next() -> None:
    host, lock = two(), TestbedLock("t")
    cards.take(lock, ports(host))
    host.cards[A0].own_driver = host.broken = "gone"
    with pytest.raises(XdplabError, match=rf"{A0}: igb does not take it.*`xdplab restore` tries again"):
        cards.give_back(lock, cast(Host, host))
    assert list(lock.state()["cards"]) == ["b0"]
    assert (host.cards[A1].driver, host.cards[A1].ifname) == ("igb", "p1")
    host.cards[A0].own_driver = "igb"
    cards.give_back(lock, cast(Host, host))
    assert not lock.changed


def test_an_interface_with_an_address_is_not_taken() -> None:
    host = two()
    host.cards[A1].addresses = [{"local": "192.0.2.7", "prefixlen": 24, "scope": "global"}]
    with pytest.raises(InputError, match=r"p1 has address 192.0.2.7/24: it is in use"):
        cards.take(TestbedLock("t"), ports(host))
    assert {card.driver for card in host.cards.values()} == {"igb"}


def virtual(host: PciHost) -> None:
    host.cards[A0].ifname = "another"


def mellanox(host: PciHost) -> None:
    host.cards[A0].driver = host.cards[A0].own_driver = "mlx5_core"


def shared(**given: Any) -> PciHost:
    """A machine with two mlx5 cards, for which the kernel has RDMA."""
    host = PciHost(*(Card(address, name, "mlx5_core") for address, name in ((A0, "p0"), (A1, "p1"))), **given)
    host.files.update({f"{BUS}/devices/{address}/infiniband_verbs": "" for address in (A0, A1)})
    return host


def test_cards_that_the_kernels_driver_shares_stay_with_it_and_what_dpdk_sets_is_put_back() -> None:
    """Neither vfio nor an IOMMU is needed."""
    host, lock = shared(iommu=False, vfio=False), TestbedLock("t")
    for card in host.cards.values():
        in_use(card)
    before = seen(host)
    options = VdevOptions(port="pmd")
    assert options.unsupported(dut(host)) is None
    there = Dut(cast(Host, host), cards.take(lock, ports(host)), Path.THROUGH, LAYOUT, FilePath("/x"))
    assert options.buses(there.ports) == ["-a", A0, "-a", A1]
    assert options.cards_in_use(there)["cards"] == {"b0": "mlx5_core", "b1": "mlx5_core"}
    assert options.not_taken(there) is None
    assert seen(host) == before
    host.cards[A0].mtu = 9000
    host.cards[A0].flags.discard("PROMISC")
    assert lock.changed
    cards.give_back(lock, cast(Host, host))
    assert seen(host) == before
    assert not any(call[0] == "tee" for call in host.calls)
    assert not lock.changed


def group(host: PciHost) -> None:
    host.beside = {"0000:02:00.1": "igb", "0000:00:1c.0": "pcieport", "0000:02:00.2": "vfio-pci"}


def unsafe(value: str) -> Callable[[PciHost], None]:
    def allow(host: PciHost) -> None:
        host.files[cards.NO_IOMMU] = value

    return allow


@pytest.mark.parametrize(
    ("given", "change", "words"),
    [
        ({}, virtual, "p0 (veth) is no PCI device"),
        ({}, mellanox, "has no device for it; `modprobe -a mlx5_ib ib_uverbs` loads what makes one"),
        ({"vfio": False}, None, "the kernel's module vfio-pci is not loaded, `modprobe vfio-pci` loads it"),
        ({}, group, "p0: its IOMMU group also holds 0000:02:00.1 (igb)"),
        ({"iommu": False}, None, "p0: no IOMMU confines its memory access, and this kernel has no mode without one"),
        ({"iommu": False}, unsafe("N"), "which xdplab never does"),
    ],
)
def test_ports_that_its_driver_cannot_have(
    given: dict[str, bool], change: Callable[[PciHost], None] | None, words: str
) -> None:
    host = two(**given)
    if change:
        change(host)
    reason = refused(host)
    assert reason is not None
    assert words in reason
    assert "\n" not in reason
    assert ("tee" in {call[0] for call in host.calls}, reason.count(words)) == (False, 1)


def dut(host: PciHost, **more: Any) -> Dut:
    return Dut(cast(Host, host), ports(host), Path.THROUGH, LAYOUT, FilePath("/run/xdplab/dut"), **more)


def test_without_an_iommu_it_takes_the_users_word_and_hugepages() -> None:
    host = two(iommu=False)
    unsafe("Y")(host)
    assert "hugepages=true" in str(VdevOptions(port="pmd").unsupported(dut(host)))
    assert VdevOptions(port="pmd", hugepages=True).unsupported(dut(host)) is None
    assert VdevOptions(port="pmd").unsupported(dut(two())) is None
    assert VdevOptions().unsupported(dut(two(iommu=False))) is None


def spec(text: str) -> ForwarderSpec:
    return ForwarderSpec.model_validate(ForwarderSpec.parse(text))


@pytest.mark.parametrize(
    ("forwarder", "name", "takes"),
    [
        ("testpmd:port=pmd", "DPDK testpmd on DPDK's own driver", True),
        ("ovs-dpdk:port=pmd", "OVS-DPDK on DPDK's own driver", True),
        ("vpp-dpdk:port=pmd", "VPP with DPDK on DPDK's own driver", True),
        ("testpmd", "DPDK testpmd on AF_XDP", False),
        ("ovs-dpdk", "OVS-DPDK on AF_XDP", False),
        ("vpp-dpdk", "VPP with DPDK on AF_XDP", False),
    ],
)
def test_every_row_says_whose_driver_it_is(forwarder: str, name: str, takes: bool) -> None:
    assert (plain_name(spec(forwarder)), make_forwarder(spec(forwarder)).takes_ports) == (name, takes)


def test_the_mode_is_what_the_kernel_says_of_the_cards() -> None:
    host, lock = two(), TestbedLock("t")
    options = VdevOptions(port="pmd")
    there = Dut(cast(Host, host), cards.take(lock, ports(host)), Path.THROUGH, LAYOUT, FilePath("/x"))
    mode = options.cards_in_use(there)
    assert (mode_name(mode), mode["cards"]) == ("DPDK's own driver", {"b0": "vfio-pci", "b1": "vfio-pci"})
    assert options.buses(there.ports) == ["-a", A0, "-a", A1]
    assert [options.device(index, port) for index, port in enumerate(there.ports)] == [A0, A1]
    assert options.not_taken(there) is None
    host.cards[A1].driver = "igb"
    assert options.not_taken(there) == "port=pmd: b1 has driver igb"
    cards.give_back(lock, cast(Host, host))


def test_settings_of_the_kernels_driver_and_methods_at_interfaces_are_refused() -> None:
    forwarder, method = make_forwarder(spec("testpmd:port=pmd")), SimpleNamespace(name="m", at_interfaces=False)
    settings: Any = SimpleNamespace(unsupported=lambda: None)

    def reason(**knobs: Any) -> str | None:
        point: Any = SimpleNamespace(knobs=knobs, traffic=TrafficSpec())
        where = dut(two())
        return refusals.refusal(point, cast(Any, method), forwarder, settings, where, where.ports[0])

    assert "knob rx_ring: it applies to the kernel's driver only; testpmd with a driver of its own" in str(
        reason(rx_ring=512)
    )
    assert "knob" not in str(reason(rx_ring="unset", governor="performance"))
    method.at_interfaces = True
    assert "method m needs interfaces of the kernel" in str(reason())


def test_what_the_ports_lose_with_their_driver_is_remembered_and_set_again() -> None:
    from lab.card import Machine

    files = {f"/sys/class/net/p0/{name}": "0" for name in ("threaded", "napi_defer_hard_irqs", "gro_flush_timeout")}
    host: Any = Machine(files)
    host.ring["rx"], host.channels = "2048", "4"
    host.table = [index % 4 for index in range(16)]
    lock = TestbedLock("t")
    context = KnobContext(host, (Port("b0", host, "p0", mac="", mtu=1500, lasting=True),), LAYOUT, (0, 1))
    settings = Settings(lock, context, {})
    settings.keep_of_driver()
    assert lock.state()["settings"]["rx_ring"] == {"p0": "2048"}
    assert lock.state()["settings_ports"] == ["b0"]
    host.ring["rx"], host.channels, host.coalesce["rx-usecs"] = "512", "8", "3"
    host.table = [index % 8 for index in range(16)]
    settings.restore()
    assert (host.ring["rx"], host.channels, host.coalesce["rx-usecs"]) == ("2048", "4", "50")
    assert lock.state()["settings"] == {}
    host.rules["7"] = "Direct to queue 3"
    with pytest.raises(Unsupported, match="p0 has rules for flows, which are lost when the kernel's driver lets go"):
        Settings(lock, context, {}).keep_of_driver()


#: Knob of a port -> why it is not set again when the kernel's driver has the card again.
NOT_OF_DRIVER = {
    "cpu_layout": "threads and CPUs, nothing of the card",
    "flow_steering": "a card with rules is refused",
    "irq_cpu": "not done: interrupts come with other numbers",
    "irq_suspend_timeout": "not done: it is of NAPIs, which come with other ids",
    "mtu": "with the card (testbed/cards.py)",
    "ntuple": "with the card, as all offloads",
}


def test_each_knob_of_a_port_comes_back_with_the_card_or_has_a_reason() -> None:
    of_port = {each for each in plugins.names("xdplab.knobs") if make_knob(each).scope == "port"}
    offloads = {name for name in of_port if name.startswith("offload_")}
    assert of_port - offloads == {*OF_DRIVER} | {*NOT_OF_DRIVER}


def test_the_option_is_explained(cli: Callable[..., Done]) -> None:
    done = cli("explain", "testpmd")
    assert "DPDK's own driver for the card, which the kernel gets back afterwards (mlx5's stays)" in done.out
