# SPDX-License-Identifier: Apache-2.0
"""What a cell is made of: a kernel, a driver and its mode, and a forwarder, which is a few lines of shell there."""

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdplab.forwarders.base import Forwarder
from xdplab.forwarders.options import arguments
from xdplab.forwarders.registry import make_forwarder, plain_name
from xdplab.hosts import LocalHost
from xdplab.model import ForwarderSpec, InputError, validated
from xdplab.tools import bpf_program, not_built

#: Modules by kernel that a guest loads; what they depend on comes by itself.
KERNELS: dict[str, tuple[str, ...]] = {
    "6.1": ("crc32c_generic", "veth", "bridge", "openvswitch", "tun", "igb", "virtio_pci", "virtio_net"),
    "6.12": ("crc32c_generic", "veth", "bridge", "openvswitch", "tun", "igb", "virtio_net"),
    "7.2": ("veth", "bridge", "openvswitch", "tun", "igb", "virtio_net"),
}
#: The tester alone: its frames are dropped where they first arrive. Every cell's cost is what is above it.
TESTER = "tester"
#: What `xdplab cost` counts unless it is asked for others.
FORWARDERS = (
    "xdp",
    "linux-bridge",
    "ovs-kernel",
    "xsk",
    "ovs-afxdp",
    "ovs-afxdp:build=patched",
    "ovs-afxdp:flow_offload=true",
    "ovs-afpacket:build=patched",
)


@dataclass(frozen=True)
class Driver:
    """Ports of a guest and how AF_XDP sockets are bound to them.

    Attributes:
        name: As a user writes it.
        device: QEMU's device behind each port; "": veth pairs.
        zero_copy: Sockets must be zero-copy, else they are copy mode.
        kernels: That have it; empty: all.
        settings: Shell that sets a card up, whose name is `$1`.
    """

    name: str
    device: str = ""
    zero_copy: bool = False
    kernels: frozenset[str] = frozenset()
    settings: str = "true"


#: An interrupt comes when there is something, not some time later.
_UNTHROTTLED = "ethtool -C $1 rx-usecs 0"
#: By name, in the order of tables.
DRIVERS = {
    driver.name: driver
    for driver in (
        Driver("veth"),
        Driver("igb", "igb", settings=_UNTHROTTLED),
        Driver("igb-zc", "igb", zero_copy=True, kernels=frozenset({"7.2"}), settings=_UNTHROTTLED),
        # the device sends 100 ns later by the guest's clock, not when a thread of QEMU gets the CPU of this machine
        Driver("virtio", "virtio-net-pci,iommu_platform=on,ioeventfd=off,tx=timer,x-txtimer=100"),
    )
}


@dataclass(frozen=True)
class InGuest:
    """A forwarder between the ports `a1` and `b1` of a guest.

    Attributes:
        start: Lines of shell that return once it forwards; a status other than 0 is a failure.
        programs: Files of this machine -> where they are in the guest; their libraries come by themselves.
        process: Its process, by name; "": the kernel forwards.
        sockets: It has AF_XDP sockets, so that the mode of the driver matters.
        bypasses: Layer that its frames do not pass; where they do, the cell fails: it is not what its title says.
        reason: Why it does not forward with the driver; "": it does.
        title: As a table says it.
    """

    start: str
    programs: Mapping[str, str]
    process: str = ""
    sockets: bool = False
    bypasses: str = ""
    reason: str = ""
    title: str = ""

    def unsupported(self, kernel: str, driver: Driver) -> str:
        """Why there is no such cell; "": there is."""
        if driver.kernels and kernel not in driver.kernels:
            return "the kernel has no such mode of the driver"
        return "it has no AF_XDP socket" if driver.zero_copy and not self.sockets else self.reason


def program_here(name: str) -> str:
    """Path of a program of this machine, also where PATH has no folders of root's.

    Raises:
        InputError: it is not there.
    """
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise InputError(f"xdplab cost: {name} is not on this machine; `ci/setup` installs it")
    return path


