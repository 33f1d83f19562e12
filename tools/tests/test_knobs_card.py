# SPDX-License-Identifier: Apache-2.0
"""Knobs of cards and machines that this one is not: what they call and read back, and what they say is missing."""

from typing import Any

import pytest
from lab.card import Machine, Recorded

from xdplab.hosts.kernel import pause_on
from xdplab.knobs import Knob, KnobContext, make_knob
from xdplab.model import CpuLayout, InputError, Unsupported, XdplabError, plugins
from xdplab.model.design import Scalar
from xdplab.testbed import Port

CPU = "/sys/devices/system/cpu"
CLASS = "/sys/class/net/p0"
SERVER = {
    "/proc/cpuinfo": "vendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) CPU E5-2420 v2\n",
    "/dev/cpu/0/msr": "",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/cpuidle/current_driver": "intel_idle",
    **{f"{CPU}/cpu{cpu}/cpufreq/scaling_governor": "powersave" for cpu in (0, 1, 2)},
    **{f"{CPU}/cpu{cpu}/cpufreq/scaling_available_governors": "performance powersave" for cpu in (0, 1, 2)},
    **{f"{CPU}/cpu{cpu}/cpuidle/state{state}/disable": "0" for cpu in (0, 1, 2) for state in range(4)},
    f"{CLASS}/device/msi_irqs/33": "msix",
    f"{CLASS}/device/msi_irqs/34": "msix",
    f"{CLASS}/device/msi_irqs/99": "msix",
    "/proc/interrupts": "           CPU0\n  33:  7  PCI-MSI  i40e-p0-TxRx-0\n  34:  7  PCI-MSI  i40e-p0-TxRx-1\n",
    "/proc/irq/33/smp_affinity_list": "0-2",
    "/proc/irq/34/smp_affinity_list": "0-2",
    "/proc/sys/net/core/busy_poll": "0",
    "/proc/sys/net/core/busy_read": "0",
    f"{CLASS}/napi_defer_hard_irqs": "0",
    f"{CLASS}/gro_flush_timeout": "0",
    f"{CLASS}/threaded": "0",
    f"{CLASS}/mtu": "1500",
}


def context(host: Any) -> KnobContext:
    port = Port(role="b0", host=host, ifname="p0", mac="", mtu=1500)
    return KnobContext(host, (port,), CpuLayout(tester_tx=0, forwarder=1), (0, 1, 2))


def machine(**changes: str) -> Machine:
    return Machine({**SERVER, **changes}, programs=("rdmsr", "wrmsr"))


