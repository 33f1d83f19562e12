# SPDX-License-Identifier: Apache-2.0
"""Options that name a program, which is started as root: what a file names must be allowed where the run is started."""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from xdplab.model.base import Model
from xdplab.model.errors import InputError


@dataclass(frozen=True)
class NamesProgram:
    """Marks such an option, `Annotated[str, NamesProgram()]`: a program, or a folder of them; "" is the default one.

    Of an option that is a list of arguments it is the first.
    """

    #: Values that stand for a program of the distribution, or of our own builds.
    ours: Collection[str] = ()


def named_programs(options: Model) -> dict[str, str]:
    """Option -> the program that it names."""
    return {
        field: value
        for field, info in type(options).model_fields.items()
        for mark in info.metadata
        if isinstance(mark, NamesProgram) and (value := _program(getattr(options, field))) not in ("", *mark.ours)
    }


def _program(value: object) -> str:
    return str(value[0]) if isinstance(value, tuple) else str(value)


def refuse_programs(named: Iterable[tuple[str, Model]], allowed: Iterable[str]) -> None:
    """`named`: who has which options. A program is allowed by the very path, or name, that the option has.

    Raises:
        InputError: one is named that is not allowed.
    """
    there = {os.path.abspath(path) for path in allowed}
    for title, options in named:
        for option, program in named_programs(options).items():
            if os.path.abspath(program) not in there:
                raise InputError(
                    f"{title}: {option}={program} would be started as root, and a file may not decide that; "
                    f"`--allow-program {program}` allows it (Robot: `-v ALLOW_PROGRAM:{program}`)"
                )
