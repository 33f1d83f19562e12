# SPDX-License-Identifier: Apache-2.0
"""What a socket study consists of: its cases at its workloads, and what a line says of a trial of one."""

import itertools
from dataclasses import dataclass

from xdplab.forwarders.xsk_roles import make_role
from xdplab.knobs import make_knob
from xdplab.model import InputError
from xdplab.model.sockets import SocketCase, SocketStudy, SocketTrial, Workload


@dataclass(frozen=True)
class Cell:
    """One case at one workload (and rate)."""

    workload: Workload
    case: SocketCase
    rate_pps: float | None = None

    @property
    def title(self) -> str:
        """What tables and lines print."""
        rate = f" at {self.rate_pps:g} pps" if self.rate_pps else ""
        return f"{self.workload}: {self.case.title}{rate}"


def cells(study: SocketStudy) -> list[Cell]:
    """All cells, in the study's order.

    Raises:
        InputError: a case has an option that its program has not; a knob or its value is unknown.
    """
    found = []
    for name, value in study.knobs.items():
        make_knob(name).check(value)
        if study.network_functions and any(name in case.function.knobs for case in study.all_cases() if case.function):
            raise InputError(f"knobs: {name} is set by network_functions as well")
    for workload, case in itertools.product(study.workloads, study.all_cases()):
        if case.workloads and workload not in case.workloads:
            continue
        make_role(case, workload, study.frame_bytes)
        rates: tuple[float | None, ...] = study.rates_pps if workload == "stages" else (None,)
        found += [Cell(workload, case, rate) for rate in rates]
    return found


def describe(trial: SocketTrial) -> str:
    """A trial in one phrase."""
    if trial.stages:
        text = ", ".join(f"{name} {stage.mean_ns / 1000:.2f} us" for name, stage in trial.stages.items())
    elif trial.figure is not None:
        text = f"{trial.figure:.4g} {trial.unit}"
    elif trial.pps is not None:
        text = f"{trial.pps / 1e6:.3f} Mpps"
    else:
        return f"{trial.status}: {trial.reason}"
    return f"{text}  (disturbed: {trial.reason})" if trial.status == "disturbed" else text
