# SPDX-License-Identifier: Apache-2.0
"""What a running Open vSwitch shows of itself: parsers of its commands' answers, for the record and for proofs.

Sources: `dpctl/show` (netdev_get_config), the status column of Interface, `netdev-afxdp/show` of our patches (JSON),
`dpif-netdev/pmd-rxq-show`. Statistics of ports are asked over OpenFlow: the column of Interface lags by 5 s.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from xdplab.forwarders.ovs.daemon import Ovs
from xdplab.forwarders.ovs.options import PmdOptions, cpu_set
from xdplab.forwarders.process import XDP_FLOW_OFFLOADED
from xdplab.model import CpuLayout, Model, PointFailed, XdplabError

# What programs print, as tables of lines with their fields: a line that has changed its form is an error.


@dataclass(frozen=True)
class Line:
    """A kind of line in a program's output."""

    #: The program or its command, for messages.
    source: str
    #: Regular expression of what such a line begins with.
    begin: str
    #: Regular expression of the rest; its named groups are the fields.
    fields: str

    def read(self, line: str) -> dict[str, str | None] | None:
        """Its fields; None: another kind of line.

        Raises:
            PointFailed: it begins so, and a field is missing.
        """
        if not re.match(self.begin, line):
            return None
        found = re.fullmatch(self.begin + self.fields, line.rstrip())
        if found is None:
            raise PointFailed(f"{self.source}: line not understood: {line.strip()!r}")
        return found.groupdict()

    def each(self, text: str) -> Iterator[dict[str, str | None]]:
        return (found for line in text.splitlines() if (found := self.read(line)) is not None)

    def one(self, text: str) -> dict[str, str | None]:
        """Fields of the first such line.

        Raises:
            PointFailed: there is none.
        """
        for found in self.each(text):
            return found
        raise PointFailed(f"{self.source}: no line that begins with {self.begin.strip()!r}")


#: The command of our patches; a build is asked for it like for the key of an option.
SHOW = "netdev-afxdp/show"

#: `port 1: b0 (afxdp: n_rxq=1, xdp-mode=native)`, `port 0: xdplab0 (tap)`; of a system port `port 2: b1`.
_PORT = Line("dpctl/show", r" *port \d+:", r" (?P<name>\S+)( \((?P<type>[\w-]+)(: (?P<config>.*))?\))?")
_LOOKUPS = Line("dpctl/show", " *lookups:", r" hit:(?P<hit>\d+) missed:(?P<missed>\d+) lost:(?P<lost>\d+)")
_THREAD = Line("pmd-rxq-show", "pmd thread", r" numa_id -?\d+ core_id (?P<core>\d+):")
_QUEUE = Line("pmd-rxq-show", " *port:", r" (?P<port>\S+) +queue-id: +(?P<queue>\d+) .*")
_DROP = Line("coverage/show", r"(?P<name>\w*drop\w*)", r" .*total: (?P<total>\d+)")
_EVENT = Line("coverage/show", r"(?P<name>afxdp_\w+)", r" .*total: (?P<total>\d+)")


class RxqPlace(Model):
    """Which core polls a receive queue."""

    port: str
    queue: int
    core: int


def ports_shown(ovs: Ovs, *, patched: bool) -> dict[str, dict[str, Any]]:
    """Port -> what it shows of itself: configuration, status, and `SHOW` where a build has it (`patched`)."""
    configs = port_configs(ovs.control("dpctl/show"))
    statuses = {name: ovsdb_map(status) for name, status in ovs.interfaces("status").items()}
    found: dict[str, dict[str, Any]] = {name: {**configs.get(name, {}), **statuses.get(name, {})} for name in ovs.names}
    if patched:
        shown = afxdp_show(ovs.control(SHOW))
        for name in ovs.names:
            show = shown.get(name, {})
            found[name] |= {**busy_polling(found[name], show), "show": show}
    return found


def queues(ovs: Ovs) -> tuple[RxqPlace, ...]:
    """Of all ports, where each is polled."""
    return rxq_places(ovs.control("dpif-netdev/pmd-rxq-show"))


def port_configs(dpctl_show: str) -> dict[str, dict[str, str]]:
    """Port -> its configuration, of `dpctl/show`."""
    found = {}
    for port in _PORT.each(dpctl_show):
        items = [item.split("=", 1) for item in (port["config"] or "").split(", ") if "=" in item]
        found[str(port["name"])] = {**({"type": port["type"]} if port["type"] else {}), **dict(items)}
    return found


