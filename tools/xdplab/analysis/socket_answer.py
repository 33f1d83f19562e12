# SPDX-License-Identifier: Apache-2.0
"""What a socket study says first: who is ahead at each workload, by how much, or why that cannot be said."""

from collections.abc import Sequence
from statistics import median

from xdplab.analysis.sockets import MIN_REPETITIONS, SocketRow
from xdplab.analysis.stats import significant
from xdplab.model import Model
from xdplab.model.sockets import Workload

_CANNOT = "who is ahead cannot be said"


class SocketAnswer(Model):
    """The sentence, and whether it compares anything."""

    sentence: str
    said: bool


def socket_answer(rows: Sequence[SocketRow]) -> SocketAnswer:
    """The same for console, report and Robot; only cases of one workload, rate and network function are compared."""
    groups: dict[tuple[Workload, float | None], dict[str, list[SocketRow]]] = {}
    for row in rows:
        if row.values:
            of = row.function.group if row.function else ""
            groups.setdefault((row.workload, row.rate_pps), {}).setdefault(of, []).append(row)
    measured = [row for row in rows if row.values]
    fewest = min((len(row.values) for row in measured), default=0)
    told = [] if fewest < MIN_REPETITIONS else [_told(key, of) for key, of in groups.items() if _several(of)]
    if not measured:
        words = ["Nothing was measured."]
    elif fewest < MIN_REPETITIONS:
        times = "1 repetition" if fewest == 1 else f"{fewest} repetitions"
        words = [f"Who is ahead cannot be said: too few: {times} of a case, {MIN_REPETITIONS} are needed."]
    elif all(row.mostly_disturbed for row in measured):
        told = []
        words = [
            "Who is ahead cannot be said: every case was disturbed in most repetitions: repeat on a quieter machine."
        ]
    else:
        words = told or ["Who is ahead cannot be said: no two cases of one workload were measured."]
    failed = [_name(row) for row in rows if row.status in ("failed", "partial")]
    disturbed = [_name(row) for row in measured if row.mostly_disturbed and told]
    words += [f"Failed: {', '.join(failed)}."] if failed else []
    words += [f"Disturbed in most repetitions: {', '.join(disturbed)}."] if disturbed else []
    return SocketAnswer(sentence=" ".join(words), said=any(_CANNOT not in each for each in told))


def _several(groups: dict[str, list[SocketRow]]) -> bool:
    return any(len(rows) > 1 for rows in groups.values())


def _told(key: tuple[Workload, float | None], groups: dict[str, list[SocketRow]]) -> str:
    parts = [(f"of {of} " if of else "") + _standing(rows) for of, rows in groups.items() if len(rows) > 1]
    return f"{_where(key)}: {'; '.join(parts)}."


def _standing(rows: Sequence[SocketRow]) -> str:
    """The case whose every repetition is better than every one of all others, or those that cannot be told apart."""
    clean = [row for row in rows if not row.mostly_disturbed]
    if len(clean) < 2:
        return f"{_CANNOT}: the machine was disturbed"
    leader, *others = sorted(clean, key=lambda row: _speed(median(row.values), row), reverse=True)
    worst = min(_speed(value, leader) for value in leader.values)
    if any(row.took_all for row in others):  # they may do better than they did
        told = _list([f"{_case(row)} ({_amount(row)})" for row in clean if row.took_all])
        return f"{_CANNOT}: {told} took all that the tester sent, so the tester was the limit"
    level = [row for row in others if max(_speed(value, row) for value in row.values) >= worst]
    if level:
        return f"{_list([f'{_case(row)} ({_amount(row)})' for row in (leader, *level)])} cannot be told apart"
    second = others[0]
    ratio = _speed(median(leader.values), leader) / _speed(median(second.values), second)
    closest = worst / max(_speed(value, second) for value in second.values)
    limit, least = (", the tester's limit", "at least ") if leader.took_all else ("", "")
    much = "much" if leader.more_is_better else "fast"
    return (
        f"{_case(leader)} is ahead with {_amount(leader)}{limit}, {least}{significant(ratio)} times as {much} as "
        f"{_case(second)}, the next ({significant(closest)} times where their repetitions are closest)"
    )


def _list(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _speed(value: float, row: SocketRow) -> float:
    """More is better."""
    return value if row.more_is_better else 1 / value


def _amount(row: SocketRow) -> str:
    return f"{significant(median(row.values))} {row.compared_in}"


def _case(row: SocketRow) -> str:
    return row.function.mode if row.function else row.case


def _where(key: tuple[Workload, float | None]) -> str:
    workload, rate = key
    return workload if rate is None else f"{workload} at {rate:,.10g} frames per second"


def _name(row: SocketRow) -> str:
    return f"{_where((row.workload, row.rate_pps))}: {row.case}"
