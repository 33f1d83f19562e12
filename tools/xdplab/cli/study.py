# SPDX-License-Identifier: Apache-2.0
"""A study on the command line: what is changed of it, what it would do, and how far it is."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from xdplab.model import InputError, Point, StudySpec, TrialRecord, plain
from xdplab.model.digits import columns, duration, number_of
from xdplab.model.study import RATES, unusual
from xdplab.report import describe
from xdplab.runner import Listener, Plan
from xdplab.runner.turns import described


def changes_of(items: Iterable[str]) -> dict[str, Any]:
    """`repetitions=3` -> {"repetitions": 3}; values are YAML."""
    changes = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InputError(f"--set {item!r}: KEY=VALUE is expected")
        try:
            changes[key] = yaml.safe_load(value)
        except (
            yaml.YAMLError,
            ValueError,
            RecursionError,
        ):  # also of a date that does not exist, and of [[[ without end
            raise InputError(f"--set {item[:80]!r}: the value is not YAML") from None
    return changes


def split_forwarders(text: str) -> Iterator[str]:
    """`ovs-afxdp:n_rxq=2,type=afxdp,xdp` -> `ovs-afxdp:n_rxq=2,type=afxdp` and `xdp`: commas also part options."""
    found = ""
    for item in filter(None, (part.strip() for part in text.split(","))):
        is_option = "=" in item and ":" not in item.partition("=")[0]
        if found and not is_option:
            yield found
        found = f"{found},{item}" if found and is_option else item
    if found:
        yield found


def chosen_forwarders(text: str, there: Iterable[Any]) -> list[Any]:
    """What `--forwarders` names: rows of a study by their labels, others as they are written.

    `there`: the forwarders of the study's file.
    """
    by_label = {each["label"]: each for each in there if isinstance(each, dict) and each.get("label")}
    names = [text] if text in by_label else [*split_forwarders(text)]
    if not names:
        raise InputError("--forwarders: name at least one")
    return [by_label.get(name, name) for name in names]


# `xdplab run --dry-run`: what a study would do.

#: What says nothing, where no row of its column says anything else.
_USUAL = {"-", "cross"}


def plan_table(
    plan: Plan,
    study: StudySpec,
    unsupported: Mapping[str, str] | str,
    done: Collection[tuple[str, int]] = (),
    kind: str = "embedded",
) -> str:
    """What a study would do: its points, those that cannot be measured here with their reasons, and the time.

    `done`: point and number of each repetition that a run which goes on has completed; points without others are left
    out. `kind`: of the testbed.
    """
    reasons = {} if isinstance(unsupported, str) else unsupported
    possible = [each for each in plan.order if each.point.id not in reasons]
    left = [each for each in possible if (each.point.id, each.number) not in done]
    to_do = {each.point.id for each in left}
    head = ("forwarder", "pipeline", "path", "bytes", "probes", "load", "settings")
    rows = [head, *(_row(point, plan.method.own_rates) for point in plan.points if point.id in to_do)]
    kept = [column for column in zip(*rows, strict=True) if not set(column[1:]) <= _USUAL]
    lines = [columns(list(zip(*kept, strict=True)))] if kept else []
    left_out = f" (constraints leave out {number_of(plan.left_out, 'combination')})" if plan.left_out else ""
    lines.append(f"{number_of(len(plan.points), 'point')}, design {study.design.kind}{left_out}")
    if isinstance(unsupported, str):
        lines.append(f"unsupported points: not checked: {unsupported}")
    lines += [f"{count} unsupported: {reason}" for reason, count in Counter(reasons.values()).most_common()]
    still = f"{len(left)} of them still to do, " if done else ""
    lines.append(
        f"{number_of(study.repetitions, 'repetition')} of each, {len(possible)} in all, {still}"
        f"{duration(plan.traffic_seconds(left))} of traffic, about {duration(plan.seconds(left))} with starts, without "
        "calibration"
    )
    if turns := described(plan, study, left, kind):
        lines.append(turns)
    return "\n".join(lines)


def _row(point: Point, own_rates: bool) -> tuple[str, ...]:
    """`own_rates`: its method asks nobody how many probes to send."""
    traffic, stated = point.traffic, point.traffic.stated_load_pps
    share = f"{traffic.load_share:.0%} of its rate" if traffic.load_share else ""
    load = share or (f"{stated / 1000:g} kpps" if stated else "-")
    hidden = point.forwarder.options if point.forwarder.label else {}
    changed = {**hidden, **point.knobs, **unusual(traffic, *RATES)}
    settings = " ".join(f"{key}={value}" for key, value in changed.items()) or "-"
    probes = "-" if own_rates else traffic.probes_text
    return point.title, str(point.pipeline), point.path.value, str(traffic.frame_bytes), probes, load, settings


# Progress on a terminal or in a log. Drawn between trials only, so that it never runs on a core that is measured.


class ConsoleListener(Listener):
    """A bar with the time left on a terminal; one line per trial elsewhere. Everything goes to stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._progress: Progress | None = None
        self._task = None
        self._left_s = 0.0
        self._called: Callable[[Point], str] = lambda point: point.title

    def __enter__(self) -> "ConsoleListener":
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, plan: Plan, left: int, seconds: float) -> None:
        self._called = plan.called
        self.note(f"{left} repetitions over {len(plan.points)} points, about {duration(seconds)}")
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                       TextColumn("left {task.fields[left]}"), TextColumn("{task.fields[detail]}"))  # fmt: skip
            self._progress = Progress(*columns, console=self._console, auto_refresh=False)
            self._task = self._progress.add_task("", total=left, left=duration(seconds), detail="")  # type: ignore[assignment]
            self._progress.start()

    def note(self, text: str) -> None:
        (self._progress.console if self._progress else self._console).print(plain(text), markup=False, soft_wrap=True)

    def progress(self, text: str) -> None:
        """On a terminal next to the bar; without one as a line."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, detail=text.strip())
            self._progress.refresh()
        else:
            self.note(text)

    def starting(self, point: Point, repetition: int, number: int, of: int, left_s: float) -> None:
        """Move the bar; without a terminal remember the time left for the trial's line."""
        self._left_s = left_s
        if self._progress is not None and self._task is not None:
            name = f"{self._called(point)} #{repetition + 1}"
            self._progress.update(self._task, completed=number - 1, total=of, description=name, left=duration(left_s))
            self._progress.refresh()

    def trial(self, point: Point, record: TrialRecord) -> None:
        text = f"{self._called(point)} #{record.repetition + 1}: {describe(record)}"
        self.note(text if self._progress else f"{text}   [left {duration(self._left_s)}]")