def datapath_lookups(dpctl_show: str) -> dict[str, int]:
    """Frames that a megaflow took (`hit`), that none took (`missed`), and of these the `lost`; of `dpctl/show`."""
    return {name: int(number or 0) for name, number in _LOOKUPS.one(dpctl_show).items()}


def ovsdb_map(value: list[Any]) -> dict[str, str]:
    """`["map", [["n_rxq", "1"]]]` -> {"n_rxq": "1"} (RFC 7047 section 5.1)."""
    return {key: str(value) for key, value in value[1]}


def rxq_places(pmd_rxq_show: str) -> tuple[RxqPlace, ...]:
    """Every polled queue, of `dpif-netdev/pmd-rxq-show`."""
    places, core = [], None
    for line in pmd_rxq_show.splitlines():
        if thread := _THREAD.read(line):
            core = thread["core"]
        elif queue := _QUEUE.read(line):
            if core is None:
                raise PointFailed(f"pmd-rxq-show: no thread above {line.strip()!r}")
            places.append(RxqPlace.model_validate({**queue, "core": core}))
    return tuple(places)


def afxdp_show(text: str) -> dict[str, Any]:
    """Port -> what `netdev-afxdp/show` tells of it; {} when it is no JSON (a build without our patches)."""
    try:
        asked_for = json.loads(text)
    except ValueError:
        return {}
    return asked_for if isinstance(asked_for, dict) else {}


def busy_polling(asked_for: Mapping[str, str], show: Mapping[str, Any]) -> dict[str, str]:
    """Keys `napi-id` and `busy-poll-active` of a port as they are now; {} when `netdev-afxdp/show` does not tell.

    Its status keeps what was true when the link changed last; up to Linux 6.12 the first frame brings a socket its NAPI
    id. Asking for it by `netdev-afxdp/show` is also what makes the daemon see it.
    """
    napis = [queue["napi-id"] for queue in show.get("queues", ()) if queue and "napi-id" in queue]
    if not napis:
        return {}
    asked = asked_for.get("busy-poll", "0") != "0" and asked_for.get("prefer-busy-poll") == "true"
    return {"napi-id": ",".join(map(str, napis)), "busy-poll-active": str(asked and all(napis)).lower()}


def coverage_totals(coverage_show: str) -> dict[str, int]:
    """Event of netdev-afxdp -> times since the daemon's start, of `coverage/show`."""
    return {str(event["name"]): int(event["total"] or 0) for event in _EVENT.each(coverage_show)}


def drops(coverage_show: str) -> dict[str, int]:
    """Reason for which the datapath or the rules drop frames -> their number so far, of `coverage/show`."""
    return {str(event["name"]): int(event["total"] or 0) for event in _DROP.each(coverage_show)}


def free_mbufs(mempool_info: str) -> int | None:
    """Of all mempools, of `netdev-dpdk/get-mempool-info` (DPDK's rte_mempool_dump); None where it tells of none."""
    found = re.findall(r"^ *(?:total_cache_count|common_pool_count)=(\d+)$", mempool_info, re.MULTILINE)
    return sum(map(int, found)) if found else None


def rules_without_output(dump_flows: str) -> dict[str, int]:
    """Rule of which frames go nowhere -> how many have met it, of `ovs-ofctl dump-flows`."""
    found = {}
    for line in dump_flows.splitlines():
        match = re.search(r"table=(\d+), n_packets=(\d+), .*?(?:idle_age=\d+, )?(\S*) actions=drop$", line.strip())
        if match:
            found[f"rule {match[3]!r} of table {match[1]}, which drops:"] = int(match[2])
    return found


def misses(dump_tables: str) -> dict[str, int]:
    """Table -> frames that met no rule in it, of `ovs-ofctl dump-tables`; `ditto` is what the one before has."""
    found, missed = {}, 0
    for number, counts in re.findall(r"^ +tables? (\d+)[^:]*:(?: ditto|[^\n]*\n +([^\n]*))", dump_tables, re.MULTILINE):
        read = re.search(r"lookup=(\d+), matched=(\d+)", counts)
        missed = int(read[1]) - int(read[2]) if read else missed
        found[f"no rule of table {number}:"] = missed
    return found


# Flows that XDP programs of Open vSwitch forward: what its ports count and say of them.

