# SPDX-License-Identifier: Apache-2.0
"""What works of AF_XDP, read from consoles of guests that `xdplab cost --features` booted."""

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xdplab_cost import features
from xdplab_cost.cells import DRIVERS
from xdplab_cost.features import FEATURES, Feature, judged, try_features
from xdplab_cost.guest import Guest, Output
from xdplab_cost.page import Bullets, Heading, Paragraph, Table, as_html, as_markdown
from xdplab_cost.run import CostTable
from xdplab_cost.table import ktap

DATA = Path(__file__).with_name("data") / "features"
VETH_7_2 = {
    "no flag": "copy", "need-wakeup": "inert", "busy polling": "inert", "preferred busy polling": "inert",
}  # fmt: skip
EXPECTED = {
    "6.1-veth": {
        "no flag": "copy", "need-wakeup": "inert", "NAPI threads that poll": "absent", "multi-buffer": "refused",
    },
    "7.2-veth": VETH_7_2,
    "7.2-igb-zc": {
        "no flag": "zero-copy", "need-wakeup": "inert", "frame sizes": "loses frames above 1024 bytes",
        "multi-buffer": "refused",
    },
}  # fmt: skip


def console(name: str) -> str:
    return lzma.decompress((DATA / f"{name}.txt.xz").read_bytes()).decode()


def found_in(text: str) -> dict[str, str]:
    return {name: word for name, word, _ in judged(text)}


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_guests(name: str) -> None:
    assert found_in(console(name)) == dict.fromkeys(FEATURES, "works") | EXPECTED[name]


def test_details_have_what_was_seen() -> None:
    seen = {name: detail for name, _, detail in judged(console("7.2-igb-zc"))}
    assert seen["busy polling"] == "napi_busy_loop() ran 197088 times"
    assert seen["multi-buffer"].endswith("igb: The RX buffer size is too small for the frame size")
    assert seen["frame sizes"] == "1024 bytes pass, 1040 and more are lost"


