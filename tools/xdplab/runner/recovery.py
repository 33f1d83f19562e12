# SPDX-License-Identifier: Apache-2.0
"""After a run that was killed: what it left is removed, and its settings are put back from the state file."""

import json
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from typing import Any

from xdplab.hosts import Host
from xdplab.hosts.signals import deferred, interruptible
from xdplab.knobs import Knob, KnobContext, make_knob
from xdplab.model import CpuLayout, TestbedSpec, XdplabError
from xdplab.model.inventory import PortRole
from xdplab.runner.settings import collected
from xdplab.testbed import Port, Testbed, open_testbed
from xdplab.testbed.state import SystemLock


def recover(spec: TestbedSpec, *, force: bool = False, forget: Collection[PortRole] = ()) -> list[str]:
    """After kill -9: remove the testbed's leftovers and put settings back; returns what was done.

    `force`: also on ports that somebody needs by now, and what somebody has set since. `forget`: ports that are gone.

    Raises:
        InputError: a live run holds the testbed or settings of the machine, a host of it cannot be reached or is
            another machine, or somebody needs a port by now.
        XdplabError: something cannot be put back; what is left to do stays in the state file.
    """
    with interruptible(), deferred():  # what is half put back is worse than a late Ctrl-C
        return recover_testbed(open_testbed(spec), force=force, forget=forget)


def recover_testbed(testbed: Testbed, *, force: bool = False, forget: Collection[PortRole] = ()) -> list[str]:
    """The same of a testbed that is not up."""
    testbed.lock.acquire()
    try:
        if forget:
            testbed.lock.forget_ports({role: testbed.spec.ports[role].title for role in forget})
        # first what runs there: it may hold what is put back (hugepages)
        done = testbed.clear_away(force=force) + _put_back(testbed, force=force)
    except XdplabError as exc:
        try:
            testbed.down()
        except XdplabError as further:
            raise type(exc)(f"{exc}; {further}") from None
        raise
    except BaseException:
        testbed.down()
        raise
    testbed.down()
    return done


def _put_back(testbed: Testbed, *, force: bool) -> list[str]:
    """Settings of the state file, even if one of them fails, which then stays there: a point's, then the run's own."""
    done: list[str] = []
    reasons: list[str] = []
    if not force:
        _leave_what_was_changed_since(testbed, done)
    _of_point(testbed, done, reasons)
    _of_run(testbed, done, reasons)
    if reasons:
        raise XdplabError(
            f"{testbed.lock.path}: could not be put back: {'; '.join(reasons)}; `xdplab restore` tries again, or put "
            f"back by hand what this file names, and remove it"
        )
    return done


def _leave_what_was_changed_since(testbed: Testbed, done: list[str]) -> None:
    """Settings that are neither what the run found nor what it set are somebody else's: forgotten and reported."""
    lock, state = testbed.lock, testbed.lock.state()
    if not (state.get("settings") or state.get("own_settings")) or lock.rebooted(testbed.system):
        return
    ports = tuple(testbed.ports[role] for role in state.get("settings_ports", ()))
    of_point = _changed_since(_context(testbed.system, ports), state.get("settings", {}), state.get("settings_set", {}))
    left = {name: saved for name, saved in state.get("settings", {}).items() if name not in of_point}
    own = {}
    for role, saved in state.get("own_settings", {}).items():
        port = testbed.ports[role]
        theirs = _changed_since(_context(port.host, (port,)), saved, state.get("own_settings_set", {}).get(role, {}))
        own[role] = {name: was for name, was in saved.items() if name not in theirs}
        of_point |= theirs
    done += of_point.values()
    if of_point:
        lock.remember(settings=left, own_settings={role: saved for role, saved in own.items() if saved})


def _changed_since(context: KnobContext, found: dict[str, Any], was_set: dict[str, Any]) -> dict[str, str]:
    """Knob -> what to say of its value."""
    changed = {}
    for name in found.keys() & was_set.keys():
        with suppress(XdplabError):  # what cannot be read cannot be put back either, and that says why
            now = json.loads(json.dumps(make_knob(name).read(context)))
            if now not in (found[name], was_set[name]):
                of_the_run = f"neither what the run found ({found[name]}) nor what it set ({was_set[name]})"
                changed[name] = f"{context.host.name}: {name} is {now}, which is {of_the_run}: left alone"
    return changed


def _of_point(testbed: Testbed, done: list[str], reasons: list[str]) -> None:
    """What a repetition had set, on the forwarder's host."""
    state = testbed.lock.state()
    left = dict(state.get("settings", {}))
    if not left:
        return
    if testbed.lock.rebooted(testbed.system):
        testbed.lock.remember(settings={})
        done.append(f"{', '.join(left)}: {testbed.system.name} was restarted since, which reset it")
        return
    ports = tuple(testbed.ports[role] for role in state.get("settings_ports", ()))
    knobs = _known(left, reasons)

    def put_back(name: str) -> None:
        done.append(f"{name} back to {left.pop(name)}")
        testbed.lock.remember(settings=left)

    with ExitStack() as stack:
        if any(knob.scope == "system" for knob in knobs.values()):
            machine = SystemLock(testbed.system)
            machine.acquire()
            stack.callback(machine.release)
        _restore(knobs, left, _context(testbed.system, ports), reasons, put_back)


def _of_run(testbed: Testbed, done: list[str], reasons: list[str]) -> None:
    """What it had set on cards for its whole length, port by port."""
    own = {role: dict(saved) for role, saved in testbed.lock.state().get("own_settings", {}).items()}
    for role, left in own.items():
        port = testbed.ports[role]

        def put_back(name: str, left: dict[str, Any] = left, host: Host = port.host) -> None:
            done.append(f"{host.name}: {name} back to {left.pop(name)}")
            testbed.lock.remember(own_settings={each: saved for each, saved in own.items() if saved})

        _restore(_known(left, reasons), left, _context(port.host, (port,)), reasons, put_back)


def _context(host: Host, ports: tuple[Port, ...]) -> KnobContext:
    return KnobContext(host, ports, CpuLayout(tester_tx=0, forwarder=1), (0, 1))


def _known(names: Iterable[str], reasons: list[str]) -> dict[str, Knob]:
    """Their knobs; one whose plug-in is not there any more is a reason."""
    knobs: dict[str, Knob] = {}
    for name in names:
        with collected(reasons, name):
            knobs[name] = make_knob(name)
    return knobs


def _restore(
    knobs: dict[str, Knob],
    saved: dict[str, Any],
    context: KnobContext,
    reasons: list[str],
    put_back: Callable[[str], None],
) -> None:
    """In the reverse order of how they were set; `put_back` is called of each that is as before."""
    for name, knob in reversed(knobs.items()):
        with collected(reasons, name):
            knob.restore(context, saved[name])
            put_back(name)
