# SPDX-License-Identifier: Apache-2.0
"""Instructions per frame: what guests would say is planted; that they say it for real is in test_cost_guest.py."""

import dataclasses
import json
import math
import random
import re
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from lab.command import inline
from lab.linux import git, linux_tree
from lab.records import point, run_record, trial

from xdplab.analysis.run import Run
from xdplab.app import Gate, run_gate
from xdplab.forwarders.vpp import ports
from xdplab.model import ForwarderSpec, InputError, Unsupported
from xdplab.report import exports as forms
from xdplab.runner import Listener
from xdplab.tools import project_root
from xdplab_cost import cells, guest, known, run, table
from xdplab_cost.beside import beside
from xdplab_cost.features import FEATURES, Feature
from xdplab_cost.gate import judge_cells
from xdplab_cost.guest import FRAMES, ROUNDS, Boot, CellFailed, Guest
from xdplab_cost.kernels import PINNED
from xdplab_cost.layers import Cost, Symbols, cost_of, layer_of, symbols_of
from xdplab_cost.repeat import earlier_table
from xdplab_cost.run import CostTable, Wanted, measure

KERNEL = 0xFFFFFFFF81000000
COPIED = 1 << 62
#: Function -> layer.
LAYERS = {
    "kernel:__xsk_generic_xmit": "AF_XDP socket",
    "kernel:xp_alloc": "AF_XDP socket",
    "bpf:bpf_prog_1234_forward": "XDP",
    "kernel:xdp_do_redirect": "XDP",
    "veth:veth_poll": "driver",
    "igb:igb_clean_rx_irq": "driver",
    "openvswitch:ovs_dp_process_packet": "OVS datapath",
    "bridge:br_handle_frame": "bridge",
    "kernel:tick_sched_timer": "timer ticks",
    "kernel:__schedule": "scheduling",
    "kernel:__alloc_skb": "network stack",
    "kernel:kmem_cache_alloc": "memory",
    "kernel:do_syscall_64": "system calls",
    "kernel:packet_snd": "AF_PACKET socket",
    "kernel:handle_softirqs": "interrupts",
    "kernel:crc32c": "other kernel",
    "meter:main": "meter",
    "/usr/bin/ovs-vswitchd:netdev_afxdp_rxq_recv": "switch: receive",
    "/usr/bin/ovs-vswitchd:kick_tx": "switch: transmit",
    "/usr/bin/ovs-vswitchd:odp_execute_actions": "switch: act",
    "/usr/bin/ovs-vswitchd:miniflow_extract": "switch: classify",
    "/usr/bin/ovs-vswitchd:pmd_thread_main": "switch",
    "/usr/lib/libxdp.so.1:text": "switch: receive",
    "/usr/lib/libc.so.6:text": "switch",
    "/opt/vpp/lib/vpp_plugins/af_xdp_plugin.so:af_xdp_device_input_fn_hsw": "switch: receive",
    "/opt/vpp/lib/vpp_plugins/af_xdp_plugin.so:af_xdp_device_class_tx_fn_hsw": "switch: transmit",
    "/opt/vpp/lib/libvnet.so.26.10:ethernet_input_node_fn_hsw": "switch: graph nodes",
    "/opt/vpp/lib/libvlib.so.26.10:dispatch_node": "switch: dispatch",
}


@pytest.mark.parametrize(("function", "layer"), LAYERS.items())
def test_whose_a_function_is(function: str, layer: str) -> None:
    assert layer_of(*function.rsplit(":", 1)) == layer


def sloping(each: float, *, more: Mapping[int, int] | None = None) -> tuple[int, ...]:
    """Counts of 6 bursts with that slope; `more`: burst -> what came on top."""
    return tuple(900 + round(each * FRAMES) * (1 + burst % 2) + (more or {}).get(burst, 0) for burst in range(6))


@pytest.mark.parametrize("behind", [0xFFFFFFFFA0000000, 0xFFFFFFFFC0000000], ids=["fixed", "RANDOMIZE_BASE"])
def test_what_a_frame_costs_is_the_slope(behind: int) -> None:
    """What is paid by the burst is gone, and so is what ran in one of them; BPF programs lie among the modules."""
    module, program = behind + 0x1000, behind + 0x9000
    counts = {
        KERNEL + 4: sloping(3),
        module + 0x104: sloping(5),
        program + 8: sloping(4, more={1: 70_000}),
        0x401000: sloping(2),
        0x555555556000: sloping(7, more={2: 3_000}),
        0x7FFFF7FFE000: sloping(1),
        0x10: sloping(0, more={0: 40}),
        (KERNEL + 0x204) ^ COPIED: sloping(60),
        (KERNEL + 0x304) ^ COPIED: sloping(8),
        KERNEL + 0x200: sloping(2),
        KERNEL + 0x300: sloping(0),
    }
    named = ["packet_snd", "kfree", "entry_SYSCALL_64", "timekeeping_advance"]
    kernel = {
        "": [(KERNEL + 0x100 * number, name) for number, name in enumerate(named)],
        "veth": [(0, "init"), (0x100, "veth_poll")],
    }
    maps = ((0x555555555000, 0x555555559000, 0x1000, "/usr/bin/none"), (0x7FFFF7FFD000, 0x7FFFF7FFF000, 0, "[vdso]"))
    boot = Boot(sloping(24.0), counts, ((module, module + 0x5000, "veth"),), maps)
    found = cost_of(boot, FRAMES, Symbols(kernel), {})
    assert found == Cost(
        {"kernel:packet_snd": 3.0, "kernel:entry_SYSCALL_64": 2.0, "veth:veth_poll": 5.0, "bpf:program": 4.0,
         "meter:main": 2.0, "/usr/bin/none:text": 7.0, "/[vdso]:[vdso]": 1.0},
        24.0,
        {"system calls": 2.0, "bytes copied": 60.0},  # this kernel has no function that is known to wake a thread
    )  # fmt: skip
    assert found.layers == {
        "AF_PACKET socket": 3.0,
        "system calls": 2.0,
        "driver": 5.0,
        "XDP": 4.0,
        "meter": 2.0,
        "switch": 8.0,
    }
    assert found.counted == 24.0


def test_a_program_that_each_burst_loads_elsewhere_is_counted_whole() -> None:
    """The median over bursts of each address would be 0."""
    symbols, modules = Symbols({}), ((0xFFFFFFFFC0000000, 0xFFFFFFFFC0001000, "veth"),)
    loaded = {
        0xFFFFFFFFC0009000 + 64 * burst: tuple(count if number == burst else 0 for number in range(6))
        for burst, count in enumerate(sloping(4))
    }
    assert cost_of(Boot(sloping(4.0), loaded, modules), FRAMES, symbols, {}).functions == {"bpf:program": 4.0}


