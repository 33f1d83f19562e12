# SPDX-License-Identifier: Apache-2.0
"""Commands that refuse an option given twice, where it takes one value: the last one would win without a word."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption


class _Command(TyperCommand):
    """Refuses them before anything else is looked at."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        for param, often in Counter(order).items():
            if often > 1 and isinstance(param, TyperOption) and not (param.multiple or param.is_flag or param.count):
                ctx.fail(f"{param.opts[-1]} is given {often} times, and takes one value: {param.help}")
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """A group of such commands."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=_Command, **options)
