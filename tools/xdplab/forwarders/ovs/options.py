# SPDX-License-Identifier: Apache-2.0
"""The options of the OVS forwarders: each with its range, its key in the database, and how it is seen to be in force.

The models are the table: a field's annotation holds one `OvsKey`. None: OVS gets no value, so its default holds.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from xdplab.forwarders.dpdk import VdevOptions
from xdplab.forwarders.options import Key, RawOptions, declared, power_of_two, when_given
from xdplab.forwarders.ovs.builds import FORMER_NAMES, NAMES, PATCHED, STOCK
from xdplab.model import Model, NamesProgram


@dataclass(frozen=True)
class OvsKey(Key):
    """Where OVS keeps an option (`place`: a column), and what proves that it took effect."""

    #: Patch that brings it, by its name without the number; "": OVS has it.
    patch: str = ""
    #: A key that comes with it, where OVS has had the key itself for other purposes; "": the key tells.
    mark: str = ""
    #: Keys of the port's configuration or status of which the first shown must have the value; none: its own name.
    proof: tuple[str, ...] = ()
    #: What that key must show (None: anything); default: the value as it was written.
    expected: Callable[[str], str | None] = str
    #: What to know when it does not.
    hint: str = ""
    #: For settings of the daemon: what it must have written to its log (regular expression; "": nothing, a default).
    log: Callable[[str], str] | None = None
    #: Where neither port nor log show it: the method of the forwarder that returns why it is not in force, or None.
    proven_by: str = ""

    def __post_init__(self) -> None:
        """An option that nothing proves would be measured under its name without being in force."""
        ways = (self.place == "options", self.log is not None, bool(self.proven_by))
        if sum(ways) != 1:
            raise TypeError(f"{self.names[0]}: one proof is needed: by its port (options), `log` or `proven_by`")

    def documented(self) -> str:
        """Where Open vSwitch documents it, and where it is not in force."""
        brought = f", with patch {self.patch}" if self.patch else ""
        return f"Open vSwitch's {self.place}:{' or '.join(self.names)}{brought}{self.hint and f' ({self.hint})'}."

    def wrong(self, text: str, shown: Mapping[str, str], name: str) -> str | None:
        """None when what a port shows of itself agrees with the value, else what it shows instead."""
        expected = self.expected(text)
        where = next((key for key in self.proof if key in shown), (*self.proof, name)[0])
        seen = shown.get(where)
        if seen == expected or expected is None:
            return None
        if seen is None:
            return f"the port does not report {where}"
        return f"{where} is {seen}, not {expected}" + (f" ({self.hint})" if self.hint else "")

    def logged(self, text: str, lines: str) -> bool:
        """Whether the daemon's log says that it took the value, where that is what proves it."""
        return self.log is None or re.search(self.log(text), lines) is not None


def keys(model: type[Model]) -> frozenset[str]:
    """All keys that a model may write."""
    return frozenset(name for _, key in declared(model, OvsKey) for name in key.names)


def _interface(name: str, patch: str = "", **proof: Any) -> OvsKey:
    return OvsKey("options", (name,), patch=patch and f"netdev-afxdp-{patch}", **proof)


def _build(value: str) -> str:
    if value in FORMER_NAMES:
        raise ValueError(f"{value} is now {FORMER_NAMES[value]}, of Open vSwitch 4.0.0")
    if value not in NAMES and "/" not in value:
        raise ValueError(f"one of {', '.join(NAMES)} or a path is expected (./NAME for one in this folder)")
    return value


def cpu_set(text: str) -> tuple[int, ...]:
    """`1+2` -> (1, 2): a comma would end the option on a command line; a YAML file may also have `1,2`.

    Raises:
        ValueError: not a list of CPUs.
    """
    parts = re.split("[+,]", text)
    if not all(part.isdecimal() for part in parts):
        raise ValueError("CPUs joined by + are expected, as in 1+2")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _cpus(value: str) -> str:
    cpu_set(value)
    return value


def _affinity(value: str) -> str:
    if not re.fullmatch(r"\d+:\d+([+,]\d+:\d+)*", value):
        raise ValueError("QUEUE:CPU joined by + is expected, as in 0:1+1:2")
    return value


def _emc_words(value: str) -> str:
    return {"0": "EMC insertion probability changed to zero", "100": ""}.get(
        value, f"EMC insertion probability changed to 1/{value} "
    )


def _sleep_words(value: str) -> str:
    return rf"max sleep(?: request is|:)\s+{value} us" if value != "0" else ""  # of 3.1, of 3.3 and later


def _flush_words(value: str) -> str:
    return f"Flushing interval for tx queues set to {value} us" if value != "0" else ""


#: What the status calls pages that are not huge.
_PAGES = {"none": "4K"}

#: net/xdp/xsk.c takes the id from the queue's NAPI, which only some drivers set (netif_queue_set_napi); it took it from
#: the first frame before.
_NO_NAPI_ID = "from Linux 6.13 on sockets of drivers that give their queues no NAPI id, as veth, cannot busy-poll"

