# SPDX-License-Identifier: Apache-2.0
"""The hang guard of `make nic-test`, with guests that are Python scripts."""

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nic.boot import Guest, supervise
from nic.errors import Hang, MissingPart

NONCE = "0123456789abcdef"
Ended = int | Hang | MissingPart
Guests = Callable[..., tuple[list[Ended], list[str]]]


@pytest.fixture
def guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guests:
    """`guests(script, ..., limit_s=)`: what each ended with, and all lines shown."""
    monkeypatch.setattr("nic.boot._BOOT_S", 0.6)
    monkeypatch.setattr("nic.boot._POWER_OFF_S", 0.6)
    monkeypatch.setattr("nic.boot._LOOK_S", 0.05)

    def run(*scripts: str, limit_s: float = 5.0) -> tuple[list[Ended], list[str]]:
        shown: list[str] = []
        texts = [f"import os, sys, time\nsay = lambda t: print(t, flush=True)\nnonce = {NONCE!r}\n{s}" for s in scripts]
        made = {
            str(number): Guest(
                [sys.executable, "-c", text], {}, limit_s, NONCE, tmp_path / f"console-{number}", shown.append
            )
            for number, text in enumerate(texts)
        }
        ended = supervise(made)
        return [ended[name] for name in made], shown

    return run


BEGIN = "say('noise'); say(f'nic-lane {nonce} begin');"
GOOD_END = "say(f'nic-lane {nonce} end 0')"


def test_the_exit_code_is_the_guests_word(guests: Guests) -> None:
    said = guests(f"{BEGIN} say('one'); say('two'); say(f'[1.0] kernel nic-lane {{nonce}} end 3'); say('off')")
    assert said == ([3], ["one", "two"])


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (f"{BEGIN} say('one')", "ended without a message.*one"),
        (f"{BEGIN} say('nic-lane other end 0')", "ended without a message"),
        ("say('panic'); sys.exit(1)", "ended without a message.*panic"),
        (f"{BEGIN} say(f'nic-lane {{nonce}} hang after 5 s; stacks'); {GOOD_END}", "hung: .*5 s"),
    ],
)
def test_a_guest_that_does_not_tell_is_no_success(guests: Guests, script: str, complaint: str) -> None:
    ((error,), _) = guests(script)
    assert isinstance(error, Hang)
    assert re.search(complaint, str(error))


@pytest.mark.parametrize(("aborts", "ended"), [(0, 0), (2, 0), (3, Hang)])
def test_an_emulator_that_aborts_before_its_guest_begins_is_started_again_twice_and_reported(
    guests: Guests, tmp_path: Path, aborts: int, ended: object
) -> None:
    count = tmp_path / "count"
    script = (
        f"import pathlib; count = pathlib.Path({str(count)!r}); n = len(count.read_text()) if count.exists() else 0\n"
        f"count.write_text('x' * (n + 1))\n"
        f"if n < {aborts}:\n    say('iotlb'); os.abort()\n{BEGIN} {GOOD_END}"
    )
    ((found,), shown) = guests(script)
    assert found == ended if isinstance(ended, int) else isinstance(found, Hang)
    assert shown == ["QEMU aborted at boot (SIGABRT): iotlb; it is started again"] * min(aborts, 2)


def test_a_kernel_that_hangs_at_boot_is_ended_and_booted_again(guests: Guests, tmp_path: Path) -> None:
    tried = str(tmp_path / "tried")
    hangs = "say('[244.79] INFO: task swapper/0:1 blocked for more than 122 seconds.'); time.sleep(60)"
    script = f"if not os.path.exists({tried!r}):\n    open({tried!r}, 'w'); {hangs}\n{BEGIN} {GOOD_END}"
    began = time.monotonic()
    ((found,), (shown,)) = guests(script)
    assert found == 0
    assert shown.startswith("its kernel hung at boot: [244.79] INFO: task swapper/0:1 blocked")
    assert time.monotonic() - began < 30


def test_an_emulator_that_aborts_later_is_no_success_and_not_started_again(guests: Guests) -> None:
    ((found,), shown) = guests(f"{BEGIN} say('one'); os.abort()")
    assert isinstance(found, Hang)
    assert shown == ["one"]


def test_what_the_guest_misses_is_a_missing_part(guests: Guests) -> None:
    ((error,), _) = guests("say(f'nic-lane {nonce} end no card igb1')")
    assert isinstance(error, MissingPart)
    assert "found no card igb1" in str(error)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("before", "complaint"), [(BEGIN, "did not even power off"), ("pass", "did not boot in")], ids=["stuck", "no boot"]
)
def test_a_guest_that_does_not_end_is_ended_and_the_other_is_not(
    guests: Guests, tmp_path: Path, before: str, complaint: str
) -> None:
    began = time.monotonic()
    stuck = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); {before}\ntime.sleep(60)"
    longer = f"{BEGIN} time.sleep(0.9); say('after it'); {GOOD_END}"  # than the limit of a guest that does not boot
    (error, other), shown = guests(stuck, longer, limit_s=0.2)
    assert isinstance(error, Hang)
    assert complaint in str(error)
    assert (other, shown) == (0, ["after it"])
    assert time.monotonic() - began < 10
    assert not alive(int((tmp_path / "pid").read_text()))


def test_when_we_are_stopped_all_guests_are(tmp_path: Path) -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt

    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); print(sys.argv[2], flush=True)"
    words = {"quiet": "", "loud": f"nic-lane {NONCE} begin\nfirst line"}
    pids = {name: tmp_path / name for name in words}
    made = {
        name: Guest(
            [sys.executable, "-c", f"{script}; time.sleep(60)", str(pids[name]), word],
            {}, 5.0, NONCE, tmp_path / f"{name}.log", stop,
        )
        for name, word in words.items()
    }  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        supervise(made)
    assert not any(path.exists() and alive(int(path.read_text())) for path in pids.values())
