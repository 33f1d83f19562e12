# SPDX-License-Identifier: Apache-2.0
"""Instructions by layer: of the kernel by function and module, of a switch by its own functions."""

import bisect
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from xdplab_cost.guest import Boot

#: From here on addresses are the kernel's.
_KERNEL = 1 << 63
#: From here on are modules and BPF programs: 1 GiB behind a kernel that can be moved at boot, 512 MiB behind another
#: (arch/x86/include/asm/page_64_types.h: KERNEL_IMAGE_SIZE). Neither is moved here (nokaslr), nor that large.
_MODULES_BEGIN = 0xFFFFFFFFA0000000
#: Function of all BPF programs.
_PROGRAM = "bpf:program"
#: Turned over in the address of a string move, what was counted is the bytes that it moved (count.c).
_COPIED = 1 << 62
#: What is counted at the first instruction of a kernel's function: system calls of 64-bit programs, and threads that
#: slept and are made runnable.
_ENTRIES = {"system calls": "entry_SYSCALL_64", "wake-ups": "ttwu_do_activate"}
#: By string moves, which is how the kernel copies what is longer than a few bytes; a program's own copies are made with
#: vector registers. What the clock copies for itself is left out.
COPIED = "bytes copied"
EVENTS = (*_ENTRIES, COPIED)
#: The meter is linked statically, below this address; no other program that runs is.
_METER = 1 << 24
#: Not work on frames: timer interrupts; context switches between the meter and the forwarder's process, once a batch,
#: which do not occur where each has a CPU of its own; and the meter itself.
TICKS, SWITCHING, METER = "timer ticks", "scheduling", "meter"
#: Layer -> prefixes of the kernel's functions, leading underscores removed; the first layer with a match counts.
#: Functions of modules and BPF programs are classified by their address instead (`Symbols.function`).
_KERNEL_NAMES: tuple[tuple[str, str], ...] = (
    (TICKS, """tick_ hrtimer sysvec_apic_timer scheduler_tick sched_tick update_process_times update_wall_time
        timekeeping run_local_timers rcu_sched_clock profile_tick lapic_next clockevents_ account_process_tick
        cpuacct calc_global_load run_posix_cpu perf_event_task_tick task_tick trigger_load_balance irqtime"""),
    (SWITCHING, """schedule sched_ switch_to finish_task pick_ put_prev set_next enqueue_task enqueue_entity
        dequeue_task dequeue_entity enqueue_rt dequeue_rt update_curr update_load try_to_wake ttwu_ resched
        switch_mm prepare_task check_preempt wakeup_preempt wake_up ep_poll poll_ pollwake do_sys_poll do_poll
        x64_sys_poll ringbuf irq_work avg_vruntime place_entity rt_ update_rq pull_ push_ cpupri native_sched
        reweight select_task available_idle balance_ autoremove default_wake yield_ do_sched cfs_ dl_ pelt psi_
        native_load_tls load_new switch_fpu fpregs restore_fpregs exit_to_user_mode_loop bpf_ringbuf update_rt
        inc_rt dec_rt sched"""),
    ("AF_XDP socket", "xsk_ xp_ xdp_umem"),
    ("AF_PACKET socket", "packet_ tpacket"),
    ("bridge", "br_ fdb_ nbp_"),
    ("OVS datapath", "ovs_ flow_lookup masked_flow do_execute_actions key_extract"),
    ("XDP", "bpf_ xdp_ dev_map bq_ cpu_map array_map htab_ hash_map"),
    ("driver", """veth_ igb_ virtnet virtqueue vring virtio vp_ eth_type_trans detach_buf page_pool napi_
        net_rx_action busy_poll gro_ dev_gro inet_gro udp4_gro udp_gro swiotlb dma_ iommu_ msi_"""),
    ("system calls", """entry_SYSCALL do_syscall syscall_ x64_sys sys_ sock_ security_ apparmor fget fput fdget
        sockfd move_addr import_ copy_from_user copy_to_user copy_user ksys vfs_ fsnotify rw_verify exit_to_user
        rep_movs entry_ audit_ errseq copy_from_iter copy_page_from skb_copy_datagram iov_iter lock_sock
        release_sock get_user put_user tomoyo selinux hook_socket"""),
    ("locks and lists", "raw_spin rcu_read list_add list_del llist"),
    ("memory", """kmem_ kmalloc kfree slab alloc_pages free_pages get_page put_page free_unref rmqueue memset
        memcpy memcmp clear_page page_frag get_random mod_ folio free_frozen alloc_frozen lru_ obj_cgroup
        mem_cgroup refill_ zone_ pcp kvfree vmalloc check_object check_heap check_stack virt_addr_valid
        cache_from_obj is_vmalloc put_cpu_partial policy_node should_fail memcg_ cmpxchg_double"""),
    ("interrupts", """asm_ common_interrupt sysvec irq_ handle_ do_IRQ do_softirq softirq ack_ apic_ lapic
        local_bh raise_ tasklet generic_handle error_entry error_return paranoid idtentry native_irq
        restore_regs ret_from mask_ unmask x2apic native_apic note_interrupt add_interrupt irqentry fast_mix
        idle_cpu"""),
    ("network stack", """skb_ dev_ netif_ enqueue_to_ process_backlog consume_skb build_skb alloc_skb sk_ sch_
        qdisc net_ validate_xmit udp_ ip_ eth_ llc_ flow_ nf_ nft dst_ neigh copy_skb pskb arp_ dql_ xmit cgroup
        tc_ tcf slow_dst netdev_ fq_codel passthru is_skb siphash"""),
)  # fmt: skip
_KERNEL_LAYERS = tuple((layer, tuple(words.split())) for layer, words in _KERNEL_NAMES)
#: Module -> its layer.
_MODULES = {
    "veth": "driver",
    "igb": "driver",
    "virtio_net": "driver",
    "openvswitch": "OVS datapath",
    "bridge": "bridge",
}
#: Layer -> what is in the names of a switch's functions (Open vSwitch's dpif-netdev.c, netdev-afxdp.c, odp-execute.c).
_SWITCH_NAMES: tuple[tuple[str, str], ...] = (
    ("switch: receive", """rxq_recv rx_batch netdev_rxq xsk_ring_cons prepare_fill dp_packet_use dp_packet_set
        dp_packet_init dp_packet_batch recvmmsg linux_rxq"""),
    ("switch: transmit", """batch_send netdev_send kick_tx complete_tx afxdp_complete sendmmsg linux_send tx_
        umem_elem xpool pmd_output flush_output sock_batch"""),
    ("switch: act", """odp_execute dp_execute execute_cb packet_batch_per_flow dp_netdev_execute
        dp_netdev_actions queue_batches"""),
    ("switch: classify", """miniflow emc_ smc_ dpcls dfc_ fast_path slow_path dp_netdev_input flow_key flow_hash
        cmap_ netdev_flow rss_hash dp_netdev_pmd_lookup hash_ parse_"""),
)  # fmt: skip
#: Library of VPP -> its layer.
_OF_VPP = {"/libvnet.so": "switch: graph nodes", "/libvlib.so": "switch: dispatch", "/libvppinfra.so": "switch"}
_SWITCH_LAYERS = tuple((layer, tuple(words.split())) for layer, words in _SWITCH_NAMES)


