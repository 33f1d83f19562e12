# SPDX-License-Identifier: Apache-2.0
"""The VPP forwarders: one program, three ways for frames to get in and out."""

from typing import Any, ClassVar

from xdplab.forwarders.base import Dut, sockets_in_use
from xdplab.forwarders.dpdk import NOT_HAD
from xdplab.forwarders.options import fields
from xdplab.forwarders.vpp.control import VppControl, VppRefused
from xdplab.forwarders.vpp.forwarder import VppForwarder
from xdplab.forwarders.vpp.options import (
    AF_PACKET,
    AF_XDP,
    STARTUP,
    VppAfpacketOptions,
    VppAfxdpOptions,
    VppDpdkOptions,
    VppOptions,
)
from xdplab.forwarders.vpp.process import Interface, numbers
from xdplab.hosts import Host
from xdplab.hosts.kernel import driver, why_no_zero_copy
from xdplab.model import Model, PointFailed, Unsupported

_NO_SYSCALL_LOCK, _MULTI_BUFFER = "AF_XDP_API_FLAGS_NO_SYSCALL_LOCK", "AF_XDP_API_FLAGS_MULTI_BUFFER"
#: Before it the wake-up call of a receive queue failed at once, which costs with zero-copy (VPP commit 421964a8d1e).
_WAKES_RX = (25, 10)
_INVALID_VALUE, _NO_SOCKET = -7, -12
#: The XDP program of libxdp that VPP attaches by default, where distributions have it.
_DEFAULT_PROGRAM = tuple(
    f"{folder}/bpf/xsk_def_xdp_prog.o"
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
)


def program_first(host: Host, driver_name: str, zero_copy: str) -> str | None:
    """The XDP program that VPP has to attach before it opens a socket; None: the order does not matter.

    By default libxdp binds the socket first and attaches its program second. Attaching it resets an igb card: the
    zero-copy ring is empty afterwards, and the driver does not refill it until it is woken (`igb_xdp_setup` of Linux
    7.3-rc7; seen with 7.2). VPP wakes a queue only after it has refilled it, so no frame is ever received.

    Raises:
        Unsupported: libxdp's default program is not there.
    """
    if driver_name != "igb" or zero_copy == "copy":
        return None
    found = next((path for path in _DEFAULT_PROGRAM if host.exists(path)), None)
    if found is None:
        name = _DEFAULT_PROGRAM[0].rpartition("/")[2]
        raise Unsupported(f"zero-copy on igb: VPP needs {name} of libxdp, or zero_copy=copy; install libxdp1")
    return found


def with_raw(asked: dict[str, Any], options: VppOptions, message: str) -> dict[str, Any]:
    """Fields of a message with raw ones, numbers as such.

    Raises:
        Unsupported: xdplab sets one itself.
    """
    raw = options.raw_of(message)
    if twice := next((name for name in raw if name in asked), None):
        raise Unsupported(f"raw.{message}.{twice}: xdplab sets it itself")
    return asked | {name: int(value) if value.isdecimal() else value for name, value in raw.items()}


