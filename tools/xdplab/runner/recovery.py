# SPDX-License-Identifier: Apache-2.0
"""After a run that was killed: what it left is removed, and its settings are put back from the state file."""

import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from xdplab.hosts import Host
from xdplab.hosts.signals import deferred, giving_up, interruptible
from xdplab.knobs import Knob, KnobContext, make_knob
from xdplab.knobs.base import EachKnob
from xdplab.model import CpuLayout, Steps, TestbedSpec, XdplabError
from xdplab.testbed import Port, Testbed, open_testbed, port_settings
from xdplab.testbed.state import SystemLock

#: Ends of sentences about settings that then leave the state file: no later `restore` can report them.
_REPORTED_ONCE = ("left alone", "put back all the same")


def recover(spec: TestbedSpec, *, force: bool = False, forget: Collection[str] = ()) -> list[str]:
    """After kill -9: remove the testbed's leftovers and put settings back; returns what was done.

    `force`: also on ports that somebody needs by now, and what somebody has set since. `forget`: ports that are gone.

    Raises:
        InputError: a live run holds the testbed or settings of the machine, a host of it cannot be reached or is
            another machine, or somebody needs a port by now.
        XdplabError: something cannot be put back; what is left to do stays in the state file.
    """
    with interruptible(spec.file or "..."), deferred():  # what is half put back is worse than a late Ctrl-C
        return recover_testbed(open_testbed(spec), force=force, forget=forget)


def recover_testbed(testbed: Testbed, *, force: bool = False, forget: Collection[str] = ()) -> list[str]:
    """The same of a testbed that is not up."""
    testbed.lock.acquire(restoring=True)
    try:
        if forget:
            testbed.lock.forget_ports(forget, {role: port.title for role, port in testbed.spec.ports.items()})
    except XdplabError:
        testbed.lock.release()
        raise
    steps, done = Steps(), list[str]()
    # first what runs there: it may hold what is put back (hugepages)
    with steps.step("what a run left"):
        testbed.clear_away(done, force=force)
    with steps.step("settings"):
        _put_back(testbed, done, force=force)
    with steps.step("testbed"):
        testbed.down()
    if steps.failed:  # a port that somebody needs by now is often why its peer is not as before
        reported = [line for line in done if line.endswith(_REPORTED_ONCE)]
        raise type(steps.failed[0])("; ".join([steps.reasons, *reported]))
    return done


def _put_back(testbed: Testbed, done: list[str], *, force: bool) -> None:
    """Settings of the state file, even if one of them fails, which then stays there: a point's, then the run's own."""
    parts, steps = Steps(), Steps()
    with ExitStack() as stack:
        with parts.step("settings"):
            _hold_machine(testbed, stack)
        held = not parts.failed
        if not force:
            _leave_what_was_changed_since(testbed, done, parts, held=held)
        with parts.step("settings"):
            _of_point(testbed, done, steps, held=held)
        with parts.step("settings"):
            _of_run(testbed, done, steps)
    with parts.step("settings"):
        if steps.failed:
            raise XdplabError(
                f"{testbed.lock.path}: could not be put back: {steps.reasons}; `xdplab restore` tries again, or put "
                f"back by hand what this file names, and remove it"
            )
    parts.raise_failed()


def _hold_machine(testbed: Testbed, stack: ExitStack) -> None:
    """While settings of the machine are looked at and put back, no other testbed may set them.

    Raises:
        InputError: another one holds them.
    """
    lock = testbed.lock
    settings = lock.state().get("settings", {})
    if not settings or testbed.system in testbed.left_alone or lock.rebooted(testbed.system):
        return
    if any(knob.scope == "system" for knob in _known(settings, Steps()).values()):
        machine = SystemLock(testbed.system)
        machine.acquire(restoring=True)
        stack.callback(machine.release)


@dataclass(frozen=True)
class _Changed:
    """A setting that is neither what the run found nor what it set: somebody else's, which is left alone."""

    #: What to say of it.
    sentence: str
    #: Ports, CPUs, interrupts ... of which it is so; None: of the whole.
    names: frozenset[str] | None
    #: What of it is still the run's to put back.
    ours: Any


def _leave_what_was_changed_since(testbed: Testbed, done: list[str], steps: Steps, *, held: bool) -> None:
    """What somebody has changed since is forgotten and reported.

    All settings are looked at before the first is put back, which may change others. `held`: as `_of_point`.
    """
    lock, state = testbed.lock, testbed.lock.state()
    found, theirs = state.get("settings", {}), dict[str, _Changed]()
    with steps.step("settings"):
        if found and testbed.system not in testbed.left_alone and not lock.rebooted(testbed.system):
            context, knobs = _point(testbed, steps, held=held)
            theirs = _changed_since(knobs, context, found, state.get("settings_set", {}))
            done += [each.sentence for each in theirs.values()]
            of_ports = [each for name, each in theirs.items() if knobs[name].scope == "port"]
            _leave_as_they_are(testbed, state.get("settings_ports", ()), of_ports)
            lock.remember(settings=_without(found, theirs))
    for role, saved in state.get("own_settings", {}).items():
        with steps.step(role):
            port = testbed.ports.get(role)
            if port is not None:
                both = found.keys() & saved.keys() if role in state.get("settings_ports", ()) else set()
                knobs = _known(saved.keys() - both, steps)  # what a point has set since is known from that
                was_set = state.get("own_settings_set", {}).get(role, {})
                changed = _changed_since(knobs, _context(port.host, (port,)), saved, was_set)
                done += [each.sentence for each in changed.values()]
                _leave_as_they_are(testbed, [role], list(changed.values()))
                gone = {name for name in both & theirs.keys() if _is_of(theirs[name], port)}
                left = {name: was for name, was in _without(saved, changed).items() if name not in gone}
                own = {**lock.state()["own_settings"], role: left}
                lock.remember(own_settings={each: left for each, left in own.items() if left})