@dataclass(frozen=True)
class Cost:
    """What a frame cost in a boot.

    Attributes:
        functions: `WHERE:NAME` -> instructions per frame; WHERE is `kernel`, a module, `bpf`, `meter`, or the path of a
            file that a process had mapped.
        ticks: What the guest's own counter says, ticks of the clock included.
        events: What else there was of each frame: `EVENTS` that this kernel has.
    """

    functions: Mapping[str, float]
    ticks: float
    events: Mapping[str, float] = field(default_factory=dict)

    @property
    def layers(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for function, count in self.functions.items():
            layer = layer_of(*function.rsplit(":", 1))
            found[layer] = found.get(layer, 0.0) + count
        return found

    @property
    def counted(self) -> float:
        return sum(self.functions.values())


def per_frame(bursts: Sequence[int], frames: int) -> float:
    """Median over the pairs of bursts: what runs by the clock, such as a thread of a switch, is in few of them."""
    return median([two - one for one, two in zip(bursts[::2], bursts[1::2], strict=True)] or [0]) / frames


def layer_of(where: str, name: str) -> str:
    """The layer of a function; a stripped program, such as the distribution's, is `switch` as a whole."""
    if where == METER:
        return METER
    if where == "bpf":
        return "XDP"
    if where in _MODULES:
        return _MODULES[where]
    if not where.startswith("/"):
        bare = name.lstrip("_")
        return next((layer for layer, words in _KERNEL_LAYERS if bare.startswith(words)), "other kernel")
    if "libxdp" in where or "libbpf" in where:
        return "switch: receive"
    if where.endswith("_plugin.so"):  # of VPP, whose interfaces are made by plugins
        return "switch: transmit" if "_tx" in name else "switch: receive"
    if vpp := next((layer for library, layer in _OF_VPP.items() if library in where), ""):
        return vpp
    return next((layer for layer, words in _SWITCH_LAYERS if any(word in name for word in words)), "switch")


@dataclass(frozen=True)
class Symbols:
    """Of a kernel and its modules.

    Attributes:
        functions: Module -> (offset in the module, function), ascending; "": the kernel, with addresses.
    """

    functions: Mapping[str, Sequence[tuple[int, str]]]

    def function(self, address: int, modules: Sequence[tuple[int, int, str]]) -> str:
        """`WHERE:NAME`; what lies among the modules of a boot and in none of them is a BPF program."""
        if address < _MODULES_BEGIN:
            return f"kernel:{self._at('', address)}"
        for first, end, module in modules:
            if first <= address < end:
                return f"{module}:{self._at(module, address - first)}"
        return _PROGRAM

    def is_program(self, address: int, modules: Sequence[tuple[int, int, str]]) -> bool:
        """Whether it is in a BPF program."""
        return address >= _MODULES_BEGIN and self.function(address, modules) == _PROGRAM

    def entry(self, name: str) -> int | None:
        """Address of a function of the kernel itself, where it has one of that name."""
        return next((address for address, each in self.functions.get("", ()) if each == name), None)

    def _at(self, module: str, offset: int) -> str:
        functions = self.functions.get(module, ())
        at = bisect.bisect_right(functions, offset, key=lambda each: each[0]) - 1
        return functions[at][1] if at >= 0 else "text"


def symbols_of(boot: Boot) -> Symbols:
    """Of a boot that was asked for them."""
    bases = {name: first for first, _, name in boot.modules} | {"": 0}
    found: dict[str, list[tuple[int, str]]] = {}
    for address, name, module in sorted(boot.symbols):
        if module in bases:  # BPF programs have symbols, too
            found.setdefault(module, []).append((address - bases[module], name))
    return Symbols(found)


def cost_of(boot: Boot, frames: int, symbols: Symbols, files: Mapping[str, str]) -> Cost:
    """By function.

    Args:
        boot: What was counted.
        frames: Of the smaller burst.
        symbols: Of its kernel.
        files: Path of a program in the guest -> here, for the names of its functions.
    """
    functions: dict[str, float] = {}
    events = {
        event: per_frame(boot.counts.get(entry, ()), frames)
        for event, name in _ENTRIES.items() if (entry := symbols.entry(name)) is not None
    } | {COPIED: 0.0}  # fmt: skip
    programs: list[Sequence[int]] = []
    for address, counts in boot.counts.items():
        if symbols.is_program(address, boot.modules):  # one that each burst loads lies elsewhere each time
            programs.append(counts)
            continue
        count = per_frame(counts, frames)
        if not count:
            continue
        copied = address >> 62 in (1, 2)
        function = _where(address ^ _COPIED if copied else address, boot, symbols, files)
        if copied:
            events[COPIED] += count if layer_of(*function.rsplit(":", 1)) != TICKS else 0.0
            continue
        functions[function] = functions.get(function, 0.0) + count
    if programs:
        functions[_PROGRAM] = per_frame([sum(burst) for burst in zip(*programs, strict=True)], frames)
    return Cost(functions, per_frame(boot.bursts, frames), events)


def _where(address: int, boot: Boot, symbols: Symbols, files: Mapping[str, str]) -> str:
    if address >= _KERNEL:
        return symbols.function(address, boot.modules)
    return f"{METER}:main" if address < _METER else _of_process(address, boot.maps, files)


def _of_process(address: int, maps: Sequence[tuple[int, int, int, str]], files: Mapping[str, str]) -> str:
    for first, last, offset, file in maps:
        if first <= address < last:
            name = _function(files.get(file, file), address - first + offset) if file.startswith("/") else file
            return f"{file if file.startswith('/') else f'/{file}'}:{name}"
    return "/other:other"


def _function(file: str, offset: int) -> str:
    names, starts = _names(file)
    at = bisect.bisect_right(starts, offset) - 1
    return names[at] if at >= 0 else "text"


@cache
def _names(file: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Functions of a program by their offset in the file; empty where it is stripped."""
    segments = subprocess.run(["readelf", "-lW", file], capture_output=True, text=True, check=False).stdout
    text = re.search(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ 0x\w+ 0x\w+ R E", segments)
    if text is None:
        return (), ()
    shift = int(text[2], 16) - int(text[1], 16)
    found: set[tuple[int, str]] = set()
    for options in (["-sW"], ["-sW", "--dyn-syms"]):
        table = subprocess.run(["readelf", *options, file], capture_output=True, text=True, check=False).stdout
        for at, name in re.findall(
            r"^\s*\d+: ([0-9a-f]{16})\s+\S+ (?:FUNC|IFUNC)\s+\S+\s+\S+\s+\d+ (\S+)", table, re.MULTILINE
        ):
            found.add((int(at, 16) - shift, name.partition("@")[0]))
    ordered = sorted(found)
    return tuple(name for _, name in ordered), tuple(at for at, _ in ordered)