@pytest.mark.parametrize(
    ("feature", "change", "word", "detail"),
    [
        ("sockets", ('"received":100,', '"received":0,'), "stalls", "0 of 100 frames came"),
        ("sockets", ('"received":100,', '"received":93,'), "loses frames", "93 of 100 frames came"),
        ("sockets", ('"sent":100,', '"sent":7,'), "loses frames", "7 of 100 frames could be sent"),
        ("sockets", ('"out_of_order":0', '"out_of_order":2'), "loses frames", "2 of 100 frames came out of order"),
        ("sockets", ("sockets end 0", "sockets end 137"), "hangs", "timed out after 12 s"),
        ("sockets", ('{"event":"done"', '{"event":[ 3.1] igb: hang'), "not tried", "its result cannot be read"),
        ("no flag", ("xdp-features 103", "xdp-features 111"), "falls back silently", "the driver claims zero-copy"),
        ("busy polling", ('"napi_id":0', '"napi_id":8193'), "inert", "napi_busy_loop() ran 0 times"),
        ("shared UMEM", ('"umems":[', '"umems":[{"lost":0},'), "inert", "the sockets of two ports have 2 UMEM"),
        ("frame sizes", ('"sent":100,', '"sent":0,'), "loses frames", "of 60, 252"),
        ("multi-buffer", ('sender {"event":"done"', "xsk: no memory\nno "), "not tried", "be sent: xsk: no memory"),
        ("multi-buffer", ('"rx":100', '"rx":99'), "loses frames", "99 of 100 frames of 3000 bytes came"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_named(feature: str, change: tuple[str, str], word: str, detail: str) -> None:
    whole = console("7.2-veth")
    begin, end = (whole.index(f"feature {feature} {edge}") for edge in ("begin", "end"))
    changed = whole[:begin] + whole[begin : end + 80].replace(*change) + whole[end + 80 :]
    if feature == "no flag":
        changed = whole.replace(*change)
    assert changed != whole
    found = {name: (its, seen) for name, its, seen in judged(changed)}
    assert found[feature][0] == word
    assert detail in found[feature][1]


def test_a_kernel_without_probes_shows_no_polling() -> None:
    text = console("6.1-veth")
    without = "\n".join(line for line in text.splitlines() if not line.startswith("ran "))
    assert found_in(without)["busy polling"] == "not shown"


def test_need_wakeup_is_shown_by_the_socket_without_it_only() -> None:
    text = console("7.2-veth").replace("feature need-wakeup off end 0", "feature need-wakeup off end 2")
    fewer = console("7.2-veth").replace('"tx_kicks":5995', '"tx_kicks":5000')
    assert found_in(text)["need-wakeup"] == "not shown"
    assert found_in(text.replace("feature need-wakeup off begin", "feature other begin"))["need-wakeup"] == "not shown"
    assert found_in(fewer)["need-wakeup"] == "works"


def test_a_guest_that_hangs_names_the_function_and_leaves_out_the_rest() -> None:
    text = console("7.2-veth")
    found = found_in(text[: text.index("feature NAPI threads end")])
    assert found["preferred busy polling"] == "inert"
    assert (found["NAPI threads"], found["NAPI threads that poll"]) == ("hangs", "not tried")


@dataclass
class Booted:
    """In place of QEMU."""

    console: str
    code: int | None = 0
    boots: int = 0

    def run(self, _: Guest) -> Output:
        self.boots += 1
        return Output(self.code, self.console, "", 1.0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Guest, "digest", "0123")
    monkeypatch.setattr(features, "built", lambda name: tmp_path / name)
    return SimpleNamespace(kernel=tmp_path)


def tried(made: Any, monkeypatch: pytest.MonkeyPatch, booted: Booted) -> list[Feature]:
    monkeypatch.setattr(Guest, "run", lambda guest: booted.run(guest))
    return try_features(made, "7.2", "veth", lambda line: None)


def test_what_a_guest_printed_is_kept(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    booted = Booted(console("7.2-veth"))
    first, again = (tried(made, monkeypatch, booted) for _ in range(2))
    assert first == again
    assert booted.boots == 1
    assert [each.feature for each in first] == list(FEATURES)
    assert first[0].command == "xdplab cost tester --kernel 7.2 --driver veth --features"


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("Kernel panic - not syncing: no init\n", 0, "the kernel does not boot"),
        ("a1: busy\ncost fail: settings of a1\n", 0, "settings of a1"),
        ("\n", None, "the guest timed out after 600 s"),
    ],
)
def test_a_guest_that_does_not_come_to_it_is_asked_again(
    text: str, code: int | None, why: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted = Booted(text, code)
    for _ in range(2):
        found = tried(made, monkeypatch, booted)
        assert {each.found for each in found} == {"not tried"}
        assert why in found[0].detail
    assert booted.boots == 2
    assert {each.detail for each in try_features("no mirror answers", "7.2", "veth", print)} == {"no mirror answers"}


def test_ktap_has_a_test_for_each_function(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = CostTable(
        emulator="", command="", cells=(), features=tuple(tried(made, monkeypatch, Booted(console("7.2-igb-zc"))))
    )
    lines = ktap(found).splitlines()
    assert lines[:3] == ["KTAP version 1", f"1..{len(FEATURES)}", "ok 1 7.2 veth sockets"]
    assert "# loses frames above 1024 bytes: 1024 bytes pass, 1040 and more are lost" in lines
    assert [line for line in lines if line.startswith("not ok")] == ["not ok 9 7.2 veth frame sizes"]
    assert lines[-1].startswith("ok 10 7.2 veth multi-buffer # SKIP refused: xsk: cannot attach native XDP")


def test_configurations_are_json_that_the_shell_leaves_alone() -> None:
    script = features._script(DRIVERS["igb-zc"])
    written = [line for line in script.splitlines() if line.endswith(".json")]
    assert len(written) == len(FEATURES) + 2  # the sender, and need-wakeup off
    configs = [json.loads(line.split("'")[1]) for line in written]
    binds = [config["bind"] for config in configs if config.get("backend") != "af_packet"]
    assert sorted(binds) == ["auto", *["zero-copy"] * len(FEATURES)]


def test_a_page_is_escaped_in_html_and_in_tables() -> None:
    blocks = [Heading("Costs", 1), Paragraph("made by `a <b>` ([cost.md](cost.md))"), Bullets(["x & y"]),
              Table([["head", ""], ["a|b", "<script>"]])]  # fmt: skip
    html = as_html(blocks)
    assert "<p>made by <code>a &lt;b&gt;</code> (cost.md)</p>" in html
    assert "<li>x &amp; y</li>" in html
    assert "<td>&lt;script&gt;</td>" in html
    assert "| a\\|b | <script> |" in as_markdown(blocks)
