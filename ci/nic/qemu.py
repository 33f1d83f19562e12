# SPDX-License-Identifier: Apache-2.0
"""The command line of the guest: cards back to back, and folders of this machine over 9p.

What is not optional, found by trying (QEMU 10.0, Linux 7.2): each igb behind a root port of its own, for their virtual
functions collide on one bus; `iommu_platform=on`, without which virtio_net has no zero-copy; software emulation, for
KVM of a machine that is itself a guest may not boot a stock kernel. The wire is a hub inside QEMU: no tap, no root.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nic.artefact import Artefact

CPUS = 2


@dataclass(frozen=True)
class Card:
    """A port of the guest. Two with the same wire face each other."""

    ifname: str
    device: str
    wire: int

    @property
    def mac(self) -> str:
        """Told apart by it, for Linux numbers interfaces as it finds them."""
        return f"52:54:00:00:{self.wire:02x}:{int(''.join(filter(str.isdigit, self.ifname))):02x}"


_VIRTIO = "virtio-net-pci,iommu_platform=on"
#: Two igb pairs for a path through a forwarder; virtio with zero-copy, and one whose driver cannot have it.
CARDS = (
    Card("igb0", "igb", 1),
    Card("igb1", "igb", 1),
    Card("igb2", "igb", 2),
    Card("igb3", "igb", 2),
    Card("virt0", _VIRTIO, 3),
    Card("virt1", _VIRTIO, 3),
    Card("plain0", "virtio-net-pci", 4),
    Card("plain1", "virtio-net-pci", 4),
)


#: By what they are called in `CARDS`.
IGB, IGB_FAR, VIRTIO, PLAIN = CARDS[0:2], CARDS[2:4], CARDS[4:6], CARDS[6:8]


@dataclass(frozen=True)
class Share:
    """A folder of this machine in the guest."""

    tag: str
    path: Path
    writable: bool = False


#: Each card behind an IOMMU, in a group of its own: what vfio-pci needs. Virtio's obey it by `iommu_platform=on`.
IOMMU = ("-device", "intel-iommu,intremap=on")


def command(
    artefact: Artefact,
    archive: Path,
    shares: tuple[Share, ...],
    cards: tuple[Card, ...],
    memory_mb: int,
    *,
    iommu: bool = False,
) -> list[str]:
    """The argv of QEMU; it ends when the guest powers off."""
    append = "console=ttyS0 panic=-1 mitigations=off nokaslr quiet" + " intel_iommu=on" * iommu
    argv = [
        *emulator(artefact, artefact.image, archive, append),
        *("-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(CPUS), "-m", str(memory_mb)),
        *(IOMMU if iommu else ()),
    ]
    for share in shares:
        argv += ["-virtfs", _virtfs(share)]
    return [*argv, *devices(cards)]


def emulator(artefact: Artefact, image: Path, archive: Path, append: str) -> list[str]:
    """QEMU with its own libraries, a kernel, its first file system and its command line; the console is our output."""
    root = artefact.qemu
    return [
        *(str(root / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", str(root / "usr/lib/x86_64-linux-gnu")),
        *(str(root / "usr/bin/qemu-system-x86_64"), "-L", str(root / "usr/share/qemu")),
        *("-L", str(root / "usr/share/seabios"), "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-serial", "stdio", "-kernel", str(image), "-initrd", str(archive), "-append", append),
    ]


def devices(
    cards: Sequence[Card], cable: Callable[[Card], str] = lambda card: f"hubport,hubid={card.wire}"
) -> list[str]:
    """The cards, and what each is cabled to: a hub inside this QEMU."""
    argv = []
    for number, card in enumerate(cards, 1):
        argv += ["-device", f"pcie-root-port,id=port{number},chassis={number}"]
        argv += ["-netdev", f"{cable(card)},id=net{number}"]
        argv += ["-device", f"{card.device},bus=port{number},netdev=net{number},mac={card.mac},romfile="]
    return argv


def environment(artefact: Artefact) -> dict[str, str]:
    """Where QEMU finds its own modules."""
    return {"QEMU_MODULE_DIR": str(artefact.qemu / "usr/lib/x86_64-linux-gnu/qemu")}


def _virtfs(share: Share) -> str:
    path = str(share.path).replace(",", ",,")  # a comma ends an option of QEMU, two are one
    access = "" if share.writable else ",readonly=on"
    return f"local,path={path},mount_tag={share.tag},security_model=none,multidevs=remap{access}"
