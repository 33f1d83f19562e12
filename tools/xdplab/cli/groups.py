# SPDX-License-Identifier: Apache-2.0
"""Groups of commands: they refuse an option given twice, and look for commands of other packages."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


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


# Commands of other packages: entry points `xdplab.commands`, each a function with typer's annotations.

GROUP = "xdplab.commands"


class WithOthers(TyperGroup):
    """Looks for them in help and when a name is not one of its own: no other command waits for that."""

    #: Of `xdplab --help`, in which they are listed.
    panel = "Measure"

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        self._add_others()
        return super().list_commands(ctx)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        if cmd_name not in self.commands:
            self._add_others()
        return super().get_command(ctx, cmd_name)

    def _add_others(self) -> None:
        """Once; a name of ours stays ours."""
        from importlib.metadata import entry_points  # not `model.plugins`, which loads all models

        for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
            if entry.name not in self.commands:
                one = Commands(add_completion=False)
                one.command(entry.name, rich_help_panel=self.panel)(entry.load())
                self.commands[entry.name] = typer.main.get_command(one)
