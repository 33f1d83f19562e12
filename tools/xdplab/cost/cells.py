# SPDX-License-Identifier: Apache-2.0
"""What a cell is made of: a kernel, a driver and its mode, and a forwarder, which is a few lines of shell there."""

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdplab.forwarders.ovs.builds import OFFLOADING, STOCK, Build, find_build
from xdplab.hosts import LocalHost
from xdplab.model import InputError
from xdplab.tools import bpf_program, not_built

#: Modules by kernel that a guest loads; what they depend on comes by itself.
KERNELS: dict[str, tuple[str, ...]] = {
    "6.1": ("crc32c_generic", "veth", "bridge", "openvswitch", "tun", "igb", "virtio_pci", "virtio_net"),
    "6.12": ("crc32c_generic", "veth", "bridge", "openvswitch", "tun", "igb", "virtio_net"),
    "7.2": ("veth", "bridge", "openvswitch", "tun", "igb", "virtio_net"),
}
#: The tester alone: its frames are dropped where they first arrive. Every cell's cost is what is above it.
TESTER = "tester"
#: Of `Driver`, in the order of tables.
DRIVERS: dict[str, "Driver"] = {}


@dataclass(frozen=True)
class Driver:
    """Ports of a guest and how AF_XDP sockets are bound to them.

    Attributes:
        name: As a user writes it.
        device: QEMU's device behind each port; "": veth pairs.
        zero_copy: Sockets must be zero-copy, else they are copy mode.
        kernels: That have it; empty: all.
        settings: Shell function `card_settings PORT`, for cards.
    """

    name: str
    device: str = ""
    zero_copy: bool = False
    kernels: frozenset[str] = frozenset()
    settings: str = "return 0"


#: Without throttled interrupts, of which each comes when there is something; one queue, which all frames arrive at.
_CARD = (
    "/usr/sbin/ethtool -C $1 rx-usecs 0 >/dev/null 2>&1; /usr/sbin/ethtool -L $1 combined 1 >/dev/null 2>&1; return 0"
)
for _driver in (
    Driver("veth"),
    Driver("igb", "igb", settings=_CARD),
    Driver("igb-zc", "igb", zero_copy=True, kernels=frozenset({"7.2"}), settings=_CARD),
    Driver("virtio", "virtio-net-pci,iommu_platform=on", settings=_CARD),
):
    DRIVERS[_driver.name] = _driver


@dataclass(frozen=True)
class Forwarder:
    """What a guest runs between the ports `a1` and `b1`.

    Attributes:
        name: As a user writes it.
        title: As a table says it.
        programs: Files of this machine -> where they are in the guest; their libraries come by themselves.
        start: Lines of shell that return once it forwards; a status other than 0 is a failure.
        process: Its process, by name; "": the kernel forwards.
        sockets: It has AF_XDP sockets, so that the mode of the driver matters.
        past: Layer that its frames go past, or the cell fails: what the title says is not so.
        not_with: Kernel -> why it does not forward with it.
    """

    name: str
    title: str
    programs: Mapping[str, str]
    start: str
    process: str = ""
    sockets: bool = False
    past: str = ""
    not_with: Mapping[str, str] = field(default_factory=dict)

    def unsupported(self, kernel: str, driver: Driver) -> str:
        """Why there is no such cell; "": there is."""
        if kernel in self.not_with:
            return self.not_with[kernel]
        if driver.kernels and kernel not in driver.kernels:
            return f"{driver.name}: not with kernel {kernel}"
        if driver.zero_copy and not self.sockets and self.name != TESTER:
            return "it has no AF_XDP socket"
        return ""


def _in_usr_bin(*programs: str) -> dict[str, str]:
    return {program: f"usr/bin/{Path(program).name}" for program in programs}


def _own(name: str) -> str:
    path = bpf_program(name)
    if path is None:
        raise InputError(not_built(name))
    return str(path)


def _xdp(driver: Driver) -> Forwarder:
    start = "/usr/bin/xdpfwd --if0 a1 --if1 b1 --mode native & $bb sleep 1"
    return Forwarder("xdp", "XDP redirect", _in_usr_bin(_own("xdpfwd")), start)


def _bridge(driver: Driver) -> Forwarder:
    start = """/usr/bin/ip link add br0 address 02:00:00:00:00:30 type bridge stp_state 0 mcast_snooping 0 &&
/usr/bin/ip link set br0 arp off up && /usr/bin/ip link set a1 master br0 && /usr/bin/ip link set b1 master br0 &&
/usr/bin/bridge fdb replace 02:00:00:00:00:11 dev b1 master static &&
/usr/bin/bridge fdb replace 02:00:00:00:00:10 dev a1 master static"""
    return Forwarder("linux-bridge", "Linux bridge", {}, start)


def _xsk(driver: Driver) -> Forwarder:
    bind = "zero-copy" if driver.zero_copy else "copy"
    config = f'{{"role": "forward", "ports": [{{"ifname": "a1"}}, {{"ifname": "b1"}}], "bind": "{bind}"}}'
    start = f"$bb echo {shlex.quote(config)} >/run/xsk.json && {{ /usr/bin/xsk /run/xsk.json & }} && $bb sleep 1"
    return Forwarder("xsk", "xsk forward", _in_usr_bin(_own("xsk")), start, "xsk", sockets=True)


