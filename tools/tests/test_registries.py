# SPDX-License-Identifier: Apache-2.0
"""Finding forwarders, testers and knobs by name, and typing their options."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab.records import LAYOUT

from xdplab import testers
from xdplab.forwarders import make_forwarder
from xdplab.forwarders.base import forwarder_class
from xdplab.hosts import LocalHost
from xdplab.knobs import KnobContext, make_knob
from xdplab.model import ForwarderSpec, InputError, plugins


def test_every_forwarder_has_its_own_name_and_says_what_it_is() -> None:
    for name in plugins.names("xdplab.forwarders"):
        cls = forwarder_class(name)
        assert cls.name == name
        assert cls.__doc__
        needed = {"command": {"argv": "/opt/app"}, "external": {"device": "a switch", "known": "nothing"}}.get(name, {})
        assert make_forwarder(ForwarderSpec.model_validate({"name": name, "options": needed})).crashed() is None


def test_every_tester_and_knob_has_its_own_name() -> None:
    assert {name: testers.make_tester(name).name for name in plugins.names("xdplab.testers")} == {
        name: name for name in plugins.names("xdplab.testers")
    }
    assert {name: make_knob(name).name for name in plugins.names("xdplab.knobs")} == {
        name: name for name in plugins.names("xdplab.knobs")
    }


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(
        InputError, match=r"forwarder 'ovs': unknown; .*there are command, external, fake, linux-bridge, linux-router"
    ):
        make_forwarder(ForwarderSpec(name="ovs"))
    with pytest.raises(InputError, match=r"tester 'trexx': unknown; did you mean 'trex'\?; there are"):
        testers.make_tester("trexx")
    with pytest.raises(InputError, match=r"knob 'warp': unknown; there are "):
        make_knob("warp")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "ovs-afxdp:xdp-mode=native",
            r"ovs-afxdp: xdp-mode: unknown key; did you mean 'xdp_mode'\? \(known here: build, busy_poll_budget",
        ),
        ("ovs-afxdp:xdp_mode=fast", "forwarder ovs-afxdp: xdp_mode: .*'fast'"),
        ("ovs-afxdp:n_rxq=0", "n_rxq: .*'0'"),
        ("ovs-afpacket:n_rxq=1", "forwarder ovs-afpacket: n_rxq: unknown key"),
        ("testpmd:hugepages=perhaps", "hugepages: .*'perhaps'"),
        ("xdp:mode=", "mode: .*''"),
        ("xdp:=native", "forwarder xdp"),
        ("ovs-dpdk:n_rxq_desc=1000", "forwarder ovs-dpdk: n_rxq_desc: .*power of two.*'1000'"),
        ("xsk:rx_ring=1000", "forwarder xsk: rx_ring: .*power of two.*'1000'"),
        ("xsk:tx_skb_budget=16", "tx_skb_budget should be 0, or from 32 to tx_ring"),
        ("xsk:packet_version=4", "packet_version: .*'4'"),
    ],
)
def test_a_bad_option_is_refused_with_forwarder_and_value(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make_forwarder(ForwarderSpec.model_validate(text))
    assert "\n" not in str(caught.value)


@given(budget=st.integers(0, 65535), hugepages=st.booleans(), port=st.sampled_from(["af_xdp", "af_packet"]))
def test_options_as_text_and_as_yaml_values_mean_the_same(budget: int, hugepages: bool, port: str) -> None:
    more = {"busy_budget": budget} if port == "af_xdp" else {}
    text = f"ovs-dpdk:hugepages={str(hugepages).lower()},port={port}" + f",busy_budget={budget}" * bool(more)
    values = {"hugepages": hugepages, "port": port, **more}
    typed = make_forwarder(ForwarderSpec(name="ovs-dpdk", options=values)).options
    assert make_forwarder(ForwarderSpec.model_validate(text)).options == typed


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("threaded_napi", 2),
        ("threaded_napi", True),
        ("threaded_napi", "on"),
        ("napi_defer_hard_irqs", -1),
        ("gro_flush_timeout", 1.5),
        ("gro_flush_timeout", 2_000_000_000),
        ("hugepages_2m", "lots"),
        ("cpu_layout", "3C3T"),
        ("cpu_layout", 1),
    ],
)
def test_a_knob_refuses_what_is_not_its_value(knob: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^knob {knob}: "):
        make_knob(knob).check(value)


@pytest.mark.parametrize(("knob", "value", "kept"), [("threaded_napi", "1", 1), ("cpu_layout", "1C1T", "1C1T")])
def test_a_knob_types_its_value(knob: str, value: Any, kept: Any) -> None:
    assert make_knob(knob).check(value) == kept


def test_a_layout_that_needs_a_third_cpu_is_unsupported_on_two() -> None:
    context = KnobContext(LocalHost(), (), LAYOUT, (0, 1))
    knob = make_knob("cpu_layout")
    assert "needs three CPUs" in (knob.unsupported(context, "2C2T") or "")
    assert knob.unsupported(context, "1C1T") is None
    assert knob.layout(context, "1C1T").dut_napi == LAYOUT.forwarder
    assert knob.layout(context, "inline") == LAYOUT


def test_two_threads_of_one_core_and_two_cores_never_take_the_testers_cpu() -> None:
    context = KnobContext(LocalHost(), (), LAYOUT, (0, 1, 2))
    knob = make_knob("cpu_layout")
    found = [knob.layout(context, value).dut_napi for value in ("1C2T", "2C2T") if not knob.unsupported(context, value)]
    assert found == [2]  # CPU 2 is either a sibling of the forwarder's or not