#: Knob, value, and what must have been called for it.
SETTINGS: list[tuple[str, Scalar, list[str]]] = [
    ("coalesce_rx_usecs", 0, ["ethtool", "-C", "p0", "rx-usecs", "0"]),
    ("coalesce_tx_usecs", 8, ["ethtool", "-C", "p0", "tx-usecs", "8"]),
    ("coalesce_tx_frames", 1, ["ethtool", "-C", "p0", "tx-frames", "1"]),
    ("coalesce_adaptive_rx", "off", ["ethtool", "-C", "p0", "adaptive-rx", "off"]),
    ("pause", "off", ["ethtool", "-A", "p0", "autoneg", "off", "rx", "off", "tx", "off"]),
    ("rx_ring", 256, ["ethtool", "-G", "p0", "rx", "256"]),
    ("tx_ring", 4096, ["ethtool", "-G", "p0", "tx", "4096"]),
    ("channels", 1, ["ethtool", "-L", "p0", "combined", "1"]),
    ("rss_queues", 2, ["ethtool", "-X", "p0", "equal", "2"]),
    ("ntuple", True, ["ethtool", "-K", "p0", "ntuple", "on"]),
    ("flow_steering", 3, ["ethtool", "-N", "p0", "flow-type", "udp4", "action", "3"]),
    ("private_flag", "legacy-rx=on", ["ethtool", "--set-priv-flags", "p0", "legacy-rx", "on"]),
    ("offload_gro", "off", ["ethtool", "-K", "p0", "gro", "off"]),
    ("offload_lro", "on", ["ethtool", "-K", "p0", "lro", "on"]),
    ("offload_tso", 0, ["ethtool", "-K", "p0", "tso", "off"]),
    ("offload_rx_checksum", False, ["ethtool", "-K", "p0", "rx", "off"]),
    ("offload_tx_checksum", "off", ["ethtool", "-K", "p0", "tx", "off"]),
    ("offload_rx_vlan", "off", ["ethtool", "-K", "p0", "rxvlan", "off"]),
    ("irq_cpu", "forwarder", ["write", "/proc/irq/34/smp_affinity_list", "1"]),
    ("irq_cpu", "apart", ["write", "/proc/irq/33/smp_affinity_list", "2"]),
    ("irq_cpu", "2/1", ["write", "/proc/irq/34/smp_affinity_list", "1"]),
    ("governor", "performance", ["write", f"{CPU}/cpu2/cpufreq/scaling_governor", "performance"]),
    ("turbo", "off", ["write", f"{CPU}/intel_pstate/no_turbo", "1"]),
    ("cpuidle_max_state", 1, ["write", f"{CPU}/cpu2/cpuidle/state2/disable", "1"]),
    ("ddio_ways", 4, ["wrmsr", "-a", "0xc8b", "0x780"]),
    ("sysctl_busy_poll_us", 50, ["write", "/proc/sys/net/core/busy_poll", "50"]),
    ("sysctl_busy_read_us", 50, ["write", "/proc/sys/net/core/busy_read", "50"]),
    ("napi_defer_hard_irqs", 2, ["write", f"{CLASS}/napi_defer_hard_irqs", "2"]),
    ("gro_flush_timeout", 20000, ["write", f"{CLASS}/gro_flush_timeout", "20000"]),
    ("threaded_napi", 1, ["write", f"{CLASS}/threaded", "1"]),
    ("mtu", 9000, ["write", f"{CLASS}/mtu", "9000"]),
]
#: Needs a process, a kernel thread, or hugepages of a real machine: `test_root_knobs.py`.
ELSEWHERE = {
    "cpu_dma_latency_us",
    "cpu_layout",
    "hugepages_2m",
    "coalesce_rx_frames",
    "coalesce_adaptive_tx",
    "irq_suspend_timeout",
}


def state(host: Machine) -> dict[str, Any]:
    kept = {name: value for name, value in vars(host).items() if name not in ("calls", "stuck", "refuses")}
    return {name: dict(value) if isinstance(value, dict) else value for name, value in kept.items()}


def test_every_knob_is_tried_here_or_on_a_real_machine() -> None:
    assert {name for name, *_ in SETTINGS} | ELSEWHERE == set(plugins.names("xdplab.knobs"))


@pytest.mark.parametrize(
    ("name", "value", "call"), SETTINGS, ids=lambda each: str(each) if isinstance(each, str) else ""
)
def test_a_knob_sets_reads_back_and_puts_back(name: str, value: Scalar, call: list[str]) -> None:
    host, knob = machine(), make_knob(name)
    before = state(host)
    at = context(host)
    wanted = knob.check(value)
    assert knob.unsupported(at, wanted) is None
    saved = knob.read(at)
    knob.apply(at, wanted)
    assert call in host.calls
    knob.verify(at, wanted)
    assert knob.read(at) != saved
    knob.restore(at, saved)
    assert state(host) == before
    assert knob.describe(wanted)


@pytest.mark.parametrize(
    ("name", "value", "call"), SETTINGS, ids=lambda each: str(each) if isinstance(each, str) else ""
)
def test_what_did_not_take_effect_is_seen(name: str, value: Scalar, call: list[str]) -> None:
    host, knob = machine(), make_knob(name)
    at = context(host)
    saved = knob.read(at)
    host.stuck = True
    knob.apply(at, knob.check(value))
    with pytest.raises(Unsupported, match=name):
        knob.verify(at, knob.check(value))
    host.stuck = False
    knob.apply(at, knob.check(value))
    host.stuck = True
    if name == "flow_steering":
        host.rules = {}  # rules are deleted, and the card has lost another
        saved = {"p0": {"ntuple": "off", "rules": {"7000": "Direct to queue 1"}}}
    with pytest.raises(XdplabError, match=name):
        knob.restore(at, saved)


