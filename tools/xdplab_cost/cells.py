# SPDX-License-Identifier: Apache-2.0
"""What a cell is made of: a kernel, a driver and its mode, and a forwarder, which is a few lines of shell there."""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xdplab.api import (
    CpuLayout,
    Dut,
    Forwarder,
    ForwarderSpec,
    InputError,
    LocalHost,
    Port,
    PortsPath,
    Unsupported,
    arguments,
    bpf_program,
    forwarder_spec,
    make_forwarder,
    plain_name,
    setup_command,
    vpp_configuration,
)
from xdplab_cost.debian import RELEASE, sort_key
from xdplab_cost.kernels import PINNED

#: The tester alone: its frames are dropped where they first arrive. Every cell's cost is what is above it.
TESTER = "tester"
#: Our own tester as a sender: what a frame costs that it sends as fast as it can, until a program of its own at the
#: other end has counted it.
SENDER = "xdpgen"
#: Both have no forwarder, and nothing is below them; with their titles.
OWN = {TESTER: "tester alone", SENDER: "xdpgen sends, nothing subtracted"}
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
    "ovs-dpdk",
    "testpmd",
)


@dataclass(frozen=True)
class Driver:
    """Ports of a guest and how AF_XDP sockets are bound to them.

    Attributes:
        name: As a user writes it.
        device: QEMU's device behind each port; "": veth pairs.
        zero_copy: Sockets must be zero-copy, else they are copy mode.
        since: The release of Linux that has it first. A kernel of the user's is tried.
        settings: Shell that sets a card up, whose name is `$1`.
    """

    name: str
    device: str = ""
    zero_copy: bool = False
    since: tuple[int, int] = (0, 0)
    settings: str = "true"