def _own(name: str) -> dict[str, str]:
    path = bpf_program(name)
    if path is None:
        raise InputError(not_built(name))
    return {str(path): f"usr/bin/{name}"}


def _xdp(asked: Any, driver: Driver) -> InGuest:
    options, programs = asked.options, _own("xdpfwd")
    words = ["xdpfwd", "--if0=a1", "--if1=b1", f"--mode={options.mode}"]
    if options.object:
        file = Path(options.object)
        if not file.is_file():
            raise InputError(f"object={file}: there is no such file")
        programs[str(file.resolve())] = "lane/object.o"
        words.append("--object=/lane/object.o")
    if options.section:
        words.append(f"--section={options.section}")
    return InGuest(f"{shlex.join(words)} & $bb sleep 1", programs)


def _bridge(asked: Any, driver: Driver) -> InGuest:
    start = """ip link add br0 address 02:00:00:00:00:30 type bridge stp_state 0 mcast_snooping 0 &&
ip link set br0 arp off up && ip link set a1 master br0 && ip link set b1 master br0 &&
bridge fdb replace 02:00:00:00:00:11 dev b1 master static"""
    return InGuest(start, {})


def _xsk(asked: Any, driver: Driver) -> InGuest:
    bind = "zero-copy" if driver.zero_copy else "copy"
    config = f'{{"role": "forward", "ports": [{{"ifname": "a1"}}, {{"ifname": "b1"}}], "bind": "{bind}"}}'
    start = f"$bb echo {shlex.quote(config)} >/run/xsk.json && {{ xsk /run/xsk.json & }} && $bb sleep 1"
    return InGuest(start, _own("xsk"), "xsk", sockets=True)


def _ovs(asked: Any, bridge: str, port: str = "", **more: Any) -> InGuest:
    host = LocalHost()
    build = asked.build(host)
    programs = {str(Path(__file__).with_name("ovs.sh")): "lane/ovs.sh", build.schema: "lane/vswitch.ovsschema"}
    for path in (build.vswitchd, build.ovsdb_server, build.ovsdb_tool, build.vsctl, build.ofctl):
        programs[program_here(path)] = f"usr/bin/{Path(path).name}"
    if reason := asked.option_of_another_build(host):
        raise InputError(reason)
    port = " ".join([port, *(f"options:{item}" for item in asked.columns(host, "options"))])
    config = " ".join(f"other_config:{item}" for item in asked.columns(host, "Open_vSwitch"))
    start = f"BRIDGE='{bridge}' PORT='{port}' CONFIG='{config}'; . /lane/ovs.sh"
    return InGuest(start, programs, "ovs-vswitchd", **more)


def _ovs_afxdp(asked: Any, driver: Driver) -> InGuest:
    if driver.zero_copy:
        asked.options = asked.options.model_copy(update={"xdp_mode": "native-with-zerocopy"})
    more = {}
    if asked.options.flow_offload:
        more = {"bypasses": "AF_XDP socket"}
        if driver.zero_copy:  # the kernel copies each frame that XDP sends on from such a queue
            more = {"reason": "Open vSwitch leaves flows of zero-copy queues to the socket"}
    return _ovs(asked, "datapath_type=netdev", f"type={asked.options.type}", sockets=True, **more)