Ring = Annotated[int | None, Field(ge=64, le=32768), when_given(power_of_two)]

#: Names of patches.
_RINGS = "Add-options-for-rings-and-umem-frames"
_FRAMES = "Add-options-for-frame-size-and-headroom"
_BUSY_POLL = "Add-preferred-busy-polling"
_XDP = "offload-Add-provider-for-XDP"


class OvsOptions(RawOptions):
    """What every OVS forwarder takes."""

    raw_places: ClassVar[Mapping[str, str]] = {
        "options": "of each port, column options of Interface",
        "interface": "of each port, column other_config of Interface",
        "other_config": "of the daemon, column other_config of Open_vSwitch",
    }
    raw_keys: ClassVar[Mapping[str, str]] = {"interface": "other_config", "other_config": "Open_vSwitch"}

    #: Ours by name; or yours: source or a git checkout, a commit of it (`PATH@REF`), an installed prefix, a folder.
    build: Annotated[str, AfterValidator(_build), NamesProgram(ours=NAMES)] = STOCK
    #: `ports`: a rule for each port. `flows`: each flow (UDP source port) is a megaflow, in one of `rule_masks` masks.
    #: `misses`: of 1,024 flows `rule_masks` can be offloaded, each in a mask of its own; the others miss these masks.
    rules: Literal["ports", "flows", "misses"] = "ports"
    rule_masks: Annotated[int, Field(ge=0, le=64), AfterValidator(power_of_two)] = 1

    @model_validator(mode="after")
    def _masks_of_flows(self) -> "OvsOptions":
        if self.rules == "ports" and self.rule_masks > 1:
            raise ValueError("rule_masks needs rules=flows or rules=misses: a rule for each port has one mask")
        if self.rules != "misses" and not self.rule_masks:
            raise ValueError("rule_masks=0, nothing that can be offloaded, needs rules=misses")
        return self


class UserspaceOptions(OvsOptions):
    """What those take whose datapath is the daemon's own."""

    #: 0 switches the exact-match cache off; 1 in so many flows is put into it.
    emc_insert_inv_prob: Annotated[
        int | None, Field(ge=0, le=2**32 - 1), OvsKey("Open_vSwitch", ("emc-insert-inv-prob",), log=_emc_words)
    ] = None


class PmdOptions(UserspaceOptions):
    """What forwarders with PMD threads take next to it."""

    #: How many CPUs poll: the forwarder's, and others that neither the tester nor NAPI uses. Or which ones.
    pmd_cores: Annotated[int, Field(ge=1, le=64)] | None = None
    pmd_cpus: Annotated[str, AfterValidator(_cpus)] | None = None
    pmd_sleep_max_us: Annotated[
        int | None, Field(ge=0, le=10_000), OvsKey("Open_vSwitch", ("pmd-sleep-max", "pmd-maxsleep"), log=_sleep_words)
    ] = None
    rxq_affinity: Annotated[
        str | None, when_given(_affinity), OvsKey("other_config", ("pmd-rxq-affinity",), proven_by="misplaced")
    ] = None
    tx_flush_interval_us: Annotated[
        int | None, Field(ge=0, le=1_000_000), OvsKey("Open_vSwitch", ("tx-flush-interval",), log=_flush_words)
    ] = None

    @model_validator(mode="after")
    def _cores_or_cpus(self) -> "PmdOptions":
        if self.pmd_cores is not None and self.pmd_cpus is not None:
            raise ValueError("pmd_cores and pmd_cpus exclude each other")
        return self


