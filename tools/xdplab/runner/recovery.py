# SPDX-License-Identifier: Apache-2.0
"""After a run that was killed: what it left is removed, and its settings are put back from the state file."""

from contextlib import ExitStack

from xdplab.hosts.signals import deferred, interruptible
from xdplab.knobs import Knob, KnobContext, make_knob
from xdplab.model import CpuLayout, TestbedSpec, XdplabError
from xdplab.runner.settings import collected
from xdplab.testbed import Testbed, open_testbed
from xdplab.testbed.state import SystemLock


def recover(spec: TestbedSpec) -> list[str]:
    """After kill -9: remove the testbed's leftovers and put settings back; returns what was done.

    Raises:
        InputError: a live run holds the testbed or settings of the machine, or a host of it cannot be reached.
        XdplabError: something cannot be put back; what is left to do stays in the state file.
    """
    with interruptible(), deferred():  # what is half put back is worse than a late Ctrl-C
        return recover_testbed(open_testbed(spec))


def recover_testbed(testbed: Testbed) -> list[str]:
    """The same of a testbed that is not up."""
    testbed.lock.acquire()
    try:
        # first what runs there: it may hold what is put back (hugepages)
        return testbed.clear_away() + _put_back(testbed)
    finally:
        testbed.down()


def _put_back(testbed: Testbed) -> list[str]:
    """Settings of the state file, even if one of them fails, which then stays there."""
    state = testbed.lock.state()
    left = dict(state.get("settings", {}))
    if not left:
        return []
    if testbed.lock.rebooted(testbed.system):
        testbed.lock.remember(settings={})
        return [f"{', '.join(left)}: {testbed.system.name} was restarted since, which reset it"]
    ports = tuple(testbed.ports[role] for role in state.get("settings_ports", ()))
    context = KnobContext(testbed.system, ports, CpuLayout(tester_tx=0, forwarder=1), (0, 1))
    done: list[str] = []
    reasons: list[str] = []
    knobs: dict[str, Knob] = {}
    for name in left:
        with collected(reasons, name):
            knobs[name] = make_knob(name)
    with ExitStack() as stack:
        if any(knob.scope == "system" for knob in knobs.values()):
            machine = SystemLock(testbed.system)
            machine.acquire()
            stack.callback(machine.release)
        for name, knob in reversed(knobs.items()):  # in the reverse order of how they were set
            with collected(reasons, name):
                knob.restore(context, left[name])
                done.append(f"{name} back to {left.pop(name)}")
                testbed.lock.remember(settings=left)
    if reasons:
        raise XdplabError(
            f"{testbed.lock.path}: could not be put back: {'; '.join(reasons)}; `xdplab restore` tries again, or put "
            f"back by hand what this file names, and remove it"
        )
    return done