def _testpmd(asked: Any, driver: Driver) -> InGuest:
    programs = {program_here("dpdk-testpmd"): "usr/bin/dpdk-testpmd"}
    for name in (f"net_{asked.options.port}", "mempool_ring"):  # it looks for them when it starts
        found = [path for path in Path("/usr/lib").glob(f"*/dpdk/pmds-*/librte_{name}.so.*") if not path.is_symlink()]
        if not found:
            raise InputError(f"xdplab cost: DPDK's driver {name} is not on this machine; `ci/setup` installs it")
        programs[str(found[0])] = str(found[0]).lstrip("/")
    copies = "" if driver.zero_copy or asked.options.port != "af_xdp" else ",force_copy=1"
    devices = [f"--vdev={asked.options.device(index, port)}{copies}" for index, port in enumerate(("a1", "b1"))]
    # its main thread sleeps, the other one forwards
    eal = ["--lcores=0@0,1@0", "--main-lcore=0", "--no-huge", "-m", "192", "--no-pci", "--no-telemetry"]
    own = ["--forward-mode=io", "--auto-start", "--total-num-mbufs=32768", "--no-mlockall", *arguments(asked.options)]
    # it ends when it reads the end of its standard input
    start = f"$bb sleep 100000 | {shlex.join(['dpdk-testpmd', *eal, *devices, '--', *own])} & $bb sleep 5"
    return InGuest(start, programs, "dpdk-testpmd", sockets=asked.options.port == "af_xdp")


#: All but those of several queues and CPUs, of time, of huge pages, and of rules for several flows.
_AFXDP_OPTIONS = {
    "build", "type", "use_need_wakeup", "rx_wakeup", "shared_umem", "tx_copy", "xsk_rx_ring", "xsk_tx_ring",
    "xsk_fill_ring", "xsk_comp_ring", "umem_frames", "umem_frame_size", "umem_headroom", "flow_offload", "flow_entries",
    "flow_masks", "emc_insert_inv_prob",
}  # fmt: skip
#: Forwarder -> the options that it has in a guest, and what it is there.
_IN_GUESTS: dict[str, tuple[set[str], Callable[[Any, Driver], InGuest]]] = {
    "xdp": ({"mode", "object", "section"}, _xdp),
    "linux-bridge": (set(), _bridge),
    "ovs-kernel": ({"build"}, lambda asked, driver: _ovs(asked, "datapath_type=system")),
    "xsk": (set(), _xsk),
    "ovs-afxdp": (_AFXDP_OPTIONS, _ovs_afxdp),
    "testpmd": ({"port", "busy_budget", "burst"}, _testpmd),
    "ovs-afpacket": ({"build"}, lambda asked, driver: _ovs(asked, "datapath_type=netdev")),
}


def in_guest(name: str, driver: Driver) -> InGuest:
    """A forwarder as a study names it, or the tester alone.

    Raises:
        InputError: there is none of that name, it has other options in a guest, or a program of it is missing.
    """
    if name == TESTER:  # the same whatever sockets are bound like
        return InGuest("true", {}, sockets=True, title="tester alone")
    spec, asked = _asked(name)
    made = _IN_GUESTS[spec.name][1](asked, driver)
    return InGuest(**{**vars(made), "title": plain_name(spec)})


def is_there(name: str) -> bool:
    """Whether there is such a forwarder in guests."""
    try:
        _asked(name)
    except InputError:
        return False
    return True


def compile_source(name: str, note: Callable[[str], None]) -> None:
    """What a forwarder's options name as source; `note` is called with what the compilation reports.

    Raises:
        InputError: as `in_guest`, or it does not compile.
    """
    if name != TESTER:
        _asked(name)[1].make(note)


def _asked(name: str) -> tuple[ForwarderSpec, Forwarder[Any]]:
    try:
        spec = validated(ForwarderSpec, ForwarderSpec.parse(name), f"forwarder {name}")
    except ValueError as error:
        raise InputError(str(error)) from None
    if spec.name not in _IN_GUESTS:
        raise InputError(f"forwarder {spec.name}: xdplab cost has {', '.join(_IN_GUESTS)}")
    known, _ = _IN_GUESTS[spec.name]
    if others := sorted({*spec.options} - known):
        has = ", ".join(sorted(known)) or "none"
        raise InputError(f"forwarder {name}: option {others[0]}: in guests of xdplab cost it has {has}")
    return spec, make_forwarder(spec)


def chosen(names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Those that were asked for, each once, in the order of tables.

    Raises:
        InputError: one is not known.
    """
    for name in names:
        if name not in known:
            raise InputError(f"{what} {name}: it is one of {', '.join(known)}")
    return [name for name in known if name in names]