def test_a_driver_that_refuses_makes_the_point_unsupported_with_its_own_words() -> None:
    host = machine()
    host.refuses = "-G"
    with pytest.raises(Unsupported, match=r"rx_ring: B: ethtool -G p0 rx 256: netlink error: Invalid argument"):
        make_knob("rx_ring").apply(context(host), 256)


def test_pause_frames_go_off_where_the_driver_leaves_negotiating_to_the_link_mode() -> None:
    """i40e: "To change autoneg please use: ethtool -s <dev> autoneg <on|off>" (i40e_set_pauseparam)."""
    host, knob = machine(), make_knob("pause")
    whole = host.run

    def run(argv: list[str], *, check: bool = True, **more: Any) -> Any:
        if argv[1] == "-A" and argv[argv.index("autoneg") + 1] != host.pause["autoneg"]:
            raise XdplabError("B: netlink error: Operation not supported")
        return whole(argv, check=check, **more)

    host.run = run  # type: ignore[method-assign, assignment]
    saved = knob.read(context(host))
    knob.apply(context(host), False)
    knob.verify(context(host), False)
    assert host.pause == {"autoneg": "on", "rx": "off", "tx": "off"}
    knob.restore(context(host), saved)
    assert host.pause == {"autoneg": "on", "rx": "on", "tx": "off"}


@pytest.mark.parametrize(
    ("lines", "on"),
    [
        ("Autonegotiate:\toff\nRX:\t\toff\nTX:\t\ton\n", True),
        ("Autonegotiate:\toff\nRX:\t\toff\nTX:\t\toff\n", False),
        # as ice has it
        ("Autonegotiate:\ton\nRX:\t\toff\nTX:\t\toff\nRX negotiated: on\nTX negotiated: on\n", True),
        # the other end does not take part
        ("Autonegotiate:\ton\nRX:\t\ton\nTX:\t\ton\nRX negotiated: off\nTX negotiated: off\n", False),
        ("", False),
    ],
)
def test_pause_frames_are_on_as_the_ends_have_agreed(lines: str, on: bool) -> None:
    assert pause_on(f"Pause parameters for p0:\n{lines}" if lines else "") is on


VIRTIO = [
    ("coalesce_rx_usecs", 8, None),
    ("coalesce_adaptive_rx", "on", None),
    ("coalesce_adaptive_tx", "on", "the virtio_net driver has no adaptive interrupt coalescing"),
    ("rx_ring", 128, None),
    ("rx_ring", 512, "virtio_net: 512 is above the maximum of 256"),
    ("channels", 1, None),
    ("channels", 2, "virtio_net: 2 is above the maximum of 1"),
    ("offload_gro", "off", None),
    ("offload_rx_checksum", "off", "virtio_net: rx-checksumming is fixed to on"),
    ("ntuple", "on", "virtio_net: ntuple-filters is fixed to off"),
    ("flow_steering", 0, "the virtio_net driver has no flow steering"),
    ("flow_steering", "off", None),
    ("rss_queues", 1, "the virtio_net driver has no indirection table"),
    ("pause", "off", "the virtio_net driver has no pause frames"),
    ("private_flag", "legacy-rx=on", "the virtio_net driver has no private flag legacy-rx (it has none)"),
]


@pytest.mark.parametrize(("name", "value", "reason"), VIRTIO)
def test_recorded_outputs_of_virtio_net_are_understood(name: str, value: Scalar, reason: str | None) -> None:
    knob = make_knob(name)
    said = knob.unsupported(context(Recorded("virtio_net")), knob.check(value))
    assert said is None if reason is None else reason in (said or "")


def test_recorded_values_of_virtio_net_are_read() -> None:
    at = context(Recorded("virtio_net"))
    expected = {
        "coalesce_rx_usecs": "0", "coalesce_rx_frames": "1", "rx_ring": "256", "tx_ring": "256",
        "channels": "combined 1", "coalesce_adaptive_rx": "off",
    }  # fmt: skip
    assert {name: make_knob(name).read(at)["p0"] for name in expected} == expected


