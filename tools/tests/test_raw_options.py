# SPDX-License-Identifier: Apache-2.0
"""Options of a switch that xdplab has none for: passed on as they are, or refused, never in silence."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from lab.ovs_host import ALL_KEYS, CONFIG, MakeDut, OvsHost, dut_maker, forwarder
from lab.rooted import BUSY_POLLING, Lab
from lab.startup import sections
from lab.studies import study

from xdplab.forwarders.base import mode_name
from xdplab.forwarders.dpdk import VdevOptions
from xdplab.forwarders.vpp.options import AF_XDP, VppAfxdpOptions
from xdplab.forwarders.vpp.ports import with_raw
from xdplab.forwarders.vpp.process import rendered
from xdplab.model import ForwarderSpec, InputError, Unsupported
from xdplab.runner.design import design
from xdplab.testbed import Port
from xdplab.testers import make_tester
from xdplab.testers.trex_server import configuration


@pytest.fixture
def dut(tmp_path: Path) -> MakeDut:
    """`dut(host)`: two ports on that host."""
    return dut_maker(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ovs-afxdp:raw.option.n=1", r"raw.option: there is only raw.options \(of each port, column options of Inter"),
        ("ovs-afxdp:raw.options=1", r"raw.options: raw.PLACE.NAME is expected, PLACE one of options, interface, other"),
        ("ovs-afxdp:raw.options.xdp-mode=generic", "raw.options.xdp-mode: it has an option here, xdp_mode"),
        ("ovs-afxdp:raw.other_config.pmd-sleep-max=9", "raw.other_config.pmd-sleep-max: .* pmd_sleep_max_us"),
        ("testpmd:raw.devargs.busy_budget=1", "raw.devargs.busy_budget: it has an option here, busy_budget"),
        ("testpmd:raw.devargs.iface=eth0", "raw.devargs.iface: xdplab gives it itself"),
        ("testpmd:port=af_packet,busy_budget=64", "busy_budget is of net_af_xdp, and port=af_packet has none"),
        ("vpp-afxdp:raw.devargs.x=1", "raw.devargs: there is only raw.startup .*raw.af_xdp_create_v3"),
        ("xdp:raw.options.x=1", "raw.options.x: unknown key"),
    ],
)
def test_what_cannot_be_passed_on_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        forwarder(text)


def test_open_vswitch_gets_them_in_their_columns(dut: MakeDut) -> None:
    given = "raw.options.new-key=a b,raw.interface.tx-steering=hash,raw.other_config.pmd-perf-metrics=true"
    host = OvsHost()
    forwarder(f"ovs-afxdp:{given}").start(dut(host))
    ports = [row for row in host.rows("Interface") if row["name"] in ("b0", "b1")]
    assert len(ports) == 2
    assert all(["new-key", "a b"] in row["options"][1] for row in ports)
    assert all(row["other_config"] == ["map", [["tx-steering", "hash"]]] for row in ports)
    (top,) = host.rows("Open_vSwitch")
    assert ["pmd-perf-metrics", "true"] in top["other_config"][1]


def test_one_that_a_port_shows_is_proven_and_one_that_it_shows_otherwise_is_not_in_force(dut: MakeDut) -> None:
    host = OvsHost()
    host.configs = dict.fromkeys(host.configs, f"{CONFIG}, new-key=5")
    there = forwarder("ovs-afxdp:raw.options.new-key=5,raw.options.other=1,raw.other_config.x=1")
    there.start(dut(host))
    assert there.ineffective() is None
    assert there.unproven() == ("raw.options.other", "raw.other_config.x")
    host.configs["b1"] = f"{CONFIG}, new-key=4"
    assert there.ineffective() == "raw.options.new-key=5 is not in force: b1: new-key is 4, not 5"
    del host.configs["b1"]
    host.configs["b1"] = CONFIG
    assert "raw.options.new-key" in there.unproven()


def test_one_that_xdplab_writes_itself_is_unsupported(dut: MakeDut) -> None:
    here = dut(OvsHost(ALL_KEYS))
    assert forwarder("ovs-afxdp:raw.other_config.pmd-cpu-mask=2").unsupported(here) == (
        "raw.other_config.pmd-cpu-mask: xdplab sets it itself here"
    )
    assert forwarder("ovs-afpacket:raw.options.anything=2").unsupported(here) is None


def test_devargs_stand_behind_ours() -> None:
    given: dict[str, Any] = {"raw.devargs.use_cni": 0, "raw.devargs.xdp_prog": "/x.o"}
    options = VdevOptions.model_validate(given)
    assert options.virtual_device(0, "b0") == "net_af_xdp0,iface=b0,busy_budget=64,use_cni=0,xdp_prog=/x.o"
    card = SimpleNamespace(pci="0000:01:00.0")
    card_options = VdevOptions.model_validate({"port": "pmd", "raw.devargs.rxq_cqe_comp_en": 0})
    assert card_options.buses([card]) == ["-a", "0000:01:00.0,rxq_cqe_comp_en=0"]  # type: ignore[list-item]


@pytest.mark.parametrize("program", ["testpmd", "ovs-dpdk", "vpp-dpdk"])
def test_a_budget_for_busy_polling_that_nothing_polls_is_not_in_force(program: str) -> None:
    asked = forwarder(f"{program}:busy_budget=32").options
    assert asked.not_polled([{"napi_id": 7}, {"napi_id": 0}]).startswith("busy_budget=32 is not in force: the kernel r")
    assert asked.not_polled([{"napi_id": 7}, {"napi_id": 8}]) is None
    assert forwarder(f"{program}:busy_budget=0").options.not_polled([{"napi_id": 0}]) is None
    assert forwarder(program).options.not_polled([{"napi_id": 0}]) is None  # DPDK's own, of which no row speaks


def test_vpp_gets_lines_of_its_startup_and_fields_of_its_messages() -> None:
    variables = {"rundir": "/r", "prefix": "x", "buffers": 1, "page_size": "4K", "main_cpu": 0, "worker_cpus": [1],
                 "plugins": ["af_xdp"], "vdevs": [], "cards": {}}  # fmt: skip
    raw = {"cpu": "scheduler-policy fifo", "session": "enable", "dpdk": "no-multi-seg"}
    found = sections(rendered("startup.conf.j2", raw, **variables))
    assert found["cpu"] == "main-core 0 corelist-workers 1 scheduler-policy fifo"
    assert (found["session"], found["dpdk"]) == ("enable", "no-multi-seg")
    options = VppAfxdpOptions.model_validate({f"raw.{AF_XDP}.prog": "/p.o", f"raw.{AF_XDP}.tx_flags": "3"})
    assert with_raw({"host_if": "b0"}, options, AF_XDP) == {"host_if": "b0", "prog": "/p.o", "tx_flags": 3}
    with pytest.raises(Unsupported, match=f"raw.{AF_XDP}.prog: xdplab sets it itself"):
        with_raw({"prog": ""}, options, AF_XDP)


def test_trex_gets_keys_of_its_configuration() -> None:
    ports = tuple(Port(role, None, role, "02:00:00:00:00:01", 1500, None) for role in ("a0", "c0"))  # type: ignore[arg-type]
    (found,) = yaml.safe_load(configuration(ports, (0,), "x", {"rx_desc": "512", "memory.mbuf_64": "9999"}))
    assert (found["rx_desc"], found["memory"], found["low_end"]) == (512, {"mbuf_64": 9999}, True)
    with pytest.raises(Unsupported, match=r"raw.config.prefix: xdplab's configuration has it already"):
        configuration(ports, (0,), "x", {"prefix": "y"})
    tester = make_tester("trex:raw.config.rx_desc=512,server=10.0.0.1")
    assert tester.unproven() == ("raw.config.rx_desc",)


def test_a_file_nests_them_and_a_sweep_takes_them_like_any_other() -> None:
    nested = {"name": "ovs-afxdp", "options": {"raw": {"options": {"n": 1}, "other_config": {"m": True}}}}
    spec = ForwarderSpec.model_validate(nested)
    assert spec.title == "ovs-afxdp:raw.options.n=1,raw.other_config.m=true"
    assert forwarder(spec.title).options.raw == {"options": {"n": "1"}, "other_config": {"m": "true"}}
    with pytest.raises(ValueError, match=r"raw.options: names and values are expected"):
        ForwarderSpec.model_validate({"name": "ovs-afxdp", "options": {"raw": {"options": 1}}})
    swept = study(forwarders=["ovs-afxdp"], options={"ovs-afxdp": {"raw": {"options": {"n": [1, 2]}}}})
    found = design(swept).chosen
    assert [combination["ovs-afxdp.raw.options.n"] for _, combination in found] == [1, 2]


def test_each_row_says_which_are_unproven() -> None:
    mode = {"label": "af_packet", "unproven": ["raw.options.n", "tester.raw.config.m"]}
    assert mode_name(mode) == "af_packet; unproven: raw.options.n, tester.raw.config.m"
    assert mode_name({"label": "af_packet"}) == "af_packet"


@pytest.mark.root
def test_a_run_measures_with_them_and_says_so(lab: Lab) -> None:
    forwarders = ["ovs-afxdp:raw.options.no-such=1", "testpmd:raw.devargs.start_queue=0", "testpmd:busy_budget=64"]
    assert lab.run(options=("--allow-program", "raw"), forwarders=forwarders).code in (0, 1)
    rows = {row["forwarder"]: row for row in lab.rows()}
    ovs, raw, polled = (rows[name] for name in forwarders)
    assert (ovs["status"], ovs["mode"]) == ("ok", "native copy; unproven: raw.options.no-such")
    assert (raw["status"], raw["mode"]) == ("ok", "native copy; unproven: raw.devargs.start_queue")
    assert polled["status"] == BUSY_POLLING
    assert BUSY_POLLING == "ok" or "busy_budget=64 is not in force" in polled["reason"]
    lab.assert_nothing_left()
