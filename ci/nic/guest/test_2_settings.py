# SPDX-License-Identifier: Apache-2.0
"""xdplab's own knobs on these drivers: set, verified, effective and put back, or unsupported with the reason."""

from collections.abc import Callable

import pytest

from nic.guest.cards import HOST, Pair, applied, context, received_by_queue, sound_exchange
from xdplab.knobs import make_knob
from xdplab.model import Unsupported
from xdplab.model.design import Scalar

Fact = Callable[[Pair, str, str], None]

#: Everything that the driver has, at once: a run sets several as well.
TAKEN: dict[str, dict[str, Scalar]] = {
    "igb": {
        "rx_ring": 512, "tx_ring": 512, "coalesce_rx_usecs": 50, "channels": 2, "rss_queues": 1,
        "threaded_napi": 1, "napi_defer_hard_irqs": 2, "gro_flush_timeout": 200_000,
    },
    "virtio_net": {
        "rx_ring": 512, "tx_ring": 512, "threaded_napi": 1, "napi_defer_hard_irqs": 2, "gro_flush_timeout": 200_000,
    },
}  # fmt: skip
#: Knob, value and what is said, by driver.
REFUSED: list[tuple[str, str, Scalar, str]] = [
    ("igb", "ntuple", "on", "igb: ntuple-filters is fixed to off"),
    ("igb", "flow_steering", 1, "the igb driver has no flow steering (ntuple filters)"),
    ("igb", "coalesce_rx_frames", 8, "the igb driver has no such interrupt coalescing"),
    ("igb", "channels", 16, "igb: 16 is above the maximum of 8"),
    ("igb", "rx_ring", 8192, "igb: 8192 is above the maximum of 4096"),
    ("virtio_net", "ntuple", "on", "virtio_net: ntuple-filters is fixed to off"),
    ("virtio_net", "channels", 2, "virtio_net: 2 is above the maximum of 1"),
    ("virtio_net", "rss_queues", 1, "the virtio_net driver has no indirection table"),
]


def test_settings_are_in_force_under_zero_copy_and_put_back(either: Pair, fact: Fact) -> None:
    wanted = TAKEN[either.driver]
    at = context((either.left,))
    before = {name: make_knob(name).read(at) for name in wanted}
    assert threads_of_napi(either) == set()
    with applied(at, **wanted) as settings:
        there = settings.read_back()
        assert all(there[name] != before[name] for name in set(wanted) - {"rss_queues"})  # one queue was all before
        assert threads_of_napi(either)
        assert sound_exchange(either, bind="zero-copy").flags == {True}
        assert settings.read_back() == there  # what a driver does while a socket binds does not undo it
    assert {name: make_knob(name).read(at) for name in wanted} == before
    fact(either, "settings under zero-copy", ", ".join(wanted))


def threads_of_napi(cards: Pair) -> set[str]:
    found = HOST.run(["ps", "-e", "-o", "comm="]).stdout.splitlines()
    return {name for name in found if name.startswith(f"napi/{cards.left.ifname}")}


def test_channels_and_rss_choose_the_queues(igb: Pair, fact: Fact) -> None:
    at = context((igb.right,))
    with applied(at, channels=8):
        spread = received_by_queue(igb, 8)
        assert sum(1 for frames in spread if frames) > 2, spread
    with applied(at, rss_queues=2, channels=8):  # in this order: before, there is one channel
        narrow = received_by_queue(igb, 8)
        assert all(narrow[:2]), narrow
        assert not any(narrow[2:]), narrow
    fact(igb, "channels and RSS", "8 channels spread flows; with rss_queues=2 the first two have all frames")


@pytest.mark.parametrize(("driver", "name", "value", "reason"), REFUSED)
def test_what_a_driver_has_not_got_is_unsupported_with_the_reason(
    cards: dict[str, Pair], fact: Fact, driver: str, name: str, value: Scalar, reason: str
) -> None:
    knob = make_knob(name)
    said = knob.unsupported(cards[driver].context, knob.check(value)) or ""
    assert reason in said
    if name in ("ntuple", "flow_steering"):
        fact(cards[driver], name, f"unsupported: {said.partition(': ')[2]}")


def test_a_setting_that_the_driver_shows_and_refuses_is_unsupported(virtio: Pair, fact: Fact) -> None:
    knob = make_knob("coalesce_rx_usecs")
    with pytest.raises(Unsupported, match=r"coalesce_rx_usecs: .*not supported"):
        knob.apply(virtio.context, 50)
    fact(virtio, "coalescing", "unsupported, in the kernel's words")