class VppAfxdp(VppForwarder[VppAfxdpOptions]):
    """VPP with interfaces of its af_xdp plugin, polled by a worker on the forwarder's CPU."""

    name: ClassVar[str] = "vpp-afxdp"
    plain: ClassVar[str] = "VPP on AF_XDP"
    options_model: ClassVar[type[Model]] = VppAfxdpOptions
    changes: ClassVar[tuple[str, ...]] = (*VppForwarder.changes, "port-added")
    plugin: ClassVar[str] = "af_xdp"
    creates: ClassVar[str] = AF_XDP

    def one_buffer(self) -> str:
        return "" if self.options.multi_buffer else "its XDP program and sockets take one buffer; multi_buffer=true"

    def unsupported(self, dut: Dut) -> str | None:
        """Zero-copy needs a driver that has it; veth has not."""
        ports = [port.ifname for port in dut.ports] if self.options.zero_copy == "zero-copy" else []
        return why_no_zero_copy(dut.host, *ports) or super().unsupported(dut)

    def require(self, control: VppControl, version: str) -> None:
        """Multi-buffer came after 26.06; zero-copy below 25.10 is too slow to be compared."""
        if self.options.multi_buffer and _MULTI_BUFFER not in control.members("vl_api_af_xdp_flag_t"):
            raise Unsupported(f"multi_buffer: the af_xdp plugin of VPP {version} does not have it (added after 26.06)")
        if self.options.zero_copy == "zero-copy":
            self._refuse_slow_zero_copy(version)

    def attach(self, control: VppControl, dut: Dut) -> list[int]:
        """An af_xdp interface on each port, under the name that VPP gives it."""
        options = self.options
        flags = control.members("vl_api_af_xdp_flag_t")
        # with the lock, which only older kernels need, workers could not take interrupts
        wanted = flags[_NO_SYSCALL_LOCK] | (flags[_MULTI_BUFFER] if options.multi_buffer else 0)
        indexes = []
        for port in dut.ports:
            try:
                asked = {"host_if": port.ifname, "flags": wanted, **fields(options, AF_XDP)}
                if "prog" not in options.raw_of(AF_XDP):
                    program = program_first(dut.host, driver(dut.host, port.ifname), options.zero_copy)
                    asked |= {"prog": program} if program else {}
                reply = control.call(AF_XDP, **with_raw(asked, options, AF_XDP))
            except VppRefused as exc:
                raise self._refusal(exc, dut.host, port.ifname) from None
            indexes.append(int(reply["sw_if_index"]))
        if any(sock["zero_copy"] for pid in self.pids() for sock in dut.host.xsk_sockets(pid)):
            self._refuse_slow_zero_copy(str(control.call("show_version")["version"]))
        return indexes

    def confirm(self, interface: Interface, hardware: str) -> None:
        if self.options.multi_buffer and "multi-buffer" not in hardware:
            raise Unsupported(f"multi_buffer: VPP took it and does not show it on {interface.name}")

    def by_command_line(
        self, host: Host, port: str, driver_name: str, *, zero_copy: bool
    ) -> tuple[str, str, list[str]]:
        """What makes an interface where nobody speaks the API, its name, and files of `host` that VPP then reads."""
        options = self.options
        words = [f"create interface af_xdp host-if {port} name {port} num-rx-queues {options.n_rxq}"]
        words += [f"rx-queue-size {options.rx_queue_size} tx-queue-size {options.tx_queue_size} no-syscall-lock"]
        words += ["zero-copy" if zero_copy else "no-zero-copy", *(["multi-buffer"] if options.multi_buffer else [])]
        program = program_first(host, driver_name, "zero-copy" if zero_copy else "copy")
        return " ".join([*words, *([f"prog {program}"] if program else [])]), port, [program] if program else []

    def detach(self, control: VppControl, interface: Interface) -> None:
        """Close its sockets and take its XDP program off."""
        control.call("af_xdp_delete", sw_if_index=interface.index)

    def _refusal(self, exc: VppRefused, host: Host, ifname: str) -> PointFailed | Unsupported:
        """What a code means here: -7 is both a missing interface and too many queues."""
        words = f"{exc}: {self.complaint('af_xdp') or 'VPP says no more'}"
        if host.run(["ip", "link", "show", "dev", ifname], check=False).returncode:
            return PointFailed(f"{self.name}: host interface {ifname} does not exist; {words}")
        if exc.code == _INVALID_VALUE and self.options.n_rxq > 1:
            return Unsupported(f"n_rxq={self.options.n_rxq} is more than the queues of {ifname}; {words}")
        if exc.code == _NO_SOCKET and self.options.zero_copy == "zero-copy":
            return Unsupported(f"zero-copy: the driver of {ifname} refuses it; {words}")
        return PointFailed(f"{self.name}: {words}")

    @staticmethod
    def _refuse_slow_zero_copy(version: str) -> None:
        if numbers(version) < _WAKES_RX:
            raise Unsupported(
                f"zero-copy: in VPP {version} the wake-up of a receive queue fails at once; it is fixed from 25.10 on"
            )


