# SPDX-License-Identifier: Apache-2.0
"""Options that name a program, which is started as root: what a file names must be allowed where the run is started.

So must options that are passed on as they are: a switch may load code or write files for one.
"""

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
    return str(next(iter(value), "")) if isinstance(value, tuple) else str(value)


#: What `--allow-program` has to say for options that are passed on (`RawOptions.raw_names`).
RAW_ALLOWED = "raw"


def refuse_programs(named: Iterable[tuple[str, Model]], allowed: Iterable[str]) -> None:
    """`named`: who has which options. A program is allowed by the very path, or name, that the option has.

    Raises:
        InputError: one is named that is not allowed.
    """
    allowed = set(allowed)
    there = {os.path.abspath(path) for path in allowed}
    for title, options in named:
        raw: tuple[str, ...] = getattr(options, "raw_names", ())
        if raw and RAW_ALLOWED not in allowed:
            raise InputError(
                f"{title}: {raw[0]} is passed on to a program that runs as root and may load code for it, and a file "
                f"may not decide that; `--allow-program {RAW_ALLOWED}` allows such options (Robot: "
                f"`-v ALLOW_PROGRAM:{RAW_ALLOWED}`)"
            )
        for option, program in named_programs(options).items():
            if os.path.abspath(program) not in there:
                raise InputError(
                    f"{title}: {option}={program} would be started as root, and a file may not decide that; "
                    f"`--allow-program {program}` allows it (Robot: `-v ALLOW_PROGRAM:{program}`)"
                )