def _ovs(
    name: str,
    title: str,
    build: Build,
    *,
    bridge: str,
    port: str = "",
    config: str = "",
    sockets: bool = False,
    past: str = "",
    not_with: Mapping[str, str] | None = None,
) -> Forwarder:
    located = shutil.which
    programs = {}
    for path in (build.vswitchd, build.ovsdb_server, build.ovsdb_tool, build.vsctl, build.ofctl):
        found = path if "/" in path else located(path)
        if not found or not Path(found).exists():
            raise InputError(f"{name}: {path} is not there")
        programs[found] = f"usr/bin/{Path(path).name}"
    programs[build.schema] = "lane/vswitch.ovsschema"
    programs[str(Path(__file__).with_name("ovs.sh"))] = "lane/ovs.sh"
    start = f"BRIDGE='{bridge}' PORT='{port}' CONFIG='{config}'; . /lane/ovs.sh"
    return Forwarder(name, title, programs, start, "ovs-vswitchd", sockets=sockets, past=past, not_with=not_with or {})


def _ovs_afxdp(build: str, title: str = "", config: str = "") -> Callable[[Driver], Forwarder]:
    def made(driver: Driver) -> Forwarder:
        mode = "native-with-zerocopy" if driver.zero_copy else "native"
        name = "ovs-afxdp:flow_offload=true" if config else f"ovs-afxdp:build={build}"
        return _ovs(
            "ovs-afxdp" if build == STOCK else name,
            title or f"OVS on AF_XDP, {build}",
            find_build(build, _STOCK_DAEMON, LocalHost()),
            bridge="datapath_type=netdev",
            port=f"type=afxdp options:xdp-mode={mode}",
            config=config,
            sockets=True,
            past="AF_XDP socket" if config else "",
            not_with={"6.1": "Linux 6.1 refuses its XDP program (ovs_flow_table: unbounded memory access)"}
            if config
            else {},
        )

    return made


_STOCK_DAEMON = "/usr/lib/openvswitch-switch/ovs-vswitchd"


def _ovs_afpacket(driver: Driver) -> Forwarder:
    build = find_build("patched", _STOCK_DAEMON, LocalHost())
    return _ovs("ovs-afpacket", "OVS on AF_PACKET", build, bridge="datapath_type=netdev")


def _ovs_kernel(driver: Driver) -> Forwarder:
    build = find_build(STOCK, _STOCK_DAEMON, LocalHost())
    return _ovs("ovs-kernel", "OVS, the kernel's datapath", build, bridge="datapath_type=system")


#: Name -> how it is made for a driver, in the order of tables.
FORWARDERS: dict[str, Callable[[Driver], Forwarder]] = {
    "xdp": _xdp,
    "linux-bridge": _bridge,
    "ovs-kernel": _ovs_kernel,
    "xsk": _xsk,
    "ovs-afxdp": _ovs_afxdp(STOCK, title="OVS on AF_XDP, the distribution's"),
    "ovs-afxdp:build=patched": _ovs_afxdp("patched", title="OVS on AF_XDP, patched"),
    "ovs-afxdp:flow_offload=true": _ovs_afxdp(
        OFFLOADING, title="OVS on AF_XDP, flows in XDP", config="other_config:hw-offload=true"
    ),
    "ovs-afpacket": _ovs_afpacket,
}


def tester(driver: Driver) -> Forwarder:
    """Nobody forwards: the sink is where the frames first arrive."""
    return Forwarder(TESTER, "tester alone", {}, "return 0")


def forwarder(name: str, driver: Driver) -> Forwarder:
    """One of `FORWARDERS`, `ovs-afxdp:build=BUILD` with a build as studies name it, or `xdp:object=FILE[:SECTION]`.

    Raises:
        InputError: there is none of that name, or a program of it is missing.
    """
    if name == TESTER:
        return tester(driver)
    if name in FORWARDERS:
        return FORWARDERS[name](driver)
    build = name.removeprefix("ovs-afxdp:build=")
    if build != name:
        return _ovs_afxdp(build)(driver)
    file, _, section = name.removeprefix("xdp:object=").partition(":")
    if name.startswith("xdp:object="):
        return _object(name, Path(file), section)
    more = "ovs-afxdp:build=BUILD, xdp:object=FILE"
    raise InputError(f"forwarder {name}: xdplab cost has {', '.join(FORWARDERS)}, {more}")


def _object(name: str, file: Path, section: str) -> Forwarder:
    if not file.is_file():
        raise InputError(f"{name}: there is no file {file}")
    programs = {**_in_usr_bin(_own("xdpfwd")), str(file.resolve()): "lane/object.o"}
    which = f"--section {shlex.quote(section)}" if section else ""
    start = f"/usr/bin/xdpfwd --if0 a1 --if1 b1 --mode native --object /lane/object.o {which} & $bb sleep 1"
    return Forwarder(name, f"XDP program {file.name}", programs, start)


def chosen(names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Those that were asked for, each once, in the order of tables.

    Raises:
        InputError: one is not known.
    """
    for name in names:
        if name not in known:
            raise InputError(f"{what} {name}: it is one of {', '.join(known)}")
    return [name for name in known if name in names]