#: An interrupt comes when there is something, not some time later.
_UNTHROTTLED = "ethtool -C $1 rx-usecs 0"
#: What a forwarder forwards between, in that order.
_PORTS = ("a1", "b1")
#: By name, in the order of tables.
DRIVERS = {
    driver.name: driver
    for driver in (
        Driver("veth"),
        Driver("igb", "igb", settings=_UNTHROTTLED),
        Driver("igb-zc", "igb", zero_copy=True, since=(6, 14), settings=_UNTHROTTLED),
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
        flows: How many others it has learned before: a frame of each comes first (`send_flows` of the meter).
        frames: It sends them itself: runs of so many and of twice as many, by bpf/cost/marked.c, and nothing is
            subtracted; 0: the meter sends.
        prove: Shell that runs after the frames: a status other than 0, and a line that says why, where it is not what
            its title says.
        bypasses: Layer that its frames do not pass; where they do, the cell fails likewise.
        reason: Why it does not forward with the driver; "": it does.
        title: As a table says it.
    """

    start: str
    programs: Mapping[str, str]
    process: str = ""
    sockets: bool = False
    flows: int = 0
    frames: int = 0
    prove: str = "true"
    bypasses: str = ""
    reason: str = ""
    title: str = ""

    def unsupported(self, kernel: str, driver: Driver) -> str:
        """Why there is no such cell; "": there is."""
        if (kernel in PINNED or RELEASE.fullmatch(kernel)) and sort_key(kernel)[:2] < driver.since:
            return f"the driver has no such mode before Linux {driver.since[0]}.{driver.since[1]}"
        return "it has no AF_XDP socket" if driver.zero_copy and not self.sockets else self.reason


def program_here(name: str) -> str:
    """Path of a program of this machine, also where PATH has no folders of root's.

    Raises:
        Unsupported: it is not there.
    """
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise Unsupported(f"{name} is not installed; `{setup_command()}` installs it")
    return path


def _own(name: str) -> dict[str, str]:
    return {bpf_program(name, LocalHost()): f"usr/bin/{name}"}


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


#: Frames of the smaller run: what loading varies by is below an instruction of each.
_SENT = 65536


def _sender() -> InGuest:
    """It writes its two trials, which end when the frames are sent."""
    stream = {
        "id": 0, "kind": "load", "tx_port": 0, "rx_port": 1, "frame_bytes": 64, "pps": None,
        "src_mac": "02:00:00:00:00:10", "dst_mac": "02:00:00:00:00:11", "src_ip": "10.0.0.1", "dst_ip": "10.0.0.2",
    }  # fmt: skip
    trial = {
        "ports": [{"ifname": "a0", "tx_cpu": 0, "rx": "none"}, {"ifname": "a1"}], "warmup_s": 0, "duration_s": 1,
        "drain_s": 0.01, "progress": False,
    }  # fmt: skip
    start = "\n".join(
        f"$bb echo {shlex.quote(json.dumps({**trial, 'streams': [{**stream, 'count': count}]}))} >/run/trial{number}"
        for number, count in ((1, _SENT), (2, 2 * _SENT))
    )
    return InGuest(start, _own(SENDER), frames=_SENT, title=title_of(SENDER))


def _bridge(asked: Any, driver: Driver) -> InGuest:
    start = """ip link add br0 address 02:00:00:00:00:30 type bridge stp_state 0 mcast_snooping 0 &&
ip link set br0 arp off up && ip link set a1 master br0 && ip link set b1 master br0 &&
bridge fdb replace 02:00:00:00:00:11 dev b1 master static"""
    return InGuest(start, {})


def _xsk(asked: Any, driver: Driver) -> InGuest:
    bind = "zero-copy" if driver.zero_copy else "copy"
    given = {name: getattr(asked.options, name) for name in sorted(asked.options.model_fields_set)}
    config = json.dumps({"role": "forward", "ports": [{"ifname": port} for port in _PORTS], "bind": bind, **given})
    start = f"$bb echo {shlex.quote(config)} >/run/xsk.json && {{ xsk /run/xsk.json & }} && $bb sleep 1"
    return InGuest(start, _own("xsk"), "xsk", sockets=True)


def _dut() -> Dut:
    ports = tuple(Port(name, LocalHost(), name, "", 1500) for name in _PORTS)
    layout = CpuLayout(tester_tx=0, forwarder=0, housekeeping=(0,))
    return Dut(LocalHost(), ports, PortsPath.THROUGH, layout, Path("/run"))


def _ovs(asked: Any, ports: Sequence[tuple[str, list[str]]] | None = None, **more: Any) -> InGuest:
    """Any Open vSwitch; `ports` as its class gives them, if not those."""
    dut = _dut()
    build = asked.build(dut.host)
    if reason := asked.build_gap(dut.host):
        raise Unsupported(reason)
    programs = {str(Path(__file__).with_name("ovs.sh")): "lane/ovs.sh", build.schema: "lane/vswitch.ovsschema"}
    for path in (build.vswitchd, build.ovsdb_server, build.ovsdb_tool, build.vsctl, build.ofctl):
        programs[program_here(path)] = f"usr/bin/{Path(path).name}"
    settings = [*asked.daemon_settings(dut), "pmd-cpu-mask=0x1", *asked.columns(dut.host, "Open_vSwitch")]
    ports = ports or [asked.interface(number, dut) for number in range(len(_PORTS))]
    own = [shlex.join([name, *columns]) for name, columns in ports]
    start = "\n".join([
        f"set -- {shlex.join(f'other_config:{each}' for each in settings)}",
        f"DAEMON={Path(build.vswitchd).name} DATAPATH={asked.datapath} A={shlex.quote(own[0])} B={shlex.quote(own[1])}",
        f"RULES={shlex.quote(chr(10).join(_rules(asked)))}",
        ". /lane/ovs.sh",
    ])  # fmt: skip
    return InGuest(start, programs, Path(build.vswitchd).name, **more)


def _rules(asked: Any) -> list[str]:
    """From its first port to its second; but for the last each is of flows of its own, where there are several."""
    found: list[str] = asked.rules_between("1", "2")
    return found


def _ovs_afxdp(asked: Any, driver: Driver) -> InGuest:
    if driver.zero_copy:
        asked.options = asked.options.model_copy(update={"xdp_mode": "native-with-zerocopy"})
    options = asked.options
    more: dict[str, Any] = {"flows": len(_rules(asked)) - 1}
    if options.flow_offload and options.rules != "misses":
        more["bypasses"] = "AF_XDP socket"
    if options.flow_offload and driver.zero_copy:  # the kernel copies each frame that XDP sends on from such a queue
        more["reason"] = "Open vSwitch leaves flows of zero-copy queues to the socket"
    made = _ovs(asked, sockets=True, **more)
    if not options.flow_offload or options.rules == "ports":
        return made
    appctl = str(Path(asked.build(LocalHost()).vsctl).with_name("ovs-appctl"))
    return replace(
        made,
        programs={**made.programs, program_here(appctl): "usr/bin/ovs-appctl"},
        prove=f"has_masks {options.rule_masks}",
    )


def _dpdk(asked: Any, driver: Driver) -> tuple[dict[str, str], list[str]]:
    """DPDK's drivers of a program on it, files here -> in the guest, and its devices; `port` of its options."""
    if asked.options.takes_ports:
        raise Unsupported(f"{asked.name}: port=pmd: guests of xdplab cost have no card that DPDK has a driver for")
    programs = {}
    for name in (f"net_{asked.options.port}", "mempool_ring"):  # it looks for them when it starts
        found = [path for path in Path("/usr/lib").glob(f"*/dpdk/pmds-*/librte_{name}.so.*") if not path.is_symlink()]
        if not found:
            raise Unsupported(f"DPDK's driver {name} is not installed; `{setup_command()}` installs it")
        programs[str(found[0])] = str(found[0]).lstrip("/")
    copies = "" if driver.zero_copy or asked.options.port != "af_xdp" else ",force_copy=1"
    return programs, [f"{asked.options.virtual_device(index, port)}{copies}" for index, port in enumerate(_PORTS)]


def _ovs_dpdk(asked: Any, driver: Driver) -> InGuest:
    programs, devices = _dpdk(asked, driver)
    queues = ["options:n_rxq=1", f"options:n_rxq_desc={asked.options.n_rxq_desc}"]
    ports = [(f"p{i}", ["type=dpdk", f"options:dpdk-devargs={each}", *queues]) for i, each in enumerate(devices)]
    made = _ovs(asked, ports, sockets=asked.options.port == "af_xdp")
    return replace(made, programs={**made.programs, **programs}, start=f"export RUNTIME_DIRECTORY=/run\n{made.start}")


def _testpmd(asked: Any, driver: Driver) -> InGuest:
    programs, devices = _dpdk(asked, driver)
    programs[program_here("dpdk-testpmd")] = "usr/bin/dpdk-testpmd"
    # its main thread sleeps, the other one forwards
    eal = ["--lcores=0@0,1@0", "--main-lcore=0", "--no-huge", "-m", "192", "--no-pci", "--no-telemetry"]
    own = ["--forward-mode=io", "--auto-start", "--total-num-mbufs=32768", "--no-mlockall", *arguments(asked.options)]
    argv = ["dpdk-testpmd", *eal, *(f"--vdev={each}" for each in devices), "--", *own]
    # it ends when it reads the end of its standard input
    start = f"$bb sleep 100000 | {shlex.join(argv)} & $bb sleep 5"
    return InGuest(start, programs, "dpdk-testpmd", sockets=asked.options.port == "af_xdp")


def _command(asked: Any, driver: Driver) -> InGuest:
    """A program of the user's, whichever sockets it has; its arguments that are files come along, at their paths."""
    if driver.zero_copy:
        return InGuest("true", {}, reason="only the program knows whether it binds zero-copy sockets")
    options = asked.options
    program = Path(shutil.which(options.argv[0]) or options.argv[0])
    if not program.is_file():
        raise InputError(f"command: argv={options.argv[0]}: no such program on this machine: correct it")
    if program.read_bytes()[:4] != b"\x7fELF":
        raise Unsupported(f"{options.argv[0]}: a script, and guests of xdplab cost have no interpreters")
    programs = {str(program.resolve()): f"usr/bin/{program.name}"}
    argv = options.with_values(options.argv, {"port_a": _PORTS[0], "port_b": _PORTS[1], "cpu": 0, "folder": "/run"})
    for number, each in enumerate(argv[1:], 1):
        if Path(each).is_file():
            argv[number] = str(Path(each).resolve())
            programs[argv[number]] = argv[number].lstrip("/")
    argv[0] = program.name
    ready_s = options.ready_s if "ready_s" in options.model_fields_set else 1
    return InGuest(f"{{ {shlex.join(argv)} & }} && $bb sleep {ready_s:g}", programs, program.name, sockets=True)


def _vpp_dpdk(asked: Any, driver: Driver) -> InGuest:
    raise Unsupported("guests of xdplab cost have VPP's own AF_XDP and AF_PACKET ports; DPDK's cost: testpmd, ovs-dpdk")


def _vpp(asked: Any, driver: Driver) -> InGuest:
    """Its main thread forwards: the guest has one CPU."""
    asked.options = asked.options.model_copy(update={"workers": 0})
    program = asked.program(LocalHost())
    plugin = f"{asked.plugin}_plugin.so"
    found = sorted(Path(program).resolve().parent.parent.glob(f"lib/**/vpp_plugins/{plugin}"))
    if not found:
        raise Unsupported(f"{program}: there is no {plugin} in its prefix")
    dut = _dut()
    raw = {"unix": "startup-config /lane/vpp.cli"}
    variables = {**asked.variables(dut), "rundir": "/run", "prefix": "xdplab", "raw": raw}
    config = vpp_configuration("startup.conf.j2", **variables)
    here = LocalHost()
    made = [asked.by_command_line(here, port, driver.device, zero_copy=driver.zero_copy) for port in _PORTS]
    lines, names, files = zip(*made, strict=True)
    lines += tuple(
        f"set interface {words}"
        for one, other in (names, names[::-1])
        for words in (f"state {one} up", f"l2 xconnect {one} {other}", f"rx-mode {one} {asked.options.rx_mode}")
    )
    start = "\n".join([
        "$bb mkdir -p /dev/shm && $bb mount -t tmpfs tmpfs /dev/shm",
        f"$bb echo {shlex.quote(config)} >/run/startup.conf",
        f"$bb echo {shlex.quote(chr(10).join(lines))} >/lane/vpp.cli",
        f"{{ {shlex.quote(program)} -c /run/startup.conf & }}; $bb sleep 8; $bb pidof vpp >/dev/null",
    ])  # fmt: skip
    programs = {path: path.lstrip("/") for path in (program, *map(str, found), *files[0])}
    return InGuest(start, programs, "vpp", sockets=asked.name == "vpp-afxdp")


#: What one CPU and one queue can have; docs/cost.md names the others.
_AFXDP_OPTIONS = {
    "build", "type", "use_need_wakeup", "rx_wakeup", "shared_umem", "tx_copy", "xsk_rx_ring", "xsk_tx_ring",
    "xsk_fill_ring", "xsk_comp_ring", "umem_frames", "umem_frame_size", "umem_headroom", "flow_offload", "flow_entries",
    "flow_masks", "emc_insert_inv_prob", "rules", "rule_masks",
}  # fmt: skip
_XSK_OPTIONS = {
    "batch", "busy_poll_budget", "busy_poll_us", "chunk_bytes", "completion_ring", "fill_ring", "headroom",
    "need_wakeup", "prefer_busy_poll", "rx_ring", "shared_umem", "touch", "tx_ring", "tx_skb_budget", "unaligned",
    "wait", "wake_rx", "wake_tx",
}  # fmt: skip
#: Forwarder -> the options that it has in a guest, and what it is there.
_IN_GUESTS: dict[str, tuple[set[str], Callable[[Any, Driver], InGuest]]] = {
    "xdp": ({"mode", "object", "section"}, _xdp),
    "linux-bridge": (set(), _bridge),
    "ovs-kernel": ({"build"}, lambda asked, driver: _ovs(asked)),
    "xsk": (_XSK_OPTIONS, _xsk),
    "ovs-afxdp": (_AFXDP_OPTIONS, _ovs_afxdp),
    "testpmd": ({"port", "busy_budget", "burst"}, _testpmd),
    "ovs-dpdk": ({"build", "port", "busy_budget", "n_rxq_desc"}, _ovs_dpdk),
    "ovs-afpacket": ({"build"}, lambda asked, driver: _ovs(asked)),
    "command": ({"argv", "ready_s", "redirects"}, _command),
    "vpp-afxdp": ({"vpp", "rx_mode", "rx_queue_size", "tx_queue_size", "multi_buffer"}, _vpp),
    "vpp-afpacket": ({"vpp", "rx_mode", "tpacket", "qdisc_bypass"}, _vpp),
    "vpp-dpdk": ({"vpp", "port"}, _vpp_dpdk),
}


def in_guest(name: str, driver: Driver) -> InGuest:
    """A forwarder as a study names it, or the tester alone.

    Raises:
        InputError: there is none of that name, it has other options in a guest, or a file of its options is missing.
        Unsupported: a program of it is missing.
    """
    if name == TESTER:  # the same whatever sockets are bound like
        return InGuest("true", {}, sockets=True, title=title_of(name))
    if name == SENDER:
        return _sender()
    spec, asked = _asked(name)
    made = _IN_GUESTS[spec.name][1](asked, driver)
    return InGuest(**{**vars(made), "title": plain_name(spec)})


def title_of(name: str) -> str:
    """What a table calls it, whether this machine has it or not."""
    return OWN.get(name) or plain_name(_asked(name)[0])


def versions_of(name: str) -> dict[str, str]:
    """Of the programs that its options choose, on this machine."""
    return {} if name in OWN else dict(_asked(name)[1].versions(LocalHost()))


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
        InputError: as `in_guest`.
        DoesNotCompile: it does not.
    """
    if name not in OWN:
        _asked(name)[1].make(note)


def _asked(name: str) -> tuple[ForwarderSpec, Forwarder[Any]]:
    spec = forwarder_spec(name)
    if spec.name not in _IN_GUESTS:
        raise InputError(f"forwarder {spec.name}: xdplab cost has {', '.join([*_IN_GUESTS, SENDER])}")
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