def test_symbols_follow_their_module_to_another_boot() -> None:
    """Where a module lies depends on what was loaded before; its functions have the same offsets."""
    base, other = 0xFFFFFFFFC0000000, 0xFFFFFFFFC0040000
    listed = ((KERNEL, "kfree", ""), (base + 0x40, "ovs_key", "openvswitch"), (base + 0x9000, "bpf_prog_1", "bpf"))
    symbols = symbols_of(Boot((), {}, ((base, base + 0x5000, "openvswitch"),), symbols=listed))
    moved = ((other, other + 0x5000, "openvswitch"),)
    assert symbols.function(other + 0x44, moved) == "openvswitch:ovs_key"
    assert symbols.function(base + 0x44, moved) == "bpf:program"
    assert symbols.function(KERNEL + 1, moved) == "kernel:kfree"


CONSOLE = """[    0.1] Linux
burst 1024 10
burst 2048 30
burst 1024 11
burst 2048 31
flows are not offloaded: XDP program failed
cost symbols
ffffffffc0000000 t veth_poll\t[veth]
ffffffff81000000 T _stext
cost modules
veth 36864 0 - Live 0xffffffffc0000000 (E)
cost maps
555555555000-555555559000 r-xp 00001000 00:02 17   /usr/bin/xsk
cost end
"""


def test_a_console_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "ROUNDS", 2)
    found = guest._read(CONSOLE, "ffffffff81000000 1 2 3 4\n10 5 6 7 8\n", 3.0)
    assert found.bursts == (10, 30, 11, 31)
    assert found.counts == {0xFFFFFFFF81000000: (1, 2, 3, 4), 0x10: (5, 6, 7, 8)}
    assert found.symbols == ((0xFFFFFFFFC0000000, "veth_poll", "veth"), (0xFFFFFFFF81000000, "_stext", ""))
    assert found.modules == ((0xFFFFFFFFC0000000, 0xFFFFFFFFC0009000, "veth"),)
    assert found.maps == ((0x555555555000, 0x555555559000, 0x1000, "/usr/bin/xsk"),)
    assert found.note == "flows are not offloaded: XDP program failed"
    with pytest.raises(CellFailed, match="4 bursts instead of 4, or marks"):
        guest._read(CONSOLE, "10 5 6 7\n", 3.0)


class Guests:
    """What stands in for QEMU: a cost by forwarder and seed, and what was booted."""

    def __init__(self, costs: Mapping[str, Callable[[int], Cost | str]]) -> None:
        self.costs = costs
        self.booted: list[tuple[str, str, int]] = []

    def boot(self, asked: Guest) -> Any:
        """`title` of the stand-ins is the forwarder's name."""
        found = self.costs[asked.forwarder.title](asked.seed)
        self.booted.append((asked.driver.name, asked.forwarder.title, asked.seed))
        if isinstance(found, str):
            raise CellFailed(found)
        return Boot((), {0: found}, seconds=2.0)  # type: ignore[dict-item]


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Guests:
    """A redirect whose lookups vary, a bridge that does not start, and an Open vSwitch whose counters disagree."""
    made = tmp_path / "made"
    (made / "emulator").mkdir(parents=True)
    for folder in (made, made / "emulator"):
        pins = [{"part": "x", "package": "linux", "version": "6.1-1", "suite": "x"}]
        (folder / "packages.json").write_text(json.dumps({"pins": pins}))
    (made / "vmlinuz").write_bytes(b"kernel")

    @dataclasses.dataclass
    class Artefact:
        kernel: Path = made
        emulator: Path = made / "emulator"
        image: Path = made / "vmlinuz"

    base = {"veth:veth_poll": 1000.0, "meter:main": 50.0}
    planted = Guests({
        "tester": lambda seed: Cost(base, 1050.0),
        "xdp": lambda seed: Cost({**base, "bpf:prog": 200.0, "kernel:kfree": 10.0 + seed, "kernel:tick_x": 7.0 * seed,
                                  "kernel:__schedule": 90.0}, 1350.0 + 8 * seed),
        "linux-bridge": lambda seed: "the forwarder did not start: no bridge",
        "ovs-kernel": lambda seed: Cost({**base, "openvswitch:ovs_x": 500.0}, 3000.0),
    })  # fmt: skip
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run, "obtain", lambda kernel, say: Artefact())
    monkeypatch.setattr(run, "kernel_symbols", lambda made, say: Symbols({}))
    monkeypatch.setattr(run, "compile_source", lambda name, say: None)
    monkeypatch.setattr(run, "versions_of", lambda name: {})
    monkeypatch.setattr(run, "in_guest", stand_in)
    monkeypatch.setattr(run, "cost_of", lambda counted, *_: counted.counts[0])
    parts = ("driver.name", "forwarder.title", "seed", "batch")
    monkeypatch.setattr(Guest, "digest", property(lambda asked: "-".join(str(attrgetter(p)(asked)) for p in parts)))
    monkeypatch.setattr(Guest, "boot", lambda asked: planted.boot(asked))
    return planted


def stand_in(name: str, driver: cells.Driver) -> cells.InGuest:
    if name.startswith("ovs-afxdp:build=/nowhere"):
        raise Unsupported("OVS build '/nowhere': it is not there; `ovs/build` makes such a folder")
    return cells.InGuest("true", {}, sockets=name in ("tester", "xsk"), title=name)


def wanted(*forwarders: str, **more: Any) -> Wanted:
    return Wanted(**{"kernels": ["6.1"], "drivers": ["veth"], "forwarders": forwarders, **more})


def test_a_cell_is_what_is_above_the_tester(guests: Guests) -> None:
    found = measure(wanted("xdp"), lambda line: None)
    alone, xdp = found.cells
    assert (alone.instructions, alone.low, alone.high, alone.whole) == (1000.0, 1000.0, 1000.0, 1050.0)
    # neither the clock's ticks nor what one CPU for two takes
    assert (xdp.instructions, xdp.low, xdp.high) == (212.0, 211.0, 213.0)
    assert xdp.layers == {"XDP": 200.0, "memory": 12.0}
    assert xdp.varies == "memory"
    assert xdp.seeds == (1, 2, 3)
    assert xdp.command == "xdplab cost xdp --kernel 6.1 --driver veth"
    assert CostTable.model_validate_json(found.model_dump_json()) == found


