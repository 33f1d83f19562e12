# SPDX-License-Identifier: Apache-2.0
"""After all of it: every card is as it was, in ethtool's and the kernel's own words."""

from collections.abc import Callable

from nic.guest.cards import HOST, Pair, changes, state
from nic.guest.conftest import Before
from xdplab.knobs import make_knob
from xdplab.testbed import port_settings


def test_every_setting_is_as_it_was(
    cards: dict[str, Pair], before: Before, fact: Callable[[Pair, str, str], None]
) -> None:
    ports = [port for each in cards.values() for port in each.ports]
    for name, each in cards.items():
        make_knob("channels").restore(each.context, before.channels[name])
    for port in ports:
        port_settings.restore(HOST, port.ifname, before.saved[port.ifname])
    assert changes(before.words, state(ports)) == {}
    for each in cards.values():
        fact(each, "after all tests", "every setting as it was")