@pytest.mark.parametrize(("driver", "pauses"), [("virtio_net", [1.0]), ("veth", [])])
def test_threaded_napi_waits_for_virtio_nets_sockets_to_go(
    driver: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("xdplab.knobs.interrupts.time.sleep", slept.append)
    monkeypatch.setattr("xdplab.knobs.interrupts.driver", lambda host, ifname: driver)
    make_knob("threaded_napi").restore(context(machine()), {"p0": "0"})
    assert slept == pauses


def without(*paths: str) -> Machine:
    host = machine()
    host.files = {path: text for path, text in host.files.items() if not path.startswith(paths)}
    return host


MISSING: list[tuple[str, Scalar, Machine, str]] = [
    ("irq_cpu", "forwarder", without(f"{CLASS}/device"), "the i40e driver has no interrupts of its own"),
    ("irq_cpu", 7, machine(), "CPU 7 is none of the testbed's"),
    ("irq_cpu", "2/7", machine(), "CPU 7 is none of the testbed's"),
    ("irq_cpu", "forwarder", machine(**{"/proc/interrupts": "CPU0\n"}), "has no interrupt in use"),
    ("governor", "performance", without(f"{CPU}/cpu0/cpufreq"), "no cpufreq here"),
    ("governor", "schedutil", machine(), "no governor schedutil; there are performance, powersave"),
    ("turbo", "on", without(f"{CPU}/intel_pstate"), "neither"),
    ("cpuidle_max_state", 0, without(f"{CPU}/cpuidle"), "no cpuidle driver here"),
    ("cpu_dma_latency_us", 0, machine(), "/dev/cpu_dma_latency does not exist"),
    ("ddio_ways", 2, machine(**{"/proc/cpuinfo": "vendor_id : AuthenticAMD\nmodel name : AMD EPYC\n"}), "AMD EPYC"),
    ("ddio_ways", 2, machine(**{"/proc/cpuinfo": "GenuineIntel\nflags : hypervisor\n"}), "a virtual machine"),
    ("ddio_ways", 2, without("/dev/cpu/0/msr"), "`modprobe msr` makes it"),
    ("ddio_ways", 2, Machine(SERVER), "msr-tools"),
    ("sysctl_busy_poll_us", 1, without("/proc/sys"), "does not exist"),
    ("private_flag", "x=on", machine(), "(it has legacy-rx, flow-director-atr)"),
]


@pytest.mark.parametrize(("name", "value", "host", "reason"), MISSING)
def test_what_a_machine_has_not_got_is_said(name: str, value: Scalar, host: Machine, reason: str) -> None:
    knob = make_knob(name)
    said = knob.unsupported(context(host), knob.check(value)) or ""
    assert said.startswith(f"{name}: ")
    assert reason in said


def test_an_indirection_table_that_ethtool_could_not_put_back_is_left_alone() -> None:
    host = machine()
    host.table = [0, 0, 0, 1] * 4
    assert "ethtool cannot put back" in (make_knob("rss_queues").unsupported(context(host), 1) or "")


def test_the_table_that_igb_fills_its_own_way_is_put_back() -> None:
    host, knob = machine(), make_knob("rss_queues")
    host.own_table, host.channels = True, "2"
    host.table = [0] * 8 + [1] * 8
    before = state(host)
    at = context(host)
    assert knob.unsupported(at, 1) is None
    saved = knob.read(at)
    knob.apply(at, 1)
    knob.verify(at, 1)
    knob.restore(at, saved)
    assert state(host) == before
    assert ["ethtool", "-L", "p0", "combined", "1"] in host.calls


def test_sockets_with_different_ddio_ways_are_not_flattened() -> None:
    host = machine()
    host.msr = "600\n7f0"
    with pytest.raises(XdplabError, match="the sockets differ: 600, 7f0"):
        make_knob("ddio_ways").read(context(host))


BAD: list[tuple[str, Scalar]] = [
    ("coalesce_rx_usecs", -1), ("coalesce_rx_usecs", "fast"), ("coalesce_adaptive_rx", "maybe"), ("channels", 0),
    ("irq_cpu", "near"), ("irq_cpu", True), ("private_flag", "x"), ("private_flag", "x=on;reboot"), ("mtu", 100),
    ("governor", "../x"), ("ddio_ways", 12), ("turbo", 2), ("flow_steering", "queue"), ("flow_steering", True),
    ("cpu_dma_latency_us", "never"), ("rx_ring", 0), ("irq_cpu", "2/"), ("pause", "rx"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
def test_values_that_are_none_are_refused_in_one_line(name: str, value: Scalar) -> None:
    with pytest.raises(InputError, match=f"knob {name}: "):
        make_knob(name).check(value)


@pytest.mark.parametrize("name", plugins.names("xdplab.knobs"))
def test_every_knob_says_what_it_is(name: str) -> None:
    knob = make_knob(name)
    assert isinstance(knob, Knob)
    assert knob.name == name


@pytest.mark.parametrize(
    ("nr", "free", "resv", "wanted"),
    [
        (0, 0, 0, 384),
        (384, 384, 0, 384),
        (384, 0, 0, 768),
        (512, 100, 0, 796),
        (512, 500, 400, 796),
        (900, 400, 0, 900),
    ],
)
def test_hugepages_that_others_use_are_not_ours(nr: int, free: int, resv: int, wanted: int) -> None:
    folder = "/sys/kernel/mm/hugepages/hugepages-2048kB"
    counts = {"nr": nr, "free": free, "resv": resv}
    host, knob = (
        machine(**{f"{folder}/{name}_hugepages": str(count) for name, count in counts.items()}),
        make_knob("hugepages_2m"),
    )
    at = context(host)
    saved = knob.read(at)
    knob.apply(at, 384)
    knob.verify(at, 384)
    assert knob.read(at) == wanted
    host.files[f"{folder}/free_hugepages"] = "0"  # the forwarder has them
    knob.verify(at, 384)
    if wanted > nr:
        host.files[f"{folder}/nr_hugepages"] = str(wanted - 1)  # the kernel found no more memory
        with pytest.raises(Unsupported, match=f"memory for {wanted - 1} of {wanted} pages"):
            knob.verify(at, 384)
    knob.restore(at, saved)
    assert knob.read(at) == nr


def test_ipv6_that_comes_again_with_an_mtu_is_switched_off_again() -> None:
    """A port is silent in a run, also after a repetition with an MTU below 1280."""
    host, knob = machine(), make_knob("mtu")
    switch = "/proc/sys/net/ipv6/conf/p0/disable_ipv6"
    write = host.write

    def as_the_kernel(path: str, text: str) -> None:
        write(path, text)
        if path == f"{CLASS}/mtu" and int(text) < 1280:
            host.files.pop(switch, None)
        elif path == f"{CLASS}/mtu":
            host.files.setdefault(switch, "0")

    host.write = as_the_kernel  # type: ignore[method-assign]
    host.files[switch] = "1"
    saved = knob.read(context(host))
    knob.apply(context(host), 1000)
    assert switch not in host.files
    knob.restore(context(host), saved)
    assert host.files[switch] == "1"


class Fragmented:
    """A host that has 100 pages in one piece, and 300 once it has moved what lies between."""

    def __init__(self, *, allowed: bool) -> None:
        self.allowed, self.pages, self.in_one_piece = allowed, 0, 100

    def read(self, path: str) -> str:
        return str(self.pages if path.endswith("/nr_hugepages") else 0)

    def write(self, path: str, text: str) -> None:
        if path.endswith("/nr_hugepages"):
            self.pages = min(int(text), self.in_one_piece)
        elif not self.allowed:
            raise XdplabError(f"{path}: Read-only file system")
        else:
            self.in_one_piece = 300


def test_hugepages_are_asked_for_again_once_memory_was_moved_together() -> None:
    host, knob = Fragmented(allowed=True), make_knob("hugepages_2m")
    knob.apply(context(host), 250)
    knob.verify(context(host), 250)
    assert host.pages == 250
    knob = make_knob("hugepages_2m")
    knob.apply(context(host), 500)
    with pytest.raises(Unsupported, match="the kernel found memory for 300 of 750 pages of 2 MiB"):
        knob.verify(context(host), 500)


def test_where_memory_may_not_be_moved_there_are_as_many_hugepages_as_there_are() -> None:
    host, knob = Fragmented(allowed=False), make_knob("hugepages_2m")
    knob.apply(context(host), 250)
    with pytest.raises(Unsupported, match="the kernel found memory for 100 of 250 pages of 2 MiB"):
        knob.verify(context(host), 250)