class OvsAfxdpOptions(PmdOptions):
    """Interface options of netdev-afxdp: those of vswitch.xml, and those of our patches (ovs/README.md)."""

    #: `afxdp-nonpmd`: served by the daemon's main thread, which sleeps in poll() between frames.
    type: Literal["afxdp", "afxdp-nonpmd"] = "afxdp"
    xdp_mode: Annotated[
        Literal["best-effort", "native-with-zerocopy", "native", "generic"],
        _interface(
            "xdp-mode",
            proof=("xdp-mode-in-use", "xdp-mode"),  # 3.1 in the configuration, 3.3 and later in the status
            expected=lambda mode: None if mode == "best-effort" else mode,
        ),
    ] = "native"
    n_rxq: Annotated[int, Field(ge=1, le=16), _interface("n_rxq")] = 1
    use_need_wakeup: Annotated[bool | None, _interface("use-need-wakeup")] = None
    xsk_rx_ring: Annotated[Ring, _interface("xsk-rx-ring", _RINGS)] = None
    xsk_tx_ring: Annotated[Ring, _interface("xsk-tx-ring", _RINGS)] = None
    xsk_fill_ring: Annotated[Ring, _interface("xsk-fill-ring", _RINGS)] = None
    xsk_comp_ring: Annotated[Ring, _interface("xsk-comp-ring", _RINGS)] = None
    #: 0: twice the sum of the rings.
    umem_frames: Annotated[
        int | None,
        Field(ge=0, le=1 << 20),
        when_given(power_of_two),
        _interface("umem-frames", _RINGS, expected=lambda frames: None if frames == "0" else frames),
    ] = None
    umem_frame_size: Annotated[
        int | None, Field(ge=2048, le=4096), when_given(power_of_two), _interface("umem-frame-size", _FRAMES)
    ] = None
    umem_headroom: Annotated[int | None, Field(ge=0, le=1024), _interface("umem-headroom", _FRAMES)] = None
    umem_hugepages: Annotated[
        Literal["none", "2M", "1G"] | None,
        _interface(
            "umem-hugepages",
            "Add-option-for-huge-pages",
            proof=("umem-pages",),
            expected=lambda pages: _PAGES.get(pages, pages),
        ),
    ] = None
    busy_poll_us: Annotated[
        int | None,
        Field(ge=0, le=1_000_000),
        _interface(
            "busy-poll",
            _BUSY_POLL,
            proof=("busy-poll-active",),
            expected=lambda us: str(us != "0").lower(),
            hint=_NO_NAPI_ID,
        ),
    ] = None
    busy_poll_budget: Annotated[int | None, Field(ge=1, le=65535), _interface("busy-poll-budget", _BUSY_POLL)] = None
    prefer_busy_poll: Annotated[bool | None, _interface("prefer-busy-poll", _BUSY_POLL)] = None
    rx_wakeup: Annotated[
        Literal["poll", "recvfrom", "none"] | None, _interface("rx-wakeup", "Add-option-for-RX-wakeup")
    ] = None
    #: Completes checksums that the sender at its ports has left to a card.
    fill_checksums: Annotated[bool | None, _interface("fill-checksums", "Complete-checksums-that-are-left-to-a-c")] = (
        None
    )
    #: Packets may take several frames of the UMEM, for jumbo frames (Linux 6.6).
    multi_buffer: Annotated[bool | None, _interface("multi-buffer", "Add-option-for-packets-of-several-frames")] = None
    tx_skb_budget: Annotated[
        int | None,
        Field(ge=32, le=32768),
        _interface(
            "tx-skb-budget",
            "Add-option-for-transmit-budget",
            hint="the kernel has XDP_MAX_TX_SKB_BUDGET from Linux 6.17 on",
        ),
    ] = None
    #: Ports of one group share their UMEM.
    shared_umem: Annotated[
        str | None,
        Field(pattern=r"^[A-Za-z0-9_-]{1,32}$"),
        _interface("shared-umem", "Share-the-umem-of-a-group-of-ports"),
    ] = None
    tx_copy: Annotated[Literal["always", "auto"] | None, _interface("tx-copy", "Hand-over-frames-within-a-umem")] = None
    #: Frames of known flows are forwarded by the XDP program; what proves it is counted.
    #: Without `build`, true and false choose the build that can, so that the two differ in this alone.
    flow_offload: Annotated[
        bool | None,
        OvsKey("Open_vSwitch", ("hw-offload",), patch=_XDP, mark="xdp-flow-entries", proven_by="not_offloaded"),
    ] = None
    flow_entries: Annotated[
        int | None, Field(ge=64, le=1 << 20), OvsKey("options", ("xdp-flow-entries",), patch=_XDP)
    ] = None
    flow_masks: Annotated[int | None, Field(ge=1, le=64), OvsKey("options", ("xdp-flow-masks",), patch=_XDP)] = None

    @model_validator(mode="before")
    @classmethod
    def _build_that_offloads(cls, given: dict[str, Any]) -> dict[str, Any]:
        return given if given.get("flow_offload") is None else {"build": PATCHED, **given}

    @model_validator(mode="after")
    def _threads(self) -> "OvsAfxdpOptions":
        pmd = (self.pmd_cores, self.pmd_cpus, self.pmd_sleep_max_us, self.rxq_affinity)
        if self.type == "afxdp-nonpmd" and any(value is not None for value in pmd):
            raise ValueError("type=afxdp-nonpmd has no PMD thread: pmd_* and rxq_affinity need type=afxdp")
        return self

    @model_validator(mode="after")
    def _sizes_need_offload(self) -> "OvsAfxdpOptions":
        if not self.flow_offload and (self.flow_entries or self.flow_masks):
            raise ValueError("flow_entries and flow_masks are of the offload: they need flow_offload=true")
        return self

    @property
    def umem_bytes(self) -> int:
        default = 2048
        rings = (self.xsk_rx_ring, self.xsk_tx_ring, self.xsk_fill_ring, self.xsk_comp_ring)
        frames = self.umem_frames or 2 * sum(ring or default for ring in rings)
        return frames * int(self.umem_frame_size or 4096)


class OvsDpdkOptions(VdevOptions, PmdOptions):
    """Ports of OVS-DPDK: which vdev, and on which pages."""

    raw_places: ClassVar[Mapping[str, str]] = {**OvsOptions.raw_places, **VdevOptions.raw_places}

    #: No `OvsKey`: 3.1 shows it nowhere. It takes 2048 in silence for what is no power of two.
    n_rxq_desc: Annotated[int, Field(ge=64, le=4096), AfterValidator(power_of_two)] = 2048
