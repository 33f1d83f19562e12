# SPDX-License-Identifier: Apache-2.0
"""All commands as a man page and as a page of the documents, made of what `--help` says.

Imports nothing but typer and the commands: setup.py makes the man page where no other library is installed.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from xdplab import __version__
from xdplab.cli.main import cli

_ENVIRONMENT = {
    "XDPLAB_RESULTS": "Folder of run folders, instead of `results/` of the checkout or of the current folder.",
    "XDPLAB_STATE": "Folder with locks, and with what `xdplab restore` puts back after a killed run.",
    "XDPLAB_CACHE": "Folder of what is built once, instead of `~/.cache/xdplab`.",
    "XDPLAB_BPF_DIR": "Folder with the tester and the XDP programs, instead of the one that they are built in.",
    "XDPLAB_VPP": "VPP's program, where it is not on PATH.",
    "XDPLAB_OPENFLOW": "Folder with rules that a description of pipeline openflow names.",
    "XDPLAB_TREX": "Folder of an unpacked release of TRex.",
    "XDPLAB_XDPSOCK": "The kernel's sample program xdpsock, where it is not on PATH.",
}
_EXITS = {
    "0": "done",
    "1": "a measured result failed a stated limit, or a point failed",
    "2": "bad input or a missing part; one line says what, where and what to do",
    "125": "a gate found no verdict",
    "130": "interrupted",
}
_WHAT = "Measures software switches on AF_XDP: latency, loss and RFC 2544, next to AF_PACKET, DPDK and the kernel."


class Command(NamedTuple):
    """One that does something: `xdplab lab init`."""

    words: str
    usage: str
    text: str
    example: str
    #: Arguments and options as they are typed -> what they are.
    terms: dict[str, str]


def commands() -> list[Command]:
    return sorted(_command(words, each) for words, each in leaves(typer.main.get_command(cli), "xdplab"))


def leaves(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Those that do something: `xdplab lab init` and its command of typer's."""
    inner = commands_in(command)
    if not inner:
        yield words, command
    for name, each in inner.items():
        yield from leaves(each, f"{words} {name}")


def commands_in(command: Any) -> dict[str, Any]:
    """Of a group, those of other packages among them; {}: it is none."""
    if not hasattr(command, "list_commands"):
        return {}
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def _command(words: str, command: Any) -> Command:
    text, _, example = command.help.partition("\n\nExample: ")
    shown = [each for each in command.params if not each.hidden]
    usage = [words, *filter(None, map(_in_usage, shown)), *(["[OPTIONS]"] if any(map(_is_option, shown)) else [])]
    terms = {_typed(each): _told(each) for each in sorted(shown, key=_is_option)}
    return Command(words, " ".join(usage), " ".join(text.split()), example.strip(), terms)


def _is_option(parameter: Any) -> bool:
    return str(parameter.opts[0]).startswith("-")


def _in_usage(parameter: Any) -> str:
    if _is_option(parameter):
        return ""
    name = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _typed(parameter: Any) -> str:
    if not _is_option(parameter):
        return str(parameter.name.upper())
    flags = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return flags if parameter.is_flag else f"{flags} {parameter.name.strip('_').upper()}"


def _told(parameter: Any) -> str:
    default = parameter.default
    silent = default is None or isinstance(default, bool) or callable(default)
    return (parameter.help or "") + ("" if silent else f" (default: {default})")


def man_page() -> str:
    """xdplab(1) for groff and mandoc."""
    lines = [
        '.\\" SPDX-License-Identifier: Apache-2.0',
        '.\\" Made by `python tools/dev man`.',
        f'.TH XDPLAB 1 "" "xdplab {__version__}" "User Commands"',
        ".SH NAME",
        "xdplab \\- what makes a software switch fast on AF_XDP",
        ".SH SYNOPSIS",
        ".B xdplab",
        ".I COMMAND",
        "[ARGUMENTS] [OPTIONS]",
        ".SH DESCRIPTION",
        _man(_WHAT),
        ".SH COMMANDS",
    ]
    for each in commands():
        lines += [f'.SS "{_man(each.usage)}"', _man(each.text)]
        for typed, reported in each.terms.items():
            lines += [".TP", f".B {_man(typed)}", _man(reported)]
        lines += [".PP", "Example:", f".B {_man(each.example)}"]
    for title, listed in (("EXIT STATUS", _EXITS), ("ENVIRONMENT", _ENVIRONMENT)):
        lines += [f".SH {title}"]
        for key, text in listed.items():
            lines += [".TP", f".B {_man(key)}", _man(text)]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR robot (1)", ""])


def _man(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("~", "\\(ti")
    marked = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", escaped)
    return re.sub(r"^([.'])", r"\\&\1", marked)


def reference() -> str:
    parts = ["# Commands\n", f"{_WHAT} `xdplab COMMAND --help` has the same.\n"]
    for each in commands():
        parts += [f"## {each.words}\n", f"`{each.usage}`\n", f"{each.text}\n"]
        parts += [*(f"* `{typed}`: {reported}" for typed, reported in each.terms.items()), ""] if each.terms else []
        parts += [f"```sh\n{each.example}\n```\n"]
    for title, listed in (("Exit codes", _EXITS), ("Environment", _ENVIRONMENT)):
        parts += [f"## {title}\n", *(f"* `{key}`: {text}" for key, text in listed.items()), ""]
    return "\n".join(parts)