class VppAfpacket(VppForwarder[VppAfpacketOptions]):
    """VPP with host interfaces: mapped rings of AF_PACKET.

    They are not deleted at the end but go with the process: deleting one takes the kernel's link down
    (af_packet_interface_admin_up_down of VPP 26.10), and the next forwarder would find it so.
    """

    name: ClassVar[str] = "vpp-afpacket"
    plain: ClassVar[str] = "VPP on AF_PACKET"
    options_model: ClassVar[type[Model]] = VppAfpacketOptions
    plugin: ClassVar[str] = "af_packet"
    creates: ClassVar[str] = AF_PACKET

    def attach(self, control: VppControl, dut: Dut) -> list[int]:
        """A host interface on each port, without checksum and segmentation offloads."""
        options = self.options
        known = control.members("vl_api_af_packet_flags_t")
        flags = known["AF_PACKET_API_FLAG_QDISC_BYPASS"] if options.qdisc_bypass else 0
        flags |= known["AF_PACKET_API_FLAG_VERSION_2"] if options.tpacket == 2 else 0
        indexes = []
        for port in dut.ports:
            asked = {
                "mode": control.members("vl_api_af_packet_mode_t")["AF_PACKET_API_MODE_ETHERNET"],
                "use_random_hw_addr": True, "host_if_name": port.ifname, "flags": flags, "num_tx_queues": 1,
            }  # fmt: skip
            try:
                reply = control.call(AF_PACKET, **with_raw({**asked, **fields(options, AF_PACKET)}, options, AF_PACKET))
            except VppRefused as exc:
                raise PointFailed(f"{self.name}: {port.ifname}: {exc}: {self.complaint('packet')}") from None
            indexes.append(int(reply["sw_if_index"]))
        return indexes

    def by_command_line(
        self, host: Host, port: str, driver_name: str, *, zero_copy: bool
    ) -> tuple[str, str, list[str]]:
        """What makes an interface where nobody speaks the API, and its name; all but `port` is of AF_XDP."""
        words = ["create host-interface", *(["v2"] if self.options.tpacket == 2 else []), "name", port]
        words += [] if self.options.qdisc_bypass else ["qdisc-bypass-disable"]
        return " ".join(words), f"host-{port}", []

    def confirm(self, interface: Interface, hardware: str) -> None:
        if f"Linux PACKET socket interface v{self.options.tpacket}" not in hardware:
            raise Unsupported(f"tpacket={self.options.tpacket}: VPP took it and does not show it on {interface.name}")

    def mode(self) -> dict[str, Any]:
        """AF_PACKET leaves no trace in the kernel's view of XDP; the version of the rings has been confirmed."""
        return {"label": f"af_packet v{self.options.tpacket}", **super().mode()}


class VppDpdk(VppForwarder[VppDpdkOptions]):
    """VPP's dpdk plugin: DPDK's virtual devices net_af_xdp or net_af_packet, where it was built with them, or cards."""

    name: ClassVar[str] = "vpp-dpdk"
    plain: ClassVar[str] = "VPP with DPDK"
    options_model: ClassVar[type[Model]] = VppDpdkOptions
    plugin: ClassVar[str] = "dpdk"
    package: ClassVar[str] = "vpp-plugin-dpdk"

    def __init__(self, options: VppDpdkOptions) -> None:
        super().__init__(options)
        self.takes_ports = options.takes_ports

    def in_words(self) -> tuple[str, frozenset[str]]:
        return self.options.in_words(self.plain)

    def unsupported(self, dut: Dut) -> str | None:
        """With `port=pmd` the kernel must be able to let go of the cards."""
        return super().unsupported(dut) or self.options.unsupported(dut)

    def startup(self, dut: Dut) -> dict[str, Any]:
        """The devices; the plugin makes interfaces of them when VPP starts."""
        options, cards = self.options, self.takes_ports
        return {
            "cards": {port.pci: ",".join(options.device_arguments()) for port in dut.ports} if cards else {},
            "vdevs": [] if cards else [options.device(index, port) for index, port in enumerate(dut.ports)],
            **fields(options, STARTUP),
        }

    def attach(self, control: VppControl, dut: Dut) -> list[int]:
        """Find the interface of each port: a card's by the name that it was given, others by their MAC address."""
        rows = control.dump("sw_interface_dump")
        ours = [row for row in rows if row["interface_dev_type"] == "dpdk"]
        key = "interface_name" if self.takes_ports else "l2_address"
        found = {str(row[key]): int(row["sw_if_index"]) for row in ours}
        wanted = [f"xdplab{at}" if self.takes_ports else port.mac for at, port in enumerate(dut.ports)]
        missing = [port.ifname for port, each in zip(dut.ports, wanted, strict=True) if each not in found]
        if missing:
            words = self.complaint("dpdk") or self.complaint("EAL") or "its log says nothing"
            if self.takes_ports:
                raise PointFailed(f"{self.name}: no interface of {', '.join(missing)}; {NOT_HAD}; VPP's log: {words}")
            raise Unsupported(
                f"the dpdk plugin made no net_{self.options.port} interface of {', '.join(missing)} (FD.io's packages "
                f"leave these drivers out): {words}"
            )
        return [found[each] for each in wanted]

    def one_buffer(self) -> str:
        return self.options.one_buffer()

    def ineffective(self) -> str | None:
        dut = self.instance.dut
        return self.options.not_taken(dut) or self.options.not_polled(sockets_in_use(self, dut))

    def mode(self) -> dict[str, Any]:
        return {**self.options.cards_in_use(self.instance.dut), **super().mode()}
