# SPDX-License-Identifier: Apache-2.0
"""After a run that was killed: what it left is removed, and its settings are put back from the state file."""

import json
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from typing import Any

from xdplab.hosts import Host
from xdplab.hosts.signals import deferred, interruptible
from xdplab.knobs import Knob, KnobContext, make_knob
from xdplab.model import CpuLayout, Steps, TestbedSpec, XdplabError
from xdplab.model.inventory import PortRole
from xdplab.testbed import Port, Testbed, TestbedLock, open_testbed, port_settings
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
    except XdplabError:
        testbed.lock.release()
        raise
    steps, done = Steps(), list[str]()
    # first what runs there: it may hold what is put back (hugepages)
    with steps.step("what a run left"):
        done += testbed.clear_away(force=force)
    with steps.step("settings"):
        _put_back(testbed, done, force=force)
    with steps.step("testbed"):
        testbed.down()
    if steps.failed:  # a port that somebody needs by now is often why its peer is not as before
        raise type(steps.failed[0])(steps.reasons)
    return done


def _put_back(testbed: Testbed, done: list[str], *, force: bool) -> None:
    """Settings of the state file, even if one of them fails, which then stays there: a point's, then the run's own."""
    parts, steps = Steps(), Steps()
    if not force:
        _leave_what_was_changed_since(testbed, done, parts)
    with parts.step("settings"):
        _of_point(testbed, done, steps)
    with parts.step("settings"):
        _of_run(testbed, done, steps)
    with parts.step("settings"):
        if steps.failed:
            raise XdplabError(
                f"{testbed.lock.path}: could not be put back: {steps.reasons}; `xdplab restore` tries again, or put "
                f"back by hand what this file names, and remove it"
            )
    parts.raise_failed()


def _leave_what_was_changed_since(testbed: Testbed, done: list[str], steps: Steps) -> None:
    """Settings that are neither what the run found nor what it set are somebody else's: forgotten and reported.

    All are looked at before the first is put back, which may change others.
    """
    lock, state = testbed.lock, testbed.lock.state()
    found, theirs = state.get("settings", {}), dict[str, str]()
    with steps.step("settings"):
        if found and testbed.system not in testbed.left_alone and not lock.rebooted(testbed.system):
            context, knobs = _point(testbed, steps)
            theirs = _changed_since(knobs, context, found, state.get("settings_set", {}))
            done += theirs.values()
            _leave_as_they_are(lock, state.get("settings_ports", ()) if theirs else ())
            lock.remember(settings={key: was for key, was in found.items() if key not in theirs})
    for role, saved in state.get("own_settings", {}).items():
        with steps.step(role):
            port = testbed.ports.get(role)
            if port is not None:
                both = found.keys() & saved.keys() if role in state.get("settings_ports", ()) else set()
                knobs = _known(saved.keys() - both, steps)  # what a point has set since is known from that
                was_set = state.get("own_settings_set", {}).get(role, {})
                changed = _changed_since(knobs, _context(port.host, (port,)), saved, was_set)
                done += changed.values()
                _leave_as_they_are(lock, [role] if changed else ())
                gone = changed.keys() | (both & theirs.keys())
                own = {**lock.state()["own_settings"], role: {k: was for k, was in saved.items() if k not in gone}}
                lock.remember(own_settings={each: left for each, left in own.items() if left})


def _leave_as_they_are(lock: TestbedLock, roles: Collection[str]) -> None:
    """Ports on which somebody has set something since: nothing is put back there but what a run sets on every port."""
    saved = lock.state().get("ports", {})
    for role in saved.keys() & set(roles):
        saved[role] = {kind: was for kind, was in saved[role].items() if kind in port_settings.PREPARED}
        lock.remember(ports=saved)


