# SPDX-License-Identifier: Apache-2.0
"""The testers of a run: most runs have one; where several measure the same points, one at a time holds the ports."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdplab.measure import Method
from xdplab.model import (
    Calibration,
    InputError,
    LinkLost,
    Path,
    Point,
    StudySpec,
    TrafficSpec,
    TrialResult,
    TrialSpec,
    Unsupported,
    do_each,
)
from xdplab.model.testbed import PortRole
from xdplab.runner.calibrations import Calibrations, reused_note
from xdplab.runner.plan import Plan
from xdplab.runner.ports import KeptPorts, tester_ports_of
from xdplab.testbed import Testbed, TesterPorts
from xdplab.testers import RxChoice, Tester, TesterContext, calibrate, run_trial
from xdplab.testers.base import OWN_CARDS
from xdplab.testers.calibrate import DEFAULT_PPS

#: How often the connection may be lost while ports are given back.
_PUT_BACKS = 5


class TesterPool:
    """Testers by the name that the study gives them, with what was found out about each."""

    def __init__(self, study: StudySpec, testers: tuple[Tester, ...], testbed: Testbed) -> None:
        self._by_name = dict(zip(study.all_testers, testers, strict=True))
        self._first = study.all_testers[0]
        self._testbed = testbed
        self.choices: dict[str, RxChoice] = {}
        self.calibrations: dict[str, Calibration] = {}
        #: As they are before a tester has them, and the one that has.
        self._ports = KeptPorts()
        self._holder = ""

    @property
    def put_back(self) -> list[str]:
        """What testers have changed on their ports, a sentence each."""
        return self._ports.changed

    @property
    def choice(self) -> RxChoice:
        return self.choices[self._first]

    @property
    def calibration(self) -> Calibration | None:
        return self.calibrations.get(self._first)

    def versions(self) -> dict[str, str]:
        host = self._testbed.tester_host
        return {name: text for tester in self._by_name.values() for name, text in tester.versions(host).items()}

    def of(self, point: Point) -> Tester:
        return self._by_name[point.tester or self._first]

    def missing(self, point: Point) -> str | None:
        """Why the tester of a point cannot measure it, or None."""
        tester = self.of(point)
        reason = (
            _no_cards(tester, self._testbed)
            or _no_senders(tester, self._testbed)
            or tester.unsupported(self._testbed)
            or tester.supports_path(self._testbed.tester_ports(point.path))
            or tester.supports_traffic(point.traffic, tester_ports_of(self._testbed, point))
        )
        return f"tester {tester.name}: {reason}" if reason else None

    @property
    def own_cards(self) -> bool:
        """Whether the tester has the cards of A and C without the kernel."""
        return self._testbed.ports["a0"].trex is not None

    def find_macs(self, points: Sequence[Point]) -> None:
        """Ask the tester of points for the addresses of cards that it alone has; the testbed's ports have them then.

        Raises:
            InputError: the testbed file says another one.
            PointFailed: it does not answer.
        """
        wanted = {point.tester or self._first for point in points}
        tester = next((each for name, each in self._by_name.items() if name in wanted), None)
        if not self.own_cards or tester is None:
            return
        testbed, direct = self._testbed, self._testbed.direct_ports()
        through = testbed.tester_ports(Path.THROUGH)
        for ports in (through, direct) if direct else (through,):
            found = tester.macs(self._context(ports, OWN_CARDS))
            for port, mac in zip((ports.first, ports.last), found, strict=True):
                stated = testbed.spec.ports[cast(PortRole, port.role)].mac
                if stated not in (None, mac):
                    raise InputError(f"{port.ifname} ({port.role}) has MAC {mac}, the testbed file says {stated}")
                testbed.ports[port.role] = dataclasses.replace(port, mac=mac)

    def _context(self, ports: TesterPorts, choice: RxChoice) -> TesterContext:
        host = self._testbed.tester_host
        folder = self._testbed.folder_on(host)
        host.make_folder(folder)
        return TesterContext(ports, self._testbed.layout, choice.program, folder, host)

    def look(self, point: Point) -> Callable[[TrialSpec], TrialResult]:
        """Trials of the point's tester that take redirected frames, before receive programs are chosen."""
        tester = self.of(point)
        context = self._context(tester_ports_of(self._testbed, point), tester.choose_rx(redirects=True))

        def send(spec: TrialSpec) -> TrialResult:
            try:
                return run_trial(tester, context, spec)
            finally:
                tester.close()

        return send

    def take(self, point: Point, place: Testbed) -> tuple[Tester, str, float, Calibration | None]:
        """The tester of a point, its receive program, top load and calibration; the others let go of the ports."""
        wanted = point.tester or self._first
        self._hold(wanted, place)
        choice, calibration = self.choices[wanted], self.calibrations.get(wanted)
        return self._by_name[wanted], choice.program, self._top_pps(point), calibration

    def _top_pps(self, point: Point) -> float:
        calibration = self.calibrations.get(point.tester or self._first)
        tester_pps = calibration.ceiling_pps if calibration else 0.0
        return point.traffic.top_pps(tester_pps, self._testbed.spec.line_rate_bps)

    def _hold(self, name: str, place: Testbed) -> None:
        """Have the ports of a place for one tester; the one that had them gives them back."""
        if self._holder not in ("", name):
            self.close()
        self._holder = name
        self._ports.look(port for role, port in place.ports.items() if not role.startswith("b"))

    def close(self) -> None:
        """All let go of the ports, which are given back as they were.

        Raises:
            XdplabError: what a tester has changed and cannot be put back.
        """
        do_each("tester", *(tester.close for tester in self._by_name.values()), self._give_back)

    def _give_back(self) -> None:
        for _ in range(_PUT_BACKS):
            try:
                self._ports.put_back(self._holder)
            except LinkLost:
                if not self._testbed.reconnect():
                    raise
            else:
                self._holder = ""
                return

    def prepare(
        self,
        plan: Plan,
        points: list[Point],
        redirects: bool,
        earlier: Mapping[str, Calibration],
        kept: Calibrations,
        note: Callable[[str], None],
        progress: Callable[[str], None],
    ) -> dict[str, str]:
        """Choose receive programs, and calibrate those who measure one of `points` and have no earlier calibration.

        `earlier`: of the same run, which goes on; `kept`: of runs before.

        Returns:
            Tester -> why it cannot measure, as far as its own calibration has shown.

        Raises:
            InputError: a point asks for more than its tester can send, or for a share of what is not known.
        """
        refused: dict[str, str] = {}
        for name, tester in self._by_name.items():
            self.choices[name] = OWN_CARDS if self.own_cards else tester.choose_rx(redirects)
            mine = [point for point in points if (point.tester or self._first) == name]
            if name in earlier:  # a resumed search must see the top load that its journal was made with
                self.calibrations[name] = earlier[name]
                tester.calibrated(earlier[name])
            elif mine and not plan.method.own_ends:
                self._hold(name, self._testbed)
                try:
                    found = self._calibrate(tester, self.choices[name], plan, kept, progress)
                except Unsupported as exc:
                    refused[name] = str(exc)
                    continue
                finally:
                    self.close()
                if found is None:
                    _refuse_shares([point for point in mine if not self._top_pps(point)])
                    continue
                note(_tester_line(tester, found))
                for point in mine:
                    _check_load(tester, found, plan.method, point.traffic)
                self.calibrations[name] = found
                tester.calibrated(found)
        return refused

    def _calibrate(
        self, tester: Tester, choice: RxChoice, plan: Plan, kept: Calibrations, progress: Callable[[str], None]
    ) -> Calibration | None:
        ports = self._testbed.direct_ports()
        if ports is None:
            return None
        context = self._context(ports, choice)
        smallest = min(point.traffic.smallest for point in plan.points)
        several = len(self._by_name) > 1
        at_pps = plan.points[0].traffic.probes_per_s if several else DEFAULT_PPS
        frame_bytes = max(smallest, tester.smallest_frame(4))
        asked = {"frame_bytes": frame_bytes, "at_pps": at_pps, "rx_program": choice.program}
        return kept.of(tester, asked, lambda: calibrate(tester, context, frame_bytes, at_pps=at_pps, progress=progress))


