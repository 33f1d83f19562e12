# SPDX-License-Identifier: Apache-2.0
"""The guests: what each has, and the command line of its QEMU."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nic.artefact import Artefact
from nic.qemu import IOMMU, VIRTIO, Card, devices, emulator
from xdplab.model.run import LAB_IN_A_BOX

#: Modules of the kernel, which a guest loads at boot: its disk has none.
MODULES = ("virtio_net", "virtio_blk", "ext4", "igb", "vfio_pci", "vfio_iommu_type1", "veth", "tun", "bridge", "8021q",
           "macvlan", "openvswitch", "sch_ingress", "cls_bpf", "sch_tbf", "nf_tables")  # fmt: skip
#: Where sshd of each guest is reached: no port below 1024, which takes root, and none that this machine's sshd has.
SSH_PORT = 2222
#: The interface that carries SSH.
MGMT = "mgmt"
#: `no_timer_check`: without it a kernel on a busy machine finds the emulated timer too slow, and panics.
_APPEND = "console=ttyS0 panic=-1 mitigations=off no_timer_check quiet intel_iommu=on"


@dataclass(frozen=True)
class Machine:
    """A guest.

    Attributes:
        name: As docs/first-lab.md calls it.
        role: A, B or C.
        documented: Its address there.
        cards: Those that are measured; two of different machines with the same wire are cabled.
        memory_mb: Of it: provisioning reserves 1 GiB of B's for hugepages, and a TRex takes 4 GiB of A's.
        cpus: Of it: a TRex takes three of A's.
        forwards: More ports that this machine reaches at its address: those of a TRex.
    """

    name: str
    role: str
    documented: str
    cards: tuple[Card, ...]
    memory_mb: int
    cpus: int = 3
    forwards: tuple[int, ...] = ()

    @property
    def address(self) -> str:
        """Its sshd's, on this machine only."""
        return "127.83.0." + self.documented.rpartition(".")[2]


#: TRex's filters do not work on QEMU's igb; on virtio it picks the frames that are timed by software.
_OF_TREX = VIRTIO[0].device
#: The last two of A and of B are for a TRex, which keeps the cards that it takes.
MACHINES = (
    Machine("tester", "A", "192.0.2.10",
            (Card("ens1f0", "igb", 1), Card("ens1f1", "igb", 3),
             Card("ens1f2", _OF_TREX, 4), Card("ens1f3", _OF_TREX, 5)),
            6144, 4, (4500, 4501)),
    Machine("forwarder", "B", "192.0.2.20",
            (Card("ens2f0", "igb", 1), Card("ens2f1", "igb", 2), Card("ens2f2", "igb", 4), Card("ens2f3", "igb", 5)),
            3072),
    Machine("far", "C", "192.0.2.30", (Card("ens3f0", "igb", 2), Card("ens3f1", "igb", 3)), 1024),
)  # fmt: skip


def command(artefact: Artefact, machine: Machine, archive: Path, disk: Path, wires: Path, accel: str) -> list[str]:
    """The argv of a machine's QEMU. Started by root, it is nobody's once it has opened its files.

    Args:
        artefact: QEMU and kernel.
        machine: Which.
        archive: Its first file system.
        disk: Its disk's image.
        wires: Folder for the ends of its cables.
        accel: `kvm` or `tcg`.
    """

    def cable(card: Card) -> str:
        (other,) = (each for one in MACHINES for each in one.cards if each.wire == card.wire and each != card)
        here, there = (f"{end}.type=unix,{end}.path={wires / name}" for end, name in
                       (("local", card.ifname), ("remote", other.ifname)))  # fmt: skip
        return f"dgram,{here},{there}"

    # no program is started, and nobody's user is changed, but by root's QEMU, once
    root = os.geteuid() == 0
    unprivileged = ("-sandbox", "on,spawn=deny", "-run-with", "user=nobody") if root else (
        "-sandbox", "on,spawn=deny,elevateprivileges=deny")  # fmt: skip
    reached = {SSH_PORT: 22, **{port: port for port in machine.forwards}}
    forwards = ",".join(f"hostfwd=tcp:{machine.address}:{here}-:{there}" for here, there in reached.items())
    mgmt = f"user,id=mgmt,ipv6=off,{forwards}"
    return [
        *bare(artefact, archive, disk, accel, machine.memory_mb, machine.cpus),
        *("-netdev", mgmt, "-device", f"virtio-net-pci,netdev=mgmt,mac={mgmt_mac(machine)},romfile="),
        *("-smbios", f"type=1,manufacturer=QEMU,product={LAB_IN_A_BOX}"),
        *devices(machine.cards, cable),
        *unprivileged,
    ]


def bare(artefact: Artefact, archive: Path, disk: Path, accel: str, memory_mb: int, cpus: int) -> list[str]:
    """A machine with a disk and no card."""
    return [
        *emulator(artefact, artefact.image, archive, _APPEND),
        *("-machine", "q35,kernel-irqchip=split", "-accel", "tcg,thread=multi" if accel == "tcg" else accel),
        *("-cpu", "max", "-smp", str(cpus), "-m", str(memory_mb), *IOMMU),
        *("-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={str(disk).replace(',', ',,')}"),
        *("-device", "virtio-blk-pci,drive=disk"),
    ]


def mgmt_mac(machine: Machine) -> str:
    """Of its management card."""
    return f"52:54:00:00:00:{MACHINES.index(machine):02x}"


def settled(machines: Sequence[Machine] = MACHINES) -> str:
    """The cables, drawn."""
    ends: dict[int, list[str]] = {}
    for machine in machines:
        for card in machine.cards:
            ends.setdefault(card.wire, []).append(f"{machine.name} {card.ifname}")
    return ", ".join(" ---- ".join(pair) for pair in ends.values())