def _changed_since(
    knobs: dict[str, Knob], context: KnobContext, found: dict[str, Any], was_set: dict[str, Any]
) -> dict[str, str]:
    """Knob -> what to say of its value."""
    changed = {}
    for name in knobs.keys() & was_set.keys():
        with suppress(Exception):  # what cannot be read cannot be put back either, and that says why
            now = json.loads(json.dumps(knobs[name].read(context)))
            if not _of_the_run(now, found[name], was_set[name]):
                of_the_run = f"neither what the run found ({found[name]}) nor what it set ({was_set[name]})"
                changed[name] = f"{context.host.name}: {name} is {now}, which is {of_the_run}: left alone"
    return changed


def _of_the_run(now: Any, found: Any, was_set: Any) -> bool:
    """Whether it found this or set it; of each port, for what a run had begun to put back is so on some of them."""
    if isinstance(now, dict) and isinstance(found, dict) and isinstance(was_set, dict):
        return all(value in (found.get(name), was_set.get(name)) for name, value in now.items())
    return now in (found, was_set)


def _of_point(testbed: Testbed, done: list[str], steps: Steps) -> None:
    """What a repetition had set, on the forwarder's host."""
    state = testbed.lock.state()
    left = dict(state.get("settings", {}))
    if not left or testbed.system in testbed.left_alone:
        return
    if testbed.lock.rebooted(testbed.system):
        testbed.lock.remember(settings={})
        done.append(f"{', '.join(left)}: {testbed.system.name} was restarted since, which reset it")
        return
    context, knobs = _point(testbed, steps)

    def put_back(name: str) -> None:
        done.append(f"{name} back to {left.pop(name)}")
        testbed.lock.remember(settings=left)

    with ExitStack() as stack:
        if any(knob.scope == "system" for knob in knobs.values()):
            machine = SystemLock(testbed.system)
            machine.acquire()
            stack.callback(machine.release)
        _restore(knobs, left, context, steps, put_back)


def _point(testbed: Testbed, steps: Steps) -> tuple[KnobContext, dict[str, Knob]]:
    """Of the settings of a point those that can be put back, and where."""
    state = testbed.lock.state()
    roles = state.get("settings_ports", ())
    ports = tuple(testbed.ports[role] for role in roles if role in testbed.ports)
    knobs = _known(state.get("settings", {}), steps)
    if len(ports) < len(roles):  # what is set on a port that is left alone stays as well
        knobs = {name: knob for name, knob in knobs.items() if knob.scope == "system"}
    return _context(testbed.system, ports), knobs


def _of_run(testbed: Testbed, done: list[str], steps: Steps) -> None:
    """What it had set on cards for its whole length, port by port."""
    state = testbed.lock.state()
    own = {role: dict(saved) for role, saved in state.get("own_settings", {}).items()}
    for role, left in own.items():
        port = testbed.ports.get(role)
        if port is None:  # it is left alone
            continue

        def put_back(name: str, left: dict[str, Any] = left, host: Host = port.host) -> None:
            done.append(f"{host.name}: {name} back to {left.pop(name)}")
            testbed.lock.remember(own_settings={each: saved for each, saved in own.items() if saved})

        # what is still set of a point is put back before it
        later = state.get("settings", {}).keys() if role in state.get("settings_ports", ()) else set()
        knobs = _known([name for name in left if name not in later], steps)
        _restore(knobs, left, _context(port.host, (port,)), steps, put_back)


def _context(host: Host, ports: tuple[Port, ...]) -> KnobContext:
    return KnobContext(host, ports, CpuLayout(tester_tx=0, forwarder=1), (0, 1))


def _known(names: Iterable[str], steps: Steps) -> dict[str, Knob]:
    """Their knobs; one whose plug-in is not there any more is a reason."""
    knobs: dict[str, Knob] = {}
    for name in names:
        with steps.step(f"knob {name}"):
            knobs[name] = make_knob(name)
    return knobs


def _restore(
    knobs: dict[str, Knob],
    saved: dict[str, Any],
    context: KnobContext,
    steps: Steps,
    put_back: Callable[[str], None],
) -> None:
    """In the reverse order of how they were set; `put_back` is called of each that is as before."""
    for name, knob in reversed(knobs.items()):
        with steps.step(f"knob {name}"):
            knob.restore(context, saved[name])
            put_back(name)