def test_what_was_counted_once_is_kept(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless other code reads it: an earlier one gave functions of modules to another file."""
    first = measure(wanted("xdp"), lambda line: None)
    assert len(guests.booted) == 6
    assert measure(wanted("xdp"), lambda line: None) == first
    assert len(guests.booted) == 6
    assert measure(wanted("xdp", kept=False), lambda line: None) == first
    assert len(guests.booted) == 12
    monkeypatch.setattr(run, "_READ_BY", "another")
    assert measure(wanted("xdp"), lambda line: None) == first
    assert len(guests.booted) == 18


def test_batches_of_another_length_are_other_guests(guests: Guests, tmp_path: Path) -> None:
    """Their command says so, and a table of others is not compared with."""
    first, other = (measure(wanted("xdp", seeds=(1,), **more), lambda line: None) for more in ({}, {"batch": 8}))
    assert len(guests.booted) == 4
    assert other.command == "xdplab cost xdp --kernel 6.1 --driver veth --batch 8 --seeds 1"
    assert other.cells[1].command.endswith(" --batch 8 --seeds 1")
    assert "--batch" not in first.cells[1].command
    assert "above the tester alone, in batches of 8; " in table.markdown(other)
    stored = tmp_path / "stored.json"
    stored.write_text(other.model_dump_json(), encoding="utf-8")
    with pytest.raises(InputError, match=r"stored.json: its frames came in batches of 8: give --batch 8$"):
        earlier_table(stored, wanted("xdp"))


def test_a_cell_that_fails_takes_none_along(guests: Guests) -> None:
    lines: list[str] = []
    found = measure(wanted("linux-bridge", "ovs-kernel", "xdp", drivers=["veth", "igb-zc"], seeds=(1,)), lines.append)
    by_name = {(cell.driver, cell.forwarder): cell for cell in found.cells}
    assert by_name["veth", "linux-bridge"].reason == "the forwarder did not start: no bridge"
    disagreeing = by_name["veth", "ovs-kernel"]
    assert (disagreeing.status, disagreeing.instructions) == ("failed", None)
    assert disagreeing.reason == "the guest's counter says 3,000.0 and the plugin 1,550.0: it slept, or spun"
    assert by_name["veth", "xdp"].status == "ok"
    assert by_name["igb-zc", "xdp"].reason == "the driver has no such mode before Linux 6.14"
    assert len(lines) == 4
    assert "left" in lines[0]


def test_nothing_is_fetched_for_what_is_not_in_guests(
    guests: Guests, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def obtained(kernel: str, say: Callable[[str], None]) -> Any:
        raise AssertionError(f"{kernel} was fetched")

    monkeypatch.setattr(run, "in_guest", cells.in_guest)
    monkeypatch.setattr(run, "obtain", obtained)
    inline(capsys, "cost", "vpp-dpdk", "--driver", "veth", "--driver", "igb").refused(
        "xdplab cost: VPP with DPDK on AF_XDP", "guests of xdplab cost have VPP's own AF_XDP and AF_PACKET ports"
    )


def test_without_a_tester_there_is_no_figure(guests: Guests) -> None:
    guests.costs = {**guests.costs, "tester": lambda seed: "the kernel does not boot: Kernel panic"}
    found = measure(wanted("xdp"), lambda line: None)
    assert {cell.status for cell in found.cells} == {"failed"}
    assert found.cells[1].reason == "the tester alone: the kernel does not boot: Kernel panic"


def test_tables(guests: Guests) -> None:
    found = measure(wanted("linux-bridge", "xdp"), lambda line: None)
    shown = table.text(found)
    assert "xdp                                       212.0 (211.0 to 213.0), because memory varies" in shown
    assert "linux-bridge                         failed: the forwarder did not start: no bridge" in shown
    assert table.NOT_IN_IT in shown
    head, *rows = table.comma_separated(found).splitlines()
    assert head.startswith("kernel,kernel_package,driver,forwarder,")
    assert rows[2].startswith("6.1,linux 6.1-1,veth,xdp,xdp,ok,,212.0,211.0,213.0,")
    assert ",xdplab cost xdp --kernel 6.1 --driver veth," in rows[2]
    page = table.markdown(found)
    assert "|  | tester | linux-bridge | xdp |" in page
    assert "| 6.1, veth | 1,000.0 | failed | 212.0 |" in page
    assert "* 6.1, veth, linux-bridge: failed: the forwarder did not start: no bridge" in page
    assert "From kernel to kernel" not in page


def test_what_is_missing_is_a_row_and_the_others_go_on(guests: Guests, capsys: pytest.CaptureFixture[str]) -> None:
    done = inline(capsys, "cost", "ovs-afxdp:build=/nowhere", "xdp", "--seeds", "1")
    assert done.code == 0, done.err
    assert "unsupported: OVS build '/nowhere': it is not there; `ovs/build` makes such a folder" in done.out
    assert "    211.0" in done.out
    booted = len(guests.booted)
    inline(capsys, "cost", "ovs-afxdp:build=/nowhere").refused("xdplab cost: OVS on AF_XDP (/nowhere): OVS build")
    assert len(guests.booted) == booted


def test_a_kernel_that_is_not_to_be_had_takes_no_other_along(
    guests: Guests, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = run.obtain

    def obtained(kernel: str, say: Callable[[str], None]) -> Any:
        if kernel == "7.2":
            raise Unsupported("linux 7.2: no mirror answers")
        return there(kernel, say)

    monkeypatch.setattr(run, "obtain", obtained)
    found = measure(wanted("xdp", kernels=["6.1", "7.2"], seeds=(1,)), lambda line: None)
    assert [each.status for each in found.cells] == ["ok", "ok", "unsupported", "unsupported"]
    assert found.cells[3].reason == "linux 7.2: no mirror answers"
    assert table.markdown(found).count("no mirror answers") == 1
    inline(capsys, "cost", "xdp", "--kernel", "7.2").refused("xdplab cost: xdp: linux 7.2: no mirror answers")
    monkeypatch.setattr(run, "kernel_symbols", lambda made, say: "the kernel does not boot: Kernel panic")
    failed = measure(wanted("xdp", seeds=(1,), kept=False), lambda line: None)
    why = "the kernel does not boot: Kernel panic"
    assert [each.reason for each in failed.cells] == [why, f"the tester alone: {why}"]


def test_the_ledger(guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inline(capsys, "cost", "xdp", "--ledger", tmp_path / "costs").code == 0
    data = CostTable.model_validate_json((tmp_path / "costs.json").read_text())
    assert (tmp_path / "costs.md").read_text() == table.markdown(data)
    assert (tmp_path / "costs.csv").read_text() == table.comma_separated(data)
    bounds = {"value": 212.0, "lower_value": 211.0, "upper_value": 213.0}
    assert json.loads((tmp_path / "costs.bencher.json").read_text())["xdplab cost 6.1 veth xdp"] == {
        "instructions": bounds
    }
    assert inline(capsys, "cost", "xdp", "--ledger", tmp_path).code == 0
    assert (tmp_path / "cost.json").read_text() == (tmp_path / "costs.json").read_text()


def test_what_changed_from_build_to_build_is_said() -> None:
    names = ["ovs-afxdp", "xdp", "ovs-afxdp:build=patched", "ovs-afxdp:flow_offload=true"]
    values = [1000.0, 500.0, 990.0, 400.0]
    found = [cell(value, forwarder=name, title=name) for name, value in zip(names, values, strict=True)]
    layers = [{"switch": 300.0}, {}, {"switch: act": 290.0}, {}]
    found = [each.model_copy(update={"layers": its}) for each, its in zip(found, layers, strict=True)]
    page = table.markdown(CostTable(emulator="qemu 1", command="", cells=tuple(found)))
    (row,) = [line for line in page.splitlines() if line.startswith("| 6.1, veth | ovs")]
    expected = "ovs-afxdp | ovs-afxdp:build=patched | -10.0 (-1.0 %) | switch -300, switch: act +290 |"
    assert row == f"| 6.1, veth | {expected}"


def test_what_changed_from_kernel_to_kernel_is_said() -> None:
    old = cell(1000, layers={"driver": 600.0, "XDP": 300.0, "memory": 100.0})
    new = cell(1300, kernel="7.2", layers={"driver": 650.0, "XDP": 550.0, "memory": 100.0})
    page = table.markdown(CostTable(emulator="qemu 1", command="xdplab cost x", cells=(old, new)))
    assert "| veth | X | 6.1 to 7.2 | +300.0 (+30.0 %) | XDP +250, driver +50 |  |" in page


def test_another_machine_repeats_a_table_to_the_last_digit(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "cpu_model", lambda host: "AMD")
    table_of = tmp_path / "there.json"
    assert inline(capsys, "cost", "xdp", "--json", table_of).code == 0
    monkeypatch.setattr(run, "cpu_model", lambda host: "Intel")
    again = inline(capsys, "cost", "xdp", "--fresh", "--check", table_of)
    assert again.code == 0, again.err
    assert f"2 of 2 cells that were booted with the same bytes are those of {table_of} to the last digit" in again.out
    assert "it was counted on AMD, this on Intel." in again.out
    guests.costs = {**guests.costs, "xdp": lambda seed: Cost({"veth:veth_poll": 1201.0, "meter:main": 50.0}, 1251.0)}
    other = inline(capsys, "cost", "xdp", "--fresh", "--check", table_of)
    assert other.code == 1
    assert "1 of 2 cells" in other.out
    assert "6.1 veth xdp: booted with the same bytes, it gave another number." in other.out


def test_what_was_booted_with_something_else_is_not_compared(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "there.json"
    found = measure(wanted("xdp"), lambda line: None)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"kernel_sha256": "ab"}, "another kernel"),
        ({"seeds": (1,)}, "other seeds"),
        ({"programs": {"xdpfwd": "ab"}}, "another xdpfwd"),
        ({}, "other tools or libraries of this machine"),
    ]
    for update, why in changes:
        changed = found.cells[1].model_copy(update={"guests": ("x",), **update})
        path.write_text(found.model_copy(update={"cells": (found.cells[0], changed)}).model_dump_json())
        said = inline(capsys, "cost", "xdp", "--check", path)
        assert said.code == 0
        assert f"Not compared, because something else was booted: 6.1 veth xdp ({why})." in said.out


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), ("{}", "no table that `xdplab cost --json` of this version wrote"), ("", "no table")],
)
def test_a_table_to_check_that_is_none(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
) -> None:
    path = tmp_path / "there.json"
    if content is not None:
        path.write_text(content)
    inline(capsys, "cost", "xdp", "--check", path).refused(said)


def test_a_table_to_check_with_none_of_the_cells(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "there.json"
    assert inline(capsys, "cost", "xdp", "--driver", "igb", "--json", path).code == 0
    inline(capsys, "cost", "xdp", "--check", path).refused(
        "it has none of these cells; its command was: xdplab cost xdp"
    )


@pytest.mark.parametrize(("more", "said"), [(282.0, "5628f3fe3b16 (Linux 6.18) +352"), (-40.0, "")])
def test_a_commit_whose_functions_changed_is_named_with_its_price(more: float, said: str) -> None:
    _, loop, flush = known.KNOWN[0].functions
    old = cell(1000, kernel="6.12", kernel_package="linux-image-6.12.9 1", functions={loop: 20.0})
    new = cell(1400, kernel="x", kernel_package="linux 6.18.0 of commit y", functions={loop: 20.0 + more, flush: 70.0})
    page = table.markdown(CostTable(emulator="qemu 1", command="xdplab cost x", cells=(old, new)))
    assert f"| {said} |" in page
    assert ("* 5628f3fe3b16 (Linux 6.18): skb_defer_free_flush() goes through" in page) == bool(said)


def test_a_commit_is_named_only_where_its_release_lies_between() -> None:
    _, loop, _ = known.KNOWN[0].functions
    old = cell(1000, kernel="6.18.5", kernel_package="linux-image-6.18.5 1")
    new = cell(1400, kernel="6.19.6", kernel_package="linux-image-6.19.6 1", functions={loop: 400.0})
    assert not [*known.between(old, new)]
    assert all(re.fullmatch(r"[0-9a-f]{12}", each.commit) for each in known.KNOWN)


def of_kernels(*values: float) -> str:
    """The page of as many kernels from 6.1.0-47 on."""
    cells = [
        cell(value, kernel=f"6.1.0-{number}", title="X", layers={"driver": value})
        for number, value in enumerate(values, 47)
    ]
    return table.markdown(CostTable(emulator="qemu 1", command="", cells=tuple(cells)))


def steps_of(page: str) -> list[tuple[str, str]]:
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| veth")]
    return [(row[2], row[3]) for row in rows]


def test_of_many_kernels_small_steps_and_layers_between_are_left_out() -> None:
    page = of_kernels(1000.0, 1000.0, 1002.0, 1100.0, *[1100.0] * 6)
    assert steps_of(page) == [("6.1.0-49 to 6.1.0-50", "+98.0 (+9.8 %)")]
    headings = [line for line in page.splitlines() if line.startswith("### ")]
    assert headings == ["### 6.1.0-47, veth", "### 6.1.0-56, veth"]
    assert "| 6.1.0-52, veth | 1,100.0 |" in page


def test_small_steps_that_add_up_are_one() -> None:
    page = of_kernels(1000.0, 1004.0, 1008.0, 1012.0, 1012.0)
    assert steps_of(page) == [("6.1.0-47 to 6.1.0-49", "+8.0 (+0.8 %)")]


def test_kernels_that_behave_alike_are_one_row() -> None:
    words = [
        ("6.1.0-47", "works", "works", ""), ("6.1.0-48", "works", "inert", "3 calls, 4 without"),
        ("6.1.0-49", "works", "inert", "5 calls, 6 without"), ("6.1.0-50", "refused", "refused", "no sockets"),
    ]  # fmt: skip
    more = {"driver": "veth", "date": "2026-11-29", "command": ""}
    found = [
        Feature(kernel=kernel, feature=name, found=word, detail=why if word != "works" else "", **more)
        for kernel, sockets, other, why in words
        for name in FEATURES
        for word in [sockets if name == FEATURES[0] else other]
    ]
    page = table.markdown(CostTable(emulator="qemu 1", command="", cells=(cell(1000),), features=tuple(found)))
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| 6.1.0-")]
    assert rows == ["| 6.1.0-47, veth", "| 6.1.0-48 to 6.1.0-49, veth", "| 6.1.0-50, veth"]
    assert f"* {FEATURES[1]}: inert: 3 calls, 4 without (6.1.0-48 to 6.1.0-49 veth)" in page
    assert page.count("no sockets") == 1


def test_functions_are_above_the_tester_and_small_ones_are_left_out(guests: Guests) -> None:
    alone, xdp = measure(wanted("xdp", seeds=(1,)), lambda line: None).cells
    assert alone.functions == {"veth:veth_poll": 1000.0}
    assert xdp.functions == {"bpf:prog": 200.0, "kernel:kfree": 11.0}


def test_the_published_page_is_what_its_data_give() -> None:
    """docs/cost-table.md was written by `xdplab cost --json ... --markdown ...`, and by nobody's hand."""
    docs = project_root() / "docs"
    data = CostTable.model_validate_json((docs / "cost-table.json").read_text(encoding="utf-8"))
    assert (docs / "cost-table.md").read_text(encoding="utf-8") == table.markdown(data)
    measured = [cell for cell in data.cells if cell.status == "ok"]
    assert all(cell.low <= cell.instructions <= cell.high for cell in measured)  # type: ignore[operator]
    assert {cell.kernel for cell in measured} >= {"6.1", "7.2"}
    assert {cell.driver for cell in measured} >= {"veth", "igb"}
    assert "ovs-kernel" in {cell.forwarder for cell in measured}
    for each in measured:  # layers below half an instruction are left out, and medians of layers do not add up
        spread = each.high - each.low  # type: ignore[operator]
        assert sum(each.layers.values()) == pytest.approx(each.instructions, abs=5 + spread)


def test_the_exit_code_says_whether_all_cells_have_a_figure(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cost.json"
    good = inline(capsys, "cost", "xdp", "--seeds", "1", "--json", path)
    assert good.code == 0, good.err
    assert json.loads(path.read_text())["cells"][1]["instructions"] == 211.0
    assert inline(capsys, "cost", "linux-bridge").code == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kernel", "5.15"], "--kernel 5.15: it is one of 6.1, 6.12, 7.2, or a release"),
        (["--driver", "mlx5"], "driver mlx5: it is one of veth, igb, igb-zc, virtio"),
        (["--json", "/nowhere/cost.json"], "/nowhere/cost.json: there is no folder /nowhere"),
    ],
)
def test_bad_input_is_one_line(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    inline(capsys, "cost", "xdp", *options).refused(said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("l3fwd", "forwarder l3fwd: xdplab cost has xdp, linux-bridge, "),
        ("xsk:sockets=2", "option sockets: in guests of xdplab cost it has batch, "),
        ("ovs-afxdp:build", "option 'build' of forwarder 'ovs-afxdp' is not option=value"),
        ("ovs-afxdp:flow_offload=perhaps", "forwarder ovs-afxdp: flow_offload: .*perhaps"),
        ("xdp:object=/nowhere/mine.o", "object=/nowhere/mine.o: there is no such file"),
        ("ovs-afxdp:build=/nowhere", "'/nowhere': local has no /nowhere/ovs-vswitchd; `ovs/build` makes such"),
        ("command:argv=no-such-program", "argv=no-such-program: no such program on "),
        ("ovs-afxdp:n_rxq=2", "option n_rxq: in guests of xdplab cost it has build, "),
        ("ovs-afxdp:rule_masks=0", "rule_masks=0, nothing that can be offloaded, needs rules=misses"),
    ],
)
def test_a_forwarder_that_is_none(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        cells.in_guest(name, cells.DRIVERS["veth"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ovs-afxdp:tx_copy=auto", "tx_copy=auto: OVS build 'stock' .* has no tx-copy; patch .* brings it"),
        ("command:argv=ldd", "ldd: a script, and guests of xdplab cost have no interpreters"),
        ("vpp-afxdp", "VPP is optional and not installed: no program on PATH"),
    ],
)
def test_what_this_machine_lacks_is_unsupported(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDPLAB_VPP", raising=False)
    with pytest.raises(Unsupported, match=said):
        cells.in_guest(name, cells.DRIVERS["veth"])


@pytest.mark.parametrize(
    ("name", "driver", "lines"),
    [
        (
            "vpp-afxdp:rx_queue_size=1024",
            "igb-zc",
            [
                "create interface af_xdp host-if a1 name a1 num-rx-queues 1 rx-queue-size 1024 tx-queue-size 512 "
                "no-syscall-lock zero-copy prog {default}",
                "set interface l2 xconnect b1 a1",
                "set interface rx-mode a1 polling",
            ],
        ),
        (
            "vpp-afpacket:tpacket=2",
            "veth",
            ["create host-interface v2 name b1", "set interface l2 xconnect host-a1 host-b1",
             "set interface rx-mode host-a1 interrupt"],
        ),
    ],
)  # fmt: skip
def test_vpp_is_set_up_by_command_lines(
    name: str, driver: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/vpp"
    plugins = tmp_path / "lib/x86_64-linux-gnu/vpp_plugins"
    for folder in (program.parent, plugins):
        folder.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="ascii")
    program.chmod(0o755)
    with pytest.raises(Unsupported, match=r"there is no af_(xdp|packet)_plugin.so in its prefix"):
        cells.in_guest(f"{name},vpp={program}", cells.DRIVERS[driver])
    for plugin in ("af_xdp", "af_packet"):
        (plugins / f"{plugin}_plugin.so").write_bytes(b"")
    monkeypatch.setenv("XDPLAB_VPP", str(tmp_path))
    default = tmp_path / "xsk_def_xdp_prog.o"
    default.write_bytes(b"")
    monkeypatch.setattr(ports, "_DEFAULT_PROGRAM", (str(default),))
    made = cells.in_guest(name, cells.DRIVERS[driver])
    assert [line for line in lines if line.format(default=default) not in made.start] == []
    assert (str(default) in made.programs) == (driver == "igb-zc")
    assert "startup-config /lane/vpp.cli" in made.start
    assert "main-core 0" in made.start
    assert "corelist-workers" not in made.start
    assert made.programs[str(program)] == str(program)[1:]


def test_a_program_of_the_users_gets_its_ports_and_its_files(tmp_path: Path) -> None:
    config = tmp_path / "hop.conf"
    config.write_text("ports: 2\n", encoding="utf-8")
    made = cells.in_guest(f"command:argv=cat -c {config} {{port_a}} {{port_b}},ready_s=3", cells.DRIVERS["veth"])
    assert made.start == f"{{ cat -c {config} a1 b1 & }} && $bb sleep 3"
    assert made.programs[str(config)] == str(config)[1:]
    assert (made.process, made.title) == ("cat", "program cat")


@pytest.mark.parametrize(
    ("name", "flows", "rules", "proof"),
    [
        ("ovs-afxdp", 0, "RULES=in_port=1,actions=output:2", "true"),
        ("ovs-afxdp:flow_offload=true,rules=misses,rule_masks=8", 8, "tp_src=0x317/0x3ff", "has_masks 8"),
        ("ovs-afxdp:flow_offload=true,rules=flows,rule_masks=4", 64, "tp_src=0x10/0x3f", "has_masks 4"),
        ("ovs-afxdp:rules=misses,rule_masks=8", 8, "tp_src=0x317/0x3ff", "true"),
    ],
)
def test_masks_are_planted_and_proven(
    name: str, flows: int, rules: str, proof: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the build is there is not asked."""
    monkeypatch.setattr("xdplab.forwarders.ovs.forwarder.OvsForwarder.build_gap", lambda *_: None)
    monkeypatch.setattr("xdplab.forwarders.ovs.forwarder.OvsForwarder.columns", lambda *_: [])
    monkeypatch.setattr(cells, "program_here", lambda path: path)
    made = cells.in_guest(name, cells.DRIVERS["veth"])
    assert (made.flows, made.prove) == (flows, proof)
    assert rules in made.start


def test_options_of_the_program_are_in_its_configuration() -> None:
    made = cells.in_guest("xsk:batch=8,need_wakeup=false", cells.DRIVERS["igb-zc"])
    assert '"bind": "zero-copy", "batch": 8, "need_wakeup": false}' in made.start


def test_options_of_ports_and_of_the_daemon_are_set_in_the_guest() -> None:
    name = "ovs-afxdp:build=patched,tx_copy=always,emc_insert_inv_prob=0"
    made = {mode: cells.in_guest(name, cells.DRIVERS[mode]).start for mode in ("veth", "igb-zc")}
    assert "options:tx-copy=always" in made["veth"]
    assert "set -- other_config:pmd-cpu-mask=0x1 other_config:emc-insert-inv-prob=0\n" in made["veth"]
    assert "A='a1 type=afxdp options:xdp-mode=native options:n_rxq=1 options:tx-copy=always'" in made["veth"]
    assert "B='b1 type=afxdp options:xdp-mode=native-with-zerocopy " in made["igb-zc"]


def test_testpmd_copies_where_the_driver_of_the_guest_is_copy_mode() -> None:
    made = {
        name: cells.in_guest(name, cells.DRIVERS[driver]).start
        for name, driver in (
            ("testpmd", "igb-zc"),
            ("testpmd:busy_budget=0,burst=16", "igb"),
            ("testpmd:port=af_packet", "igb"),
        )
    }
    assert "--vdev=net_af_xdp0,iface=a1,busy_budget=64 " in made["testpmd"]
    assert "iface=b1,busy_budget=0,force_copy=1 -- " in made["testpmd:busy_budget=0,burst=16"]
    assert "--burst=16" in made["testpmd:busy_budget=0,burst=16"]
    assert "force_copy" not in made["testpmd:port=af_packet"]


def test_what_a_guest_says_of_a_failure() -> None:
    complaint = guest._complaint
    assert complaint("x\na1: busy\ncost fail: the forwarder did not start\n") == "the forwarder did not start: a1: busy"
    assert (
        complaint("Kernel panic - not syncing: no init")
        == "the kernel does not boot: Kernel panic - not syncing: no init"
    )
    assert complaint("cost end") == ""


def test_libraries_are_where_their_program_looks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the system are below /usr, to which its /lib leads; others stay, for a program of a prefix."""
    monkeypatch.setattr(
        guest, "_libraries", lambda path: ("/lib64/ld.so.2", "/usr/lib/libc.so", "/opt/vpp/lib/libvnet.so")
    )
    found = guest._with_libraries({"/opt/vpp/bin/vpp": "opt/vpp/bin/vpp"})
    assert [*found] == ["opt/vpp/bin/vpp", "usr/lib64/ld.so.2", "usr/lib/libc.so", "opt/vpp/lib/libvnet.so"]


@pytest.mark.parametrize("name", ["init", "ovs.sh", "features.sh"])
def test_scripts_of_the_guest_are_shell(name: str) -> None:
    subprocess.run(["sh", "-n", str(Path(guest.__file__).with_name(name))], check=True)


def test_the_plugin_keeps_all_bursts() -> None:
    assert 2 * ROUNDS <= 32


def test_a_frame_that_went_another_way_is_no_figure(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    """The title says that it goes past the socket; the guest says why it does not."""
    asked = cells.InGuest("true", {}, bypasses="AF_XDP socket", title="flows")
    monkeypatch.setattr(run, "in_guest", lambda name, driver: asked if name == "flows" else stand_in(name, driver))
    guests.costs = {
        **guests.costs, "flows": lambda seed: Cost({"veth:veth_poll": 1000.0, "kernel:xsk_rcv": 404.0}, 1404.0),
    }  # fmt: skip
    found = measure(wanted("flows", seeds=(1,)), lambda line: None).cells[1]
    assert (
        found.reason
        == "its frames went through the AF_XDP socket (404 instructions each): the program does not say why"
    )


def cell(value: float, spread: float = 0.0, **more: Any) -> run.Cell:
    names = {"kernel": "6.1", "kernel_package": "linux 6.1-1", "kernel_sha256": "0", "driver": "veth", "forwarder": "x"}
    ends = {"instructions": value, "low": value - spread, "high": value + spread}
    given = {**names, **ends, "title": "X", "status": "ok", "seeds": (1, 2, 3), "command": ""}
    return run.Cell(**{**given, **more})


@pytest.mark.parametrize(
    ("slow_one", "said"),
    [
        (2000, "Pairs of forwarders that both can order: 1, 1 of them alike."),
        (500, "Slow takes 500.0 instructions and Fast 1,000.0, but the latter has the better p50."),
        (1000, "Pairs of forwarders that both can order: 0, 0 of them alike."),
    ],
)
def test_order_by_instructions_next_to_the_measured_one(results: Path, slow_one: float, said: str) -> None:
    changes = {"testbed": "fake", "tester": "fake", "method.duration_s": 0.05}
    slower = "fake:base_latency_us=6.0"
    measured = Run.named(run_gate(Gate("fake", slower, 0.05, changes=changes), Listener(), results).run, results)
    cells_ = (cell(1000, forwarder="fake", title="Fast"), cell(slow_one, forwarder=slower, title="Slow"))
    table_ = CostTable(emulator="qemu 1", command="", cells=cells_)
    assert said in [*beside(table_, measured).sentences()]
    assert "| Slow |" in beside(table_, measured).text()
    with pytest.raises(InputError, match="fewer than two forwarders of this table; its own are fake, fake:base"):
        beside(table_.model_copy(update={"cells": cells_[:1]}), measured)


def test_pairs_of_a_run_next_to_instructions_are_corrected_together() -> None:
    """Of ten equal rows under noise of a factor of two some pair of 45 was ordered in each table."""
    points = [
        point("fake").model_copy(update={"forwarder": ForwarderSpec(name="fake", options={"seed": seed})})
        for seed in range(10)
    ]
    noise = random.Random(1)
    trials = [trial(at, n, [round(10_000 * math.exp(noise.gauss(0, 0.7)))] * 200) for at in points for n in range(3)]
    study = {
        "method": {"name": "latency"},
        "repetitions": 3,
        "forwarders": [at.forwarder.model_dump() for at in points],
    }
    run = Run(Path("x"), run_record(*points, study=study), trials)
    titles = [at.forwarder.title for at in points]
    cells_ = tuple(cell(1000 + n, forwarder=title, title=title) for n, title in enumerate(titles))
    found = beside(CostTable(emulator="qemu 1", command="", cells=cells_), run)
    assert [*found.sentences()] == ["Pairs of forwarders that both can order: 0, 0 of them alike."]


@pytest.mark.parametrize(
    ("base", "new", "verdict", "code"),
    [
        (cell(1000), cell(1000), "pass", 0),
        (cell(1000), cell(1005), "pass", 0),
        (cell(1000), cell(1006), "slower", 1),
        (cell(1000), cell(900), "pass", 0),
        (cell(1000, 8), cell(1006, 8), "undecided", 125),
        (cell(1000, 8), cell(1030, 8), "slower", 1),
        (cell(0), cell(1000), "undecided", 125),
        (cell(1000), cell(0, status="failed", reason="it hung", instructions=None), "broken", 1),
        (cell(0, status="failed", reason="it hung", instructions=None), cell(1000), "undecided", 125),
        *(
            (cell(1000), cell(0, status="failed", reason=reason, instructions=None), "undecided", 125)
            for reason in (
                "the tester alone: the kernel does not boot: Kernel panic",
                "the guest timed out after 600 s; its console ends: x",
                "the plugin wrote nothing: is the disk full?",
            )
        ),
        (cell(1000), cell(0, status="unsupported", reason="no socket", instructions=None), "unsupported", 125),
    ],
)
def test_a_gate_by_cost(base: run.Cell, new: run.Cell, verdict: str, code: int) -> None:
    found = judge_cells(base, new, 0.005)
    assert (found.verdict, found.exit_code) == (verdict, code), found.sentence


def test_what_a_gate_by_cost_says() -> None:
    found = judge_cells(cell(1000, 1), cell(1010, 1), 0.005)
    assert found.sentence == (
        "slower: the new one's cost of a frame is worse by more than the allowed 0.5 % "
        "(+1.00 %, +0.80 % to +1.20 % over 3 seeds of each)"
    )
    assert "3 emulated guests of each" in forms.markdown(found)
    assert forms.bencher(found)["xdplab gate new"]["instructions"] == {
        "value": 1010.0, "lower_value": 1009.0, "upper_value": 1011.0,
    }  # fmt: skip


def test_the_command_gates_by_cost(guests: Guests, capsys: pytest.CaptureFixture[str]) -> None:
    guests.costs = {**guests.costs, "slow": lambda seed: Cost({"veth:veth_poll": 1300.0}, 1300.0)}
    equal = inline(capsys, "gate", "xdp", "xdp", "--cost", "--max-slowdown", "2%")
    assert equal.code == 0, equal.err
    assert "pass: the new one's cost of a frame is not worse by more than 2 %" in equal.out
    slower = inline(capsys, "gate", "xdp", "slow", "--cost", "--max-slowdown", "1%")
    assert slower.code == 1, slower.err
    inline(capsys, "gate", "xdp", "xdp", "--cost", "--kernel", "2.4").refused("kernel 2.4: it is one of")
    three = ["--kernel", "6.1", "--kernel", "6.12", "--kernel", "7.2"]
    inline(capsys, "gate", "xdp", "xdp", "--cost", *three).refused("--kernel: 3 of them")


def test_a_gate_between_two_kernels(
    guests: Guests, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first is BASE's, whichever is the newer one."""
    kernel = [""]
    there, boot = run.obtain, guests.boot
    monkeypatch.setattr(run, "obtain", lambda asked, say: kernel.__setitem__(0, asked) or there(asked, say))
    monkeypatch.setattr(Guest, "digest", property(lambda asked: f"{kernel}-{asked.forwarder.title}-{asked.seed}"))
    monkeypatch.setattr(Guest, "boot", lambda asked: boot(asked))
    costs = {"6.1": 1200.0, "7.2": 1300.0}
    guests.costs = {
        "tester": lambda seed: Cost({"veth:veth_poll": 1000.0}, 1000.0),
        "xdp": lambda seed: Cost({"veth:veth_poll": costs[kernel[0]]}, costs[kernel[0]]),
    }
    out = tmp_path / "gate.json"
    kernels = ["--kernel", "7.2", "--kernel", "6.1"]
    assert inline(capsys, "gate", "xdp", "xdp", "--cost", *kernels).code == 0
    slower = inline(capsys, "gate", "xdp", "xdp", "--cost", "--kernel", "6.1", "--kernel", "7.2", "--json", out)
    assert slower.code == 1, slower.err
    found = json.loads(out.read_text())
    assert (found["base"]["forwarder"], found["new"]["forwarder"]) == ("xdp on Linux 6.1", "xdp on Linux 7.2")
    assert (found["base"]["value"], found["new"]["value"]) == (200.0, 300.0)
    tester = {"6.1": 1000.0, "7.2": 1020.0}
    guests.costs["tester"] = lambda seed: Cost({"veth:veth_poll": tester[kernel[0]]}, tester[kernel[0]])
    monkeypatch.setattr(run, "_kept_cost", lambda guest: tmp_path / f"again {guest.digest}")
    both = ["--kernel", "6.1", "--kernel", "7.2"]
    shown = inline(capsys, "gate", "xdp", "xdp", "--cost", *both)
    assert (
        "the tester alone: +20.0 instructions, left out here; `xdplab gate tester tester --cost` judges them"
        in shown.out
    )
    alone = inline(capsys, "gate", "tester", "tester", "--cost", *both, "--max-slowdown", "1%")
    assert (alone.code, "+2.00 %" in alone.out) == (1, True), alone.out + alone.err


def test_a_verdict_says_which_layers_and_functions_took_the_instructions() -> None:
    layers = {f"layer {number}": 10.0 * number for number in range(20)}
    functions = {"kernel:xsk_rcv": 40.0, "kernel:xp_alloc": 12.0, "veth:veth_poll": 90.0}
    old = cell(1000, layers={"AF_XDP socket": 60.0, "driver": 90.0}, functions=functions)
    new = cell(
        1100, layers={"AF_XDP socket": 110.0, "driver": 90.4, **layers}, functions={**functions, "kernel:xsk_rcv": 90.0}
    )
    found = judge_cells(old, new, 0.005)
    assert [each.layer for each in found.changes][:2] == ["layer 19", "layer 18"]
    page = forms.markdown(
        judge_cells(old, new.model_copy(update={"layers": {**old.layers, "AF_XDP socket": 110.0}}), 0.005)
    )
    assert "| AF_XDP socket | +50.0 | `kernel:xsk_rcv` +50 |" in page
    assert "driver" not in page
    assert len(forms.markdown(found).splitlines()) <= 20


@pytest.mark.parametrize(
    ("new", "line"),
    [
        (cell(1100), "not ok 1 xdplab gate x against x"),
        (cell(1000), "ok 1 xdplab gate x against x"),
        (cell(1000).model_copy(update={"status": "unsupported"}), "ok 1 xdplab gate x against x # SKIP"),
    ],
)
def test_a_verdict_as_ktap(new: run.Cell, line: str) -> None:
    text = forms.ktap(judge_cells(cell(1000), new, 0.005)).splitlines()
    assert text[:2] == ["KTAP version 1", "1..1"]
    assert text[-1] == line
    assert text[2].startswith("# ")


def test_a_table_as_ktap() -> None:
    cells_ = (cell(1000), cell(0, title="Y", status="failed", reason="no veth", instructions=None),
              cell(0, title="Z", status="unsupported", reason="not installed", instructions=None))  # fmt: skip
    assert table.ktap(CostTable(emulator="qemu 1", command="", cells=cells_)).splitlines() == [
        "KTAP version 1", "1..3", "# 1000.0 instructions per frame", "ok 1 6.1 veth X",
        "# no veth", "not ok 2 6.1 veth Y", "ok 3 6.1 veth Z # SKIP not installed",
    ]  # fmt: skip


def test_what_make_ledger_asks_for_is_known() -> None:
    dry = subprocess.run(
        ["make", "-n", "ledger"], cwd=project_root(), capture_output=True, text=True, check=True
    ).stdout
    (line,) = [line for line in dry.replace("\\\n", " ").splitlines() if ".venv/bin/xdplab cost" in line]
    words = shlex.split(line.partition("||")[0])[2:]
    assert words[-3:] == ["--features", "--ledger", "build/ledger"]
    kernels = [words[at + 1] for at, word in enumerate(words) if word == "--kernel"]
    drivers = [words[at + 1] for at, word in enumerate(words) if word == "--driver"]
    assert set(kernels) == set(PINNED)
    assert set(drivers) == set(cells.DRIVERS)
    assert all(cells.title_of(name) for name in words[: words.index("--kernel")])


def test_each_command_of_the_page(
    guests: Guests, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = (project_root() / "docs" / "cost.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    lines = [re.sub(r"\s{2,}#.*", "", line) for block in blocks for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("xdplab ")]
    assert {words[0] for words in commands} == {"cost", "gate"}
    others = [line.partition("=")[0] for line in lines if not line.startswith("xdplab ")]
    (plants,) = [line for line in others if line.startswith("python tools/dev bench-kernel ")]
    assert [line for line in others if line != plants] == ["make cost", "make ledger", "make ledger LEDGER"]
    bench = tmp_path / shlex.split(plants)[-1]
    bench.mkdir()
    tree = linux_tree(bench)
    for branch in re.findall(rf"{bench.name}/linux@(\S+)", page):
        git(tree, "branch", branch)
    dry = subprocess.run(["make", "-n", "cost"], cwd=project_root(), capture_output=True, text=True, check=True).stdout
    commands += [shlex.split(line)[1:5] for line in dry.splitlines() if ".venv/bin/xdplab cost" in line]
    assert commands[-1][:2] == ["cost", "xdp"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(project_root() / "docs")
    latest = SimpleNamespace(
        name="latest", record=SimpleNamespace(study=SimpleNamespace(forwarders=[ForwarderSpec(name="xdp")]))
    )
    monkeypatch.setattr(Run, "named", lambda name, results: latest)
    monkeypatch.setattr("xdplab_cost.beside.beside", lambda found, run: SimpleNamespace(text=lambda: "## Next to it"))
    usual = Cost({"veth:veth_poll": 1200.0}, 1200.0)
    guests.costs = defaultdict(lambda: lambda seed: usual, tester=lambda seed: Cost({"veth:veth_poll": 1000.0}, 1000.0))
    found = ""
    for words in commands:
        done = inline(capsys, *words)
        assert done.code == 0, (words, done.err)
        found += done.out
    assert found.count("## Next to it") == 1
    assert "Not compared, because something else was booted: 6.1 veth tester (another kernel)" in found


def test_each_command_of_the_page_for_kernels(
    guests: Guests, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = (project_root() / "docs" / "kernels.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    commands = [shlex.split(line[line.index("xdplab") :])[1:] for line in lines if "xdplab" in line]
    assert [words[0] for words in commands] == ["gate", "cost", "cost", "gate"]
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(
        run, "try_features", lambda made, kernel, driver, *_, **__: asked.append((kernel, driver)) or []
    )
    usual = Cost({"veth:veth_poll": 1200.0}, 1200.0)
    guests.costs = defaultdict(lambda: lambda seed: usual, tester=lambda seed: Cost({"veth:veth_poll": 1000.0}, 1000.0))
    tree = linux_tree(tmp_path)
    for name in ("my-branch", "v7.2", "good"):
        git(tree, "branch", name)
    for folder, its in ((tmp_path / "xdplab", commands[:3]), (tree, commands[3:])):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        for words in its:
            done = inline(capsys, *words)
            assert done.code == 0, (words, done.err)
    assert asked == [("../linux", "veth"), ("../linux", "igb-zc")]


def test_the_workflow_of_docs_ci_md_without_root(
    guests: Guests, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (project_root() / "docs" / "ci.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (workflow,) = [each for each in map(yaml.safe_load, blocks) if each.get("name") == "cost"]
    steps = [step["run"] for step in workflow["jobs"]["cost"]["steps"] if "run" in step]
    (where,) = [found for each in steps for found in re.findall(r"\$\(xdplab (where \w+)\)", each)]
    assert Path(inline(capsys, *where.split()).out.strip()).is_file()
    (words,) = [shlex.split(each)[1:] for each in steps if each.startswith("xdplab ")]
    for name in ("old.bpf.o", "new.bpf.o"):
        assert any(name in each and each.startswith("make ") for each in steps)
        Path(name).touch()
    usual = Cost({"veth:veth_poll": 1200.0}, 1200.0)
    guests.costs = defaultdict(lambda: lambda seed: usual, tester=lambda seed: Cost({"veth:veth_poll": 1000.0}, 1000.0))
    done = inline(capsys, *words)
    assert done.code == 0, done.err
    assert Path("summary.md").read_text(encoding="utf-8").startswith("**xdplab gate: pass")
    assert Path("gate.ktap").read_text(encoding="utf-8").startswith("KTAP version 1")


def test_an_interruption_begins_no_other_guest(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []

    def interrupted(seed: int) -> Cost:
        raise KeyboardInterrupt

    guests.costs = {**guests.costs, "tester": interrupted}
    monkeypatch.setattr(run, "stop_all", lambda: stopped.append(True))
    with pytest.raises(KeyboardInterrupt):
        measure(wanted("xdp", "linux-bridge", jobs=1), lambda line: None)
    assert stopped
    assert {name for _, name, _ in guests.booted} <= {"tester"}