def _no_cards(tester: Tester, testbed: Testbed) -> str | None:
    """None, or why it cannot use the ports: they are no interfaces."""
    if testbed.ports["a0"].trex is None or tester.owns_cards:
        return None
    return "it sends from interfaces of the kernel, and A and C have cards of TRex in the testbed file; tester: trex"


def _no_senders(tester: Tester, testbed: Testbed) -> str | None:
    """None, or why not as many CPUs send as the testbed file says; a tester that sends from one takes the first."""
    asked, there = testbed.spec.senders, len(testbed.layout.tx_cpus)
    if tester.several_senders and asked > there:
        with_forwarder = " next to the forwarder's" if testbed.one_machine else ""
        return f"senders: {asked} of the testbed file need as many CPUs{with_forwarder}, and there are {there}"
    return None


def _tester_line(tester: Tester, found: Calibration) -> str:
    whole = f", {found.lossless_pps / 1e6:.2f} Mpps without loss" if found.lossless_pps is not None else ""
    return (
        f"tester {tester.name} on the direct link: p50 {found.p50_ns / 1000:.2f} us, "
        f"p99 {found.p99_ns / 1000:.2f} us, top rate {found.top_pps / 1e6:.2f} Mpps{whole}{reused_note(found)}"
    )


def _refuse_shares(points: list[Point]) -> None:
    for point in points:
        if isinstance(point.traffic.probe_pps, str):
            raise InputError(
                f"traffic.probe_pps: {point.traffic.probes_text}, which is not known: this testbed has no direct link "
                "to calibrate it on, and no speed_mbps of its ports; give frames per second"
            )


def _check_load(tester: Tester, found: Calibration, method: Method[Any], traffic: TrafficSpec) -> None:
    if tester.closed_loop:  # the next waits for the last: more is not asked for than comes back
        return
    asked = method.asked_pps(traffic.at(found.ceiling_pps))
    if asked > found.top_pps:
        raise InputError(
            f"traffic: {asked:.0f} pps asked for, but the tester's calibrated top rate on the direct link is "
            f"{found.top_pps:.0f} pps ({tester.name}); lower it, or give a share of it: traffic.probe_pps=80%"
        )