def _is_of(changed: _Changed, port: Port) -> bool:
    return changed.names is None or port.ifname in changed.names


def _without(saved: dict[str, Any], changed: dict[str, _Changed]) -> dict[str, Any]:
    """What is to be put back, without what is somebody else's."""
    left = {name: changed[name].ours if name in changed else was for name, was in saved.items()}
    return {name: was for name, was in left.items() if name not in changed or was}


def _leave_as_they_are(testbed: Testbed, roles: Collection[str], changed: Collection[_Changed]) -> None:
    """Ports on which somebody has set something since: nothing is put back there but what a run sets on every port."""
    saved = testbed.lock.state().get("ports", {})
    for role in saved.keys() & set(roles):
        if role in testbed.ports and any(_is_of(each, testbed.ports[role]) for each in changed):
            saved[role] = {kind: was for kind, was in saved[role].items() if kind in port_settings.PREPARED}
            testbed.lock.remember(ports=saved)


def _changed_since(
    knobs: dict[str, Knob], context: KnobContext, found: dict[str, Any], was_set: dict[str, Any]
) -> dict[str, _Changed]:
    """Knob -> what somebody has changed of it since."""
    changed = {}
    for name in knobs.keys() & was_set.keys():
        with suppress(Exception):  # what cannot be read cannot be put back either, and that says why
            now = json.loads(json.dumps(_now(knobs[name], context, found[name])))
            theirs = port_settings.theirs(now, found[name], was_set[name])
            if theirs is None or theirs:
                of = [now, found[name], was_set[name]]
                if theirs is not None:
                    of = [{each: values.get(each) for each in sorted(theirs)} for values in of]
                changed[name] = _Changed(
                    sentence=port_settings.not_ours(f"{context.host.name}: {name}", *of),
                    names=theirs,
                    ours=None if theirs is None else {each: v for each, v in found[name].items() if each not in theirs},
                )
    return changed


def _now(knob: Knob, context: KnobContext, found: Any) -> Any:
    """What it has now: of what was found, where it is of several; a run may have had other CPUs than this context."""
    if isinstance(knob, EachKnob):
        return {name: knob.present(knob.place(context), name) for name in found}
    return knob.read(context)


def _of_point(testbed: Testbed, done: list[str], steps: Steps, *, held: bool) -> None:
    """What a repetition had set, on the forwarder's host. `held`: those of the machine as well."""
    state = testbed.lock.state()
    left = dict(state.get("settings", {}))
    if not left or testbed.system in testbed.left_alone:
        return
    if testbed.lock.rebooted(testbed.system):
        testbed.lock.remember(settings={})
        done.append(f"{', '.join(left)}: {testbed.system.name} was rebooted since, which reset it")
        return
    context, knobs = _point(testbed, steps, held=held)

    def put_back(name: str) -> None:
        done.append(f"{name} back to {left.pop(name)}")
        testbed.lock.remember(settings=left)

    _restore(knobs, left, context, steps, put_back)


def _point(testbed: Testbed, steps: Steps, *, held: bool) -> tuple[KnobContext, dict[str, Knob]]:
    """Of the settings of a point those that can be put back, and where."""
    state = testbed.lock.state()
    roles = state.get("settings_ports", ())
    ports = tuple(testbed.ports[role] for role in roles if role in testbed.ports)
    knobs = _known(state.get("settings", {}), steps)
    if len(ports) < len(roles):  # what is set on a port that is left alone stays as well
        knobs = {name: knob for name, knob in knobs.items() if knob.scope == "system"}
    if not held:
        knobs = {name: knob for name, knob in knobs.items() if knob.scope != "system"}
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


# A process that restores what a run changed if the run is killed (SIGKILL, out of memory) or crashes.

#: A small interpreter whose input ends with the run, and which becomes `xdplab restore` only then. It ignores signals
#: that end a service or a terminal, and restores as well if its output is closed.
_WAIT = r"""
import os, signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.read(0, 1)
try:
    show_cursor = b"\x1b[?25h" if os.isatty(2) else b""
    os.write(2, show_cursor + b"\nxdplab: killed; what it changed is being restored\n")
except OSError:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
os.dup2(2, 1)
os.execv(sys.argv[1], sys.argv[1:])
"""
_RESTORE = "from xdplab.cli import main; main()"


@contextmanager
def guarded(testbed: TestbedSpec) -> Iterator[None]:
    """Within: if this process is killed or crashes, `xdplab restore` runs for the testbed, in a session of its own.

    After the third signal, which gives up, nothing is restored here either.

    Raises:
        XdplabError: the process cannot be started.
    """
    if testbed.kind == "fake" or not testbed.file:  # nothing to restore, or no name for it
        yield
        return
    restore = [sys.executable, "-P", "-c", _RESTORE, "restore", "--testbed", testbed.file]
    waiting: subprocess.Popen[bytes] | None = None
    try:
        with deferred():
            waiting = _started([sys.executable, "-I", "-S", "-c", _WAIT, *restore])
        with giving_up(waiting.kill):
            yield
    finally:
        if waiting is not None:
            with deferred():  # an interrupted run has restored everything, and its guardian must not do so again
                waiting.kill()
                waiting.communicate()


def _started(argv: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError as exc:
        raise XdplabError(f"the process that restores after kill -9 cannot be started: {exc.strerror}") from None
