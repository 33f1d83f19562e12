# SPDX-License-Identifier: Apache-2.0
"""Questions to hosts that do not wait for each other."""

import threading

import pytest

from xdplab.hosts.waiting import run_parallel
from xdplab.model import XdplabError


def test_all_are_asked_at_once_and_answered_in_order() -> None:
    everybody = threading.Barrier(3, timeout=30)  # broken unless all three are there together
    assert run_parallel(*(lambda n=n: (n, everybody.wait() >= 0) for n in range(3))) == [(n, True) for n in range(3)]
    assert run_parallel(lambda: "alone") == ["alone"]


@pytest.mark.parametrize("wrong", range(3))
def test_an_error_is_raised_once_all_have_answered(wrong: int) -> None:
    def ask(number: int) -> int:
        if number == wrong:
            raise XdplabError(f"{number} fails")
        answered.append(number)
        return number

    answered: list[int] = []
    with pytest.raises(XdplabError, match=f"{wrong} fails"):
        run_parallel(*(lambda n=n: ask(n) for n in range(3)))
    assert sorted(answered) == sorted({0, 1, 2} - {wrong})
