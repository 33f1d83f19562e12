# SPDX-License-Identifier: Apache-2.0
"""The cards of the guest, made fit for tests as those of a lab are, and the facts that the tests find."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nic.guest.cards import HOST, Pair, pair, state
from xdplab.knobs import make_knob
from xdplab.testbed import port_settings

RESULTS = Path("/results")
_FACTS: dict[str, dict[str, str]] = {}
PAIRS = {"igb": ("igb", "igb", 0), "igb-far": ("igb", "igb", 2), "virtio_net": ("virt", "virtio_net", 0),
         "virtio_net without IOMMU": ("plain", "virtio_net", 0)}  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def state_folder() -> None:
    os.environ["XDPLAB_STATE"] = "/run/xdplab"


@dataclass(frozen=True)
class Before:
    """How the cards were: in words to compare, and in the suite's own form to put back."""

    words: dict[str, str]
    saved: dict[str, dict[str, Any]]
    channels: dict[str, dict[str, str]]


@pytest.fixture(scope="session")
def pairs() -> dict[str, Pair]:
    """Those of this guest; a test that names another fails."""
    present = {name: how for name, how in PAIRS.items() if Path(f"/sys/class/net/{how[0]}{how[2]}").exists()}
    return {name: pair(*how) for name, how in present.items()}


@pytest.fixture(scope="session")
def before(pairs: dict[str, Pair]) -> Before:
    """Once each has been up: igb fills its indirection table then."""
    ports = [port for each in pairs.values() for port in each.ports]
    for port in ports:
        for way in ("up", "down"):
            HOST.run(["ip", "link", "set", "dev", port.ifname, way])
    return Before(
        state(ports),
        {port.ifname: port_settings.snapshot(HOST, port.ifname) for port in ports},
        {name: make_knob("channels").read(each.context) for name, each in pairs.items()},
    )


@pytest.fixture(scope="session")
def cards(pairs: dict[str, Pair], before: Before) -> dict[str, Pair]:
    """All pairs, up and made fit for tests as a run does it, with one queue; `test_9_restored` puts them back.

    With more, the key of RSS, which is another at each boot, would choose the queue.
    """
    ports = [port for each in pairs.values() for port in each.ports]
    for each in pairs.values():
        make_knob("channels").apply(each.context, 1)
    for port in ports:
        port_settings.prepare(port, napi=False)
    deadline = time.monotonic() + 15.0
    while any(HOST.read(f"/sys/class/net/{port.ifname}/operstate") != "up" for port in ports):
        assert time.monotonic() < deadline, "the links do not come up"
        time.sleep(0.1)
    return pairs


@pytest.fixture
def igb(cards: dict[str, Pair]) -> Pair:
    return cards["igb"]


@pytest.fixture
def virtio(cards: dict[str, Pair]) -> Pair:
    return cards["virtio_net"]


@pytest.fixture
def plain(cards: dict[str, Pair]) -> Pair:
    return cards["virtio_net without IOMMU"]


@pytest.fixture(params=["igb", "virtio_net"])
def either(request: pytest.FixtureRequest, cards: dict[str, Pair]) -> Pair:
    return cards[request.param]


@pytest.fixture
def fact() -> Callable[[Pair, str, str], None]:
    """Note something for the table that the lane prints; never a rate and never a time."""

    def note(cards: Pair, what: str, found: str) -> None:
        _FACTS.setdefault(what, {})[next(name for name, how in PAIRS.items() if how[0] == cards.name)] = found

    return note


def pytest_sessionfinish(session: Any) -> None:
    (RESULTS / "facts.json").write_text(json.dumps(_FACTS, indent=1) + "\n", encoding="utf-8")
