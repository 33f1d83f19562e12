# SPDX-License-Identifier: Apache-2.0
"""The kernels that the lane boots: modules, and the guests that run their tests at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nic.qemu import CARDS, IGB, IGB_FAR, PLAIN, VIRTIO, Card

#: What mounts the folders of this machine; virtio_pci is built into later kernels.
_SHARES = ("9p", "9pnet_virtio")


@dataclass(frozen=True)
class Tests:
    """What one guest has and runs.

    Attributes:
        files: Of `guest/`, or of the project (from its root, with pytest's `::`).
        cards: What it has.
        memory_mb: The suite's own Python runs in it.
        iommu: Its cards are behind one, so that a program can have them.
    """

    files: tuple[str, ...]
    cards: tuple[Card, ...] = ()
    memory_mb: int = 768
    iommu: bool = False


@dataclass(frozen=True)
class Kernel:
    """A kernel of `packages.txt`.

    Attributes:
        modules: Those that it loads at boot; what they depend on comes by itself.
        guests: By name, with what they run.
        at_once: How many of them: one for each core of a small machine, their tests of like duration; or one, where
            both of its CPUs are busy, as with programs that spin.
        cards: What a guest has that runs another command.
        memory_mb: Of that guest.
    """

    modules: tuple[str, ...]
    guests: Mapping[str, Tests] = field(default_factory=dict)
    at_once: int = 2
    cards: tuple[Card, ...] = ()
    memory_mb: int = 768


_KNOBS = tuple(
    f"tools/tests/test_root_knobs.py::test_{name}"
    for name in (
        "what_is_live_on_veth_is_set_seen_and_put_back",
        "what_the_machine_has_is_set_seen_and_put_back[sysctl_busy_poll_us]",
        "what_the_machine_has_is_set_seen_and_put_back[sysctl_busy_read_us]",
        "what_veth_has_not_got_is_said",
        "a_level_that_leaves_a_knob_alone_touches_nothing",
    )
)

#: What an older kernel runs, on veth: roles of xsk, parts of the programs, knobs, and the suite with its forwarders.
_OLDER = {
    "roles": Tests(("bpf/tests/test_xsk_roles.py",), memory_mb=1024),
    "parts": Tests(
        (
            "bpf/tests/test_kernels.py",
            "bpf/tests/test_intact.py",
            "bpf/tests/test_lifecycle.py::test_kill_9",
            "bpf/tests/test_nf.py::test_xdp_program_on_single_frames",
            "bpf/tests/test_nf.py::test_longest_prefix_wins",
            "bpf/tests/test_nf.py::test_what_is_in_use_is_reported",
        ),
        memory_mb=1024,
    ),
    "knobs": Tests(_KNOBS),  # not with those before: two folders' conftest.py have one name
    "suite": Tests(("test_4_older_kernel.py",), memory_mb=1536),
}
_OLDER_MODULES = (
    *_SHARES,
    "veth",
    "tun",
    "bridge",
    "crc32c_generic",
    "openvswitch",
    "sch_ingress",
    "cls_bpf",
    "sch_tbf",
)

KERNELS: dict[str, Kernel] = {
    "7.2": Kernel(
        (*_SHARES, "virtio_net", "igb", "tun", "vfio_pci", "vfio_iommu_type1"),
        {
            "drivers": Tests(("test_1_drivers.py", "test_9_restored.py"), (*IGB, *VIRTIO, *PLAIN)),
            "settings": Tests(
                ("test_2_settings.py", "test_3_suite.py", "test_9_restored.py"), (*IGB, *IGB_FAR, *VIRTIO)
            ),
            "dpdk": Tests(("test_5_own_driver.py", "test_9_restored.py"), (*IGB, *IGB_FAR), memory_mb=1536, iommu=True),
        },
        cards=CARDS,
    ),
    "6.1": Kernel(("virtio_pci", *_OLDER_MODULES), _OLDER, at_once=1, memory_mb=1536),
    "6.12": Kernel(_OLDER_MODULES, _OLDER, at_once=1, memory_mb=1536),
}
