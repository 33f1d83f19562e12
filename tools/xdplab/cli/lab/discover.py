# SPDX-License-Identifier: Apache-2.0
"""Look at the hosts of a lab, send marked frames between the interfaces that were offered, and write what was found.

What is changed on a host is whether an offered interface is up: those that were down are down again afterwards.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import yaml

from xdplab.cli.lab.look import (
    FRAME_BYTES,
    Card,
    End,
    Proposal,
    Senders,
    cards,
    none_offered,
    offered,
    propose,
    roles_of,
    senders,
    speed_of,
    topology,
)
from xdplab.cli.lab.wanted import LabHosts, Part
from xdplab.cli.lab.written import CONFIG, CPUS, testbed_text, trex_config
from xdplab.hosts import SshHost
from xdplab.hosts.frames import probe_cables
from xdplab.hosts.kernel import has_carrier
from xdplab.hosts.signals import deferred, interruptible
from xdplab.hosts.waiting import comes_true
from xdplab.model import InputError, TestbedSpec, do_each, validated
from xdplab.model.testbed import PortRole, TrexSpec
from xdplab.results import write_whole
from xdplab.runner.calibrations import sender_pps
from xdplab.testbed import TestbedLock
from xdplab.testbed.real import controller_id

#: A link of 100 Gbit/s takes some seconds to train.
_LINK_S = 10.0
#: CPUs that each part has a use for: what sends and receives, what forwards and what keeps house next to them.
_CPUS: dict[Part, int] = {"tester": 16, "forwarder": 4, "far": 1}

#: Asks which of the cards of a part may be used; None: nobody can be asked.
Ask = Callable[[Part, list[Card]], tuple[str, ...]]


def discover(
    lab: LabHosts, path: Path, ask: Ask | None, note: Callable[[str], None], *, force: bool, trex: str | None = None
) -> Path | None:
    """Write the testbed file of a lab; with the folder of a TRex its configuration as well, whose path is returned.

    Raises:
        InputError: a host is not reached, an interface is needed by somebody, a cable is missing, the file is there, or
            the tester's cards are none for TRex.
    """
    _refuse_no_trex(lab, trex)
    config = path.with_name(f"{path.stem}-trex_cfg.yaml") if trex else None
    for each in (path, config):
        if each and each.exists():
            raise InputError(f"{each}: exists; give another name, or remove it")
    lock = TestbedLock(lab.name)
    with interruptible(""), ExitStack() as stack:
        lock.acquire()
        stack.callback(lock.release)
        hosts: dict[Part, SshHost] = {}
        for part, spec in lab.hosts.items():
            hosts[part] = SshHost(part, spec, f"{controller_id()}/{lab.name}")
            hosts[part].open()
            stack.callback(hosts[part].close)
        chosen = {part: _chosen(part, host, lab, ask, force=force) for part, host in hosts.items()}
        for part, there in chosen.items():
            hosts[part].hold_ports([card.ifname for card in there])
            for card in filter(lambda card: card.needed, there):
                note(f"--force: {part}: {card.ifname} {card.needed}: marked frames are sent from it anyway")
            note(f"{part} ({lab.hosts[part].address}): {', '.join(card.text for card in there)}")
        ends = {End(part, card.ifname): card for part, there in chosen.items() for card in there}
        with _up(hosts, ends):
            linked = _with_link(hosts, ends)
            heard = probe_cables({end: (hosts[end.part], end.ifname) for end in linked}) if linked else {}
            roles = roles_of(heard, [end for end in ends if end not in linked])
            found = {end: card._replace(speed_mbps=speed_of(hosts[end.part], end.ifname)) for end, card in ends.items()}
        cpus = _proposals(hosts, roles, found, {**_CPUS, "tester": CPUS} if trex else _CPUS)
    if trex:  # it has the CPUs of its configuration
        sending = senders(None, None, 0)
    else:
        sending = senders(found[roles["a0"]].speed_mbps, sender_pps(lab.name, FRAME_BYTES), _testers(lab, cpus))
        cpus["tester"] = _as_many(cpus["tester"], sending)
    text = testbed_text(lab, roles, found, cpus, sending, trex)
    validated(TestbedSpec, yaml.safe_load(text), str(path))
    if config:
        proposed = cpus["tester"]
        write_whole(config, trex_config(roles, found, lab.tester.cpus or (proposed.cpus if proposed else ())))
    write_whole(path, text)
    for part, proposal in cpus.items():
        note(f"{part}: cpus {list(proposal.cpus)}: {proposal.why}" if proposal else f"{part}: cpus left to xdplab")
    return config


def _refuse_no_trex(lab: LabHosts, folder: str | None) -> None:
    if folder:
        validated(TrexSpec, {"folder": folder, "config": CONFIG}, "lab init: --trex")
        if lab.far:
            raise InputError("lab init: --trex: TRex sends and receives on one machine; leave far out")


def _testers(lab: LabHosts, cpus: Mapping[Part, Proposal | None]) -> int:
    """CPUs that its data path may use; few are known of where another host is the same machine."""
    proposal = cpus["tester"]
    return len(lab.tester.cpus or (proposal.cpus if proposal else ()))


def _as_many(proposal: Proposal | None, sending: Senders) -> Proposal | None:
    """CPUs of the tester that are used: as many receive as send."""
    return proposal and proposal._replace(cpus=proposal.cpus[: 2 * sending.number])


def _chosen(part: Part, host: SshHost, lab: LabHosts, ask: Ask | None, *, force: bool) -> list[Card]:
    there = cards(host)
    wanted = lab.hosts[part].offer
    if not wanted:
        if ask is None:
            raise none_offered(part, there)
        wanted = ask(part, list(there.values()))
    return offered(part, there, wanted, force=force)


@contextmanager
def _up(hosts: Mapping[Part, SshHost], ends: Mapping[End, Card]) -> Iterator[None]:
    """All of them up; those that were down are down again at the end, also after Ctrl-C."""
    brought = [(hosts[end.part], end.ifname) for end, card in ends.items() if not card.up]
    try:
        for host, ifname in brought:
            host.run(["ip", "link", "set", "dev", ifname, "up"])
        yield
    finally:
        with deferred():
            down = ["ip", "link", "set", "down", "dev"]
            do_each("links", *(partial(host.run, [*down, ifname], check=False) for host, ifname in brought))


def _with_link(hosts: Mapping[Part, SshHost], ends: Mapping[End, Card]) -> list[End]:
    """Those that have carrier within the time that a link takes to come up."""

    def linked() -> list[End]:
        return [end for end in ends if has_carrier(hosts[end.part], end.ifname)]

    comes_true(lambda: len(linked()) == len(ends), _LINK_S, 0.2)
    return linked()


def _proposals(
    hosts: Mapping[Part, SshHost], roles: Mapping[PortRole, End], found: Mapping[End, Card], wanted: Mapping[Part, int]
) -> dict[Part, Proposal | None]:
    """CPUs for each host; None for those that are one machine, where each CPU can be had once."""
    boots = [host.facts["boot_id"] for host in hosts.values()]
    proposals: dict[Part, Proposal | None] = {}
    for part, host in hosts.items():
        nodes = [found[end].node for end in roles.values() if end.part == part]
        shared = boots.count(host.facts["boot_id"]) > 1
        proposals[part] = None if shared else propose(topology(host), nodes[0], wanted[part])
    return proposals
