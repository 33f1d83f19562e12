# SPDX-License-Identifier: Apache-2.0
"""Calibrations that hold for the next runs on the same testbed too, and when they no longer do.

A calibration is kept only if the machine was quiet while it was made: its senders stood still for less than
`QUIET_SHARE` of the time, and the hypervisor took no more from their CPUs. It holds for ten minutes of the same boot: a
shared machine has slow spells of minutes, and a tester that was measured before one would make the forwarder look slow
in it. And it holds only where nothing has changed that can change a number: the programs and options of the tester, the
testbed, its CPUs and its links, the settings of the machine (what `resume` compares), the frame and the rate.

It lies next to the testbed's lock, which its user holds, in a folder that a reboot empties.
"""

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from xdplab import __version__
from xdplab.hosts import Host
from xdplab.hosts.kernel import cpu_use
from xdplab.model import Calibration, Environment, Model
from xdplab.model.base import flat
from xdplab.runner.environment import IGNORED_ON_RESUME
from xdplab.testbed import Testbed
from xdplab.testbed.state import volatile_dir
from xdplab.testers import Tester

#: How long a calibration holds, in s.
HOLDS_S = 600.0
#: What a machine may take of a calibration that is kept.
QUIET_SHARE = 0.01
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class CachedCalibration(Model):
    """A calibration, when it was made (CLOCK_BOOTTIME of the controller, s), and on what: dotted key -> value."""

    at_s: float
    on: dict[str, str]
    calibration: Calibration


class Calibrations:
    """Those of one testbed in its `environment`, of which the versions are the testers'.

    `fresh`: none of an earlier run is used.
    """

    def __init__(
        self,
        testbed: Testbed,
        environment: Environment,
        note: Callable[[str], None],
        *,
        fresh: bool,
    ) -> None:
        self._testbed, self._environment = testbed, environment
        self._note, self._fresh = note, fresh
        self._path = _path(testbed.spec.name)

    def of(self, tester: Tester, asked: Mapping[str, Any], measure: Callable[[], Calibration]) -> Calibration:
        """The calibration of a tester for a frame and a rate (`asked`): one that holds, or what `measure` finds."""
        identity = tester.identity()
        if identity is None:
            return self._measured(measure)[0]
        on = self._facts(tester, identity)
        name = json.dumps({"tester": tester.name, **asked}, sort_keys=True)
        kept = self._read()
        if not self._fresh and name in kept:
            stale = _stale(kept[name], on)
            if stale is None:
                return kept[name].calibration.model_copy(update={"reused": True})
            self._note(f"tester {tester.name}: its calibration {_when(kept[name].calibration)} is discarded: {stale}")
        found, disturbed = self._measured(measure)
        if disturbed:
            self._note(f"tester {tester.name}: its calibration holds for this run only: {disturbed}")
            kept.pop(name, None)
        else:
            kept[name] = CachedCalibration(at_s=_now_s(), on=on, calibration=found)
        self._write(kept)
        return found

    def _measured(self, measure: Callable[[], Calibration]) -> tuple[Calibration, str | None]:
        """A new calibration, and what disturbed it."""
        host = self._testbed.tester_host
        before, began = cpu_use(host), time.monotonic()
        found = measure()
        elapsed_s = time.monotonic() - began
        taken = {"taken": datetime.now(UTC).isoformat(timespec="seconds"), "boot_id": _boot(host)}
        found = found.model_copy(update=taken)
        after = cpu_use(host)
        layout = self._testbed.layout
        for cpu in before.keys() & after.keys() & {*layout.tx_cpus, layout.tester_rx}:
            share = (after[cpu].steal_ns - before[cpu].steal_ns) / 1e9 / elapsed_s
            if share > QUIET_SHARE:
                return found, f"CPU {cpu}: {share:.1%} stolen by the hypervisor"
        stalled = found.stalled_share or 0.0
        return found, f"its sender stalled {stalled:.1%} of a trial" if stalled > QUIET_SHARE else None

    def _facts(self, tester: Tester, identity: Mapping[str, str]) -> dict[str, str]:
        facts = {
            "boot": {"tester": _boot(self._testbed.tester_host), "dut": _boot(self._testbed.dut)},
            "testbed": self._testbed.spec.model_dump(mode="json"),
            "layout": self._testbed.layout.model_dump(mode="json"),
            "tester": {**identity, "code": _code(tester), "xdplab": __version__},
        }
        found = {**self._environment.facts(), **flat(facts)}
        return {key: str(value) for key, value in found.items() if key not in IGNORED_ON_RESUME}

    def _read(self) -> dict[str, CachedCalibration]:
        try:
            return _kept(self._path)
        except (OSError, ValueError, AttributeError, ValidationError):
            self._note(f"{self._path}: cannot be read and is rewritten")
            return {}

    def _write(self, kept: Mapping[str, CachedCalibration]) -> None:
        partial = self._path.with_name(f"{self._path.name}.partial")
        partial.write_text(json.dumps({name: each.model_dump(mode="json") for name, each in kept.items()}), "utf-8")
        partial.replace(self._path)


def sender_pps(name: str, frame_bytes: int) -> float | None:
    """Frames per second of one CPU of the tester xdpgen, by what has been measured on the testbed of that name.

    None: nothing has, since this machine's boot.
    """
    with suppress(OSError, ValueError, AttributeError):
        found = [
            each.calibration.top_pps / int(each.on["testbed.senders"])
            for asked, each in _kept(_path(name)).items()
            if json.loads(asked)["tester"] == "xdpgen" and each.calibration.frame_bytes == frame_bytes
        ]
        return max(found, default=None)
    return None


def _path(name: str) -> Path:
    return volatile_dir() / f"{name}.calibrations"


def _kept(path: Path) -> dict[str, CachedCalibration]:
    """What such a file holds; nothing where there is none."""
    if not path.exists():
        return {}
    return {
        name: CachedCalibration.model_validate(value)
        for name, value in json.loads(path.read_text(encoding="utf-8")).items()
    }


def _stale(kept: CachedCalibration, on: Mapping[str, str]) -> str | None:
    """Why it does not hold here and now."""
    differing = sorted(key for key in kept.on.keys() | on.keys() if kept.on.get(key) != on.get(key))
    if differing:
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        return f"{differing[0]}{more} differs"
    age_s = _now_s() - kept.at_s
    return None if 0 <= age_s <= HOLDS_S else f"it is {age_s / 60:.0f} min old, and holds for {HOLDS_S / 60:.0f}"


def reused_note(found: Calibration) -> str:
    """`, calibration of 11:02:13 UTC, boot 1a2b3c4d`; nothing of one that has just been made."""
    return f" (calibration {_when(found)}; --calibrate measures again)" if found.reused else ""


def _when(found: Calibration) -> str:
    at = datetime.fromisoformat(found.taken) if found.taken else None
    return f"of {f'{at:%H:%M:%S} UTC' if at else 'an unknown time'}, boot {(found.boot_id or 'unknown')[:8]}"


def _boot(host: Host) -> str:
    return host.read(_BOOT_ID).strip()


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _code(tester: Tester) -> str:
    """Digest of the classes' sources: a tester that somebody works on is another one after each change."""
    sources = [inspect.getsourcefile(cls) for cls in type(tester).__mro__[:-1]]
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in sources if path)).hexdigest()