#: Of a port: how many there are now, which is no count that grows.
OFFLOADED_NOW = ("xdp_flow_n_flows", "xdp_flow_n_masks")
#: What shows the offload.
_OFFLOADS = "dpif/offload/show"
#: Of a port: why there may be none (status).
_NO_OFFLOAD = ("xdp-flows", "xdp-flow-output")


def offloaded(counters: Mapping[str, Any]) -> dict[str, int]:
    """Port -> frames that met an offloaded flow."""
    return {port: columns[XDP_FLOW_OFFLOADED] for port, columns in counters.items() if XDP_FLOW_OFFLOADED in columns}


def not_offloaded(
    ovs: Ovs, asked: bool, frames: Mapping[str, int], ports: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """None, or which port has forwarded no frame by an offloaded flow although asked, or some although not.

    Args:
        ovs: what runs.
        asked: whether flows are to be offloaded.
        frames: `offloaded`.
        ports: what each tells of itself.
    """
    sending = 1 if asked and ovs.dut.pipeline.one_way else None
    for port, columns in list(ports.items())[:sending]:
        count = frames.get(port, 0)
        if bool(count) != asked:
            seen = f"{count} frames of {port} met an offloaded flow"
            if asked and (refused := _refused(ovs, port)):
                seen += f"; refused: {refused}"
            why_not = [key for key in _NO_OFFLOAD if asked and columns.get(key, "on") != "on"]
            return seen + "".join(f"; {key} is {columns[key]}" for key in why_not)
    return None


def _refused(ovs: Ovs, port: str) -> str:
    """What of the flows of a port the offload does not do, in its own words."""
    columns = ""
    with suppress(XdplabError):  # a release that has no such command
        columns = ovs.control(_OFFLOADS)
    found = re.search(rf'"{re.escape(port)}": {{.*?"refused": {{(.*?)}}', columns, re.DOTALL)
    return ", ".join(re.findall(r'"([^"]+)":', found[1])) if found else ""


# Which threads of Open vSwitch's daemon forward, and on which CPUs.


class MainThread:
    """The daemon's main thread: it sleeps in poll() between frames."""

    def __init__(self, layout: CpuLayout) -> None:
        #: CPUs of the daemon's threads that do not place themselves.
        self.daemon_cpus: tuple[int, ...] = (layout.forwarder,)
        #: `KEY=VALUE` of the daemon.
        self.settings: list[str] = []

    def refusal(self) -> str | None:
        """None, or why its CPUs cannot be used here."""
        return None

    def forwarding(self, ovs: Ovs) -> dict[int, int]:
        """Thread -> process of those that forward."""
        return {pid: pid for pid in ovs.pids}

    def misplaced(self, places: Iterable[RxqPlace]) -> str | None:
        """None, or which queue is polled elsewhere than `rxq_affinity` says."""
        return None


class PmdThreads(MainThread):
    """Threads that poll, which place themselves; the daemon's others keep house."""

    def __init__(self, options: PmdOptions, layout: CpuLayout) -> None:
        self._options = options
        self._layout = layout
        spare = (layout.tester_tx, layout.dut_napi, layout.tester_rx)
        self._allowed = (layout.forwarder, *(cpu for cpu in layout.housekeeping if cpu not in spare))
        self._cpus = cpu_set(options.pmd_cpus) if options.pmd_cpus else self._allowed[: options.pmd_cores or 1]
        self.daemon_cpus = layout.housekeeping
        self.settings = [f"pmd-cpu-mask={sum(1 << cpu for cpu in self._cpus):#x}"]

    def refusal(self) -> str | None:
        """The CPUs must be there, and be neither the tester's nor NAPI's."""
        asked = self._options
        if len(self._cpus) >= (asked.pmd_cores or 1) and set(self._cpus) <= set(self._allowed):
            return None
        wanted = f"pmd_cpus={asked.pmd_cpus}" if asked.pmd_cpus else f"pmd_cores={asked.pmd_cores}"
        return (
            f"{wanted}: PMD threads may use CPU {'/'.join(map(str, self._allowed))} here, "
            f"the others are taken ({self._layout.describe()})"
        )

    def forwarding(self, ovs: Ovs) -> dict[int, int]:
        return ovs.threads(r"^pmd-c")

    def misplaced(self, places: Iterable[RxqPlace]) -> str | None:
        wanted = dict(pair.split(":") for pair in re.split("[+,]", self._options.rxq_affinity or "") if pair)
        for place in places:
            if wanted.get(str(place.queue), str(place.core)) != str(place.core):
                return f"queue {place.queue} of {place.port} is polled on CPU {place.core}"
        return None
