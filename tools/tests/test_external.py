# SPDX-License-Identifier: Apache-2.0
"""A device that xdplab did not start is measured between the tester's ports, and nothing on it is touched."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from lab.bench import Bench
from lab.cuts import changes, look
from lab.ovs_host import forwarder
from lab.studies import a_testbed, study

from xdplab.model import InputError, TestbedSpec
from xdplab.runner import make_plan
from xdplab.testers import make_tester
from xdplab.tools import project_root

BOX = "external:device=Acme 9000,known=firmware 7.2; as delivered"
HOSTS: dict[str, Any] = {"a": {"address": "192.0.2.1"}, "b": {"address": "192.0.2.2"}}


def lab(*roles: str) -> TestbedSpec:
    """A testbed of real hosts with these ports."""
    homes = {role: "b" if role.startswith("b") else "a" for role in roles}
    ports = {role: {"host": home, "ifname": f"eth-{role}"} for role, home in homes.items()}
    return a_testbed("hosts", hosts={name: HOSTS[name] for name in {*homes.values()}}, ports=ports)


def test_a_testbed_without_b_is_for_a_device_and_no_other_is() -> None:
    tester = make_tester("xdpgen")
    asked = study(forwarders=[BOX], tester="xdpgen", testbed="x")
    assert make_plan(asked, lab("a0", "c0", "d0", "d1"), tester).points[0].path == "through"
    with pytest.raises(InputError, match=r"forwarder external: testbed t has a place for forwarders that are started"):
        make_plan(asked, a_testbed("embedded"), tester)
    with pytest.raises(InputError, match=r"forwarder xdp: testbed t has no b0, where it would run; what stands"):
        make_plan(study(forwarders=["xdp"], tester="xdpgen", testbed="x"), lab("a0", "c0"), tester)
    with pytest.raises(InputError, match=r"or a0 and c0 without b0 and b1, for forwarder external"):
        lab("a0", "b1", "c0")


def test_what_is_known_of_it_is_in_its_name_its_words_and_the_versions() -> None:
    there = forwarder(BOX)
    assert there.in_words()[0] == "Acme 9000"
    assert there.describe().endswith("nothing: Acme 9000. What is said of it: firmware 7.2; as delivered.")
    assert there.versions(None) == {"Acme 9000": "firmware 7.2; as delivered"}
    assert forwarder(f"{BOX},mac_a=02:00:00:00:00:01").unsupported(None).startswith("external: mac_a and mac_c belong")
    routes = forwarder(f"{BOX},mac_a=02:00:00:00:00:0A,mac_c=02:00:00:00:00:02")
    assert routes.routers == ("02:00:00:00:00:0a", "02:00:00:00:00:02")
    with pytest.raises(InputError, match="known: Field required"):
        forwarder("external:device=Acme 9000")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bridge that somebody has set up between A and C, on a host that the testbed file does not know."""
    with Bench.up(tmp_path_factory.mktemp("box")) as bench:
        on = bench.lab.on
        on("B", "ip", "link", "add", "box", "type", "bridge")
        for port in ("b0", "b1"):
            on("B", "ip", "link", "set", port, "master", "box")
            for gro in ("off", "on"):  # a veth takes redirected frames with NAPI on; only a change counts
                on("B", "ethtool", "-K", port, "gro", gro)
        on("B", "ip", "link", "set", "box", "up")
        bench.before = look(bench.lab)
        spec = bench.lab.spec()
        spec["ports"] = {role: port for role, port in spec["ports"].items() if not role.startswith("b")}
        del spec["hosts"]["b"]
        bench.lab.testbed.write_text(yaml.safe_dump(spec), encoding="utf-8")
        yield bench


@pytest.mark.root
def test_latency_and_rfc_2544_of_a_box_in_which_nothing_is_touched(box: Bench) -> None:
    done = box.run(forwarders=[BOX])
    assert done.code == 0, done.err
    (row,) = box.rows()
    assert (row["status"], row["quantity"], row["mode"], row["loss_ratio"]) == ("ok", "one-way", "external", 0)
    record = box.last_run().load()
    assert record.plain_names == {BOX: "Acme 9000"}
    assert record.environment.versions["Acme 9000"] == "firmware 7.2; as delivered"
    assert "b0" not in record.environment.ports
    method = {"name": "rfc2544", "clauses": ["throughput", "reset"], "budget_s": 2.0, "loss_ratios": [0.5]}
    assert box.run(forwarders=[BOX], method=method).code in (0, 1)
    (row,) = box.rows()
    figures = [record.figures for record in box.last_run().trials() if record.purpose == "figures"]
    assert "xdplab did not start this device, and does not restart it" in str(figures)
    assert (row["status"], row["mode"]) == ("ok", "external")
    done = box.run(forwarders=[BOX], knobs={"napi_defer_hard_irqs": [3]})
    assert "nothing is set on a device that xdplab did not start" in done.out + done.err
    # of B, which the file does not know, only what its bridge does when the tester's ports come and go
    assert [each for each in changes(box.lab, box.before) if not each.startswith("B:")] == []


def test_the_page_has_a_file_that_is_one() -> None:
    text = (project_root() / "docs" / "own-programs.md").read_text(encoding="utf-8")
    block = text.partition("`box.yaml`:")[2].partition("```yaml\n")[2].partition("```")[0]
    assert TestbedSpec.model_validate(yaml.safe_load(block)).external
