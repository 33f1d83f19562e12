# SPDX-License-Identifier: Apache-2.0
"""`xdplab lab`: a testbed file of machines that are there.

What a command needs is imported in its function, as in `cli.main`.
"""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xdplab.cli.groups import Commands
from xdplab.tools import provision_command

if TYPE_CHECKING:
    from xdplab.cli.lab.look import Card
    from xdplab.cli.lab.wanted import Part

lab = Commands(no_args_is_help=True, help="Testbeds of machines.")

Address = typer.Option(help="USER@ADDRESS[:PORT]", metavar="USER@ADDRESS")


@lab.callback()
def only() -> None:
    """Make and look at testbed files of machines."""


@lab.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="testbed file to write")] = Path("lab.yaml"),
    tester: Annotated[str | None, Address] = None,
    forwarder: Annotated[str | None, Address] = None,
    far: Annotated[str | None, Address] = None,
    offer: Annotated[list[str] | None, typer.Option(help="PART=IFNAME,...: frames may be sent from these")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="YAML with keys of each host, and offer: [...]")] = None,
    name: Annotated[str | None, typer.Option(help="of the testbed (default: that of the file)")] = None,
    key: Annotated[str | None, typer.Option(help="private key (default: ssh-agent and ~/.ssh)")] = None,
    known_hosts: Annotated[str | None, typer.Option(help="host keys (default: ~/.ssh/known_hosts)")] = None,
    sudo: Annotated[bool | None, typer.Option(help="become root by sudo -n (default: unless USER is root)")] = None,
    trex: Annotated[
        str | None, typer.Option(help="TRex's folder on the tester, whose cards it gets", metavar="FOLDER")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="send marked frames also from offered interfaces that are needed")
    ] = False,
) -> None:
    """Look at two or three hosts, find cards, cables and CPUs, and write a testbed file with comments.

    Example: xdplab lab init lab.yaml --tester lab@192.0.2.10 --forwarder lab@192.0.2.20 --far lab@192.0.2.30
    """
    from xdplab.cli.lab.discover import discover
    from xdplab.cli.lab.wanted import lab_hosts
    from xdplab.cli.lab.written import CONFIG

    ask = sys.stdin.isatty()
    if ask and from_ is None:
        tester = tester or typer.prompt("Tester, which sends and measures (USER@ADDRESS)")
        forwarder = forwarder or typer.prompt("Forwarder, the switch under test (USER@ADDRESS)")
        question = "Far end, if it is a third machine (USER@ADDRESS, or nothing)"
        far = far or typer.prompt(question, default="", show_default=False) or None
    common = {"key": key, "known_hosts": known_hosts, "sudo": sudo}
    hosts = lab_hosts(
        name or path.stem, {"tester": tester, "forwarder": forwarder, "far": far}, common, offer or [], from_
    )
    config = discover(hosts, path, _ask if ask else None, print, force=force, trex=trex)
    print(f"written: {path}{f' and {config}' if config else ''}; next:")
    if config:
        print(f"  {config} becomes {CONFIG} on {hosts.tester.address}, and TRex binds the cards (dpdk_setup_ports.py)")
    print(f"  xdplab doctor --testbed {path}")
    print(f"  {provision_command(str(path))}")
    program = f" --set tester=trex --allow-program {shlex.quote(trex)} --allow-program {CONFIG}" if trex else ""
    print(f"  xdplab run latency --testbed {path}{program}")


def _ask(part: "Part", there: "list[Card]") -> tuple[str, ...]:
    for card in there:
        print(f"  {card.text}")
    free = ",".join(card.ifname for card in there if not card.needed)
    return tuple(
        typer.prompt(f"Interfaces of {part} that frames may be sent from", default=free).replace(" ", "").split(",")
    )
