# SPDX-License-Identifier: Apache-2.0
"""XDP_REDIRECT between two ports, by `bpf/xdpfwd`, or what an XDP program of the user's does."""

import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import model_validator

from xdplab.forwarders.base import Counting, Dut
from xdplab.forwarders.pods import ON_VETH, Pods, hops
from xdplab.forwarders.process import EventProcess, InstanceForwarder, by_hash
from xdplab.hosts import Host, Running
from xdplab.hosts.bpf import built, why_not_built
from xdplab.model import Model, NamesProgram, NotThere, do_each


class XdpOptions(Model):
    """Which XDP program, and where it is attached."""

    mode: Literal["native", "generic"] = "native"
    #: A program of yours, `FILE` or `FILE:NAME`, compiled for BPF; docs/own-programs.md says how it is told its ports.
    object: Annotated[str, NamesProgram()] = ""
    #: Which program of the file, by its section or its name; where it has one only, nothing.
    section: str = ""

    @model_validator(mode="before")
    @classmethod
    def _with_section(cls, values: Any) -> Any:
        """`FILE:NAME` has both."""
        if isinstance(values, dict) and isinstance(given := values.get("object"), str) and "section" not in values:
            path, colon, section = given.rpartition(":")
            return {**values, "object": path, "section": section} if colon else values
        return values

    @model_validator(mode="after")
    def _of_a_file(self) -> "XdpOptions":
        if self.section and not self.object:
            raise ValueError("section: it is one of object=FILE, which is missing")
        return self


def start_xdpfwd(
    dut: Dut, ifnames: Iterable[str], mode: str, flags: Iterable[str], number: int = 0
) -> tuple[Running, Path]:
    """Start `bpf/xdpfwd` on one or two interfaces, `mode` native or generic; and the file that it writes events to."""
    output = dut.rundir / f"xdpfwd{number}.out"
    ports = [f"--if{index}={ifname}" for index, ifname in enumerate(dict.fromkeys(ifnames))]
    argv = [built("xdpfwd", dut.host), *ports, f"--mode={mode}", *flags]
    log = dut.rundir / f"xdpfwd{number}.log"
    return dut.host.start(argv, log=log, stdout=output, cpus=dut.layout.housekeeping), output


class _Redirect(EventProcess):
    """The program between the tester's ports; or that behind the first, and those behind each container."""

    def __init__(self, dut: Dut, running: Running, output: Path, pods: Pods) -> None:
        super().__init__("xdp", "xdpfwd", dut, running, output)
        self._pods = pods
        self._further: list[EventProcess] = []

    def add(self, further: EventProcess) -> None:
        self._further.append(further)
        further.until_ready(5.0)

    def answers(self) -> list[dict[str, Any]]:
        """Counters of the one that has each of the tester's ports."""
        return [each.ask(signal.SIGUSR1, 5.0, "its counters") for each in (self, *self._further[-1:])]

    def ended(self) -> str | None:
        """Which of them, or what is in a container."""
        return next(
            filter(None, (super().ended(), *(each.ended() for each in self._further), self._pods.ended())), None
        )

    def stop(self) -> None:
        do_each(self.name, *(each.stop for each in self._further), super().stop, self._pods.remove)


class XdpForwarder(InstanceForwarder[XdpOptions, _Redirect], Counting):
    """`bpf/xdpfwd`: redirect between the ports by a devmap; XDP_TX on `hairpin`; with `object` that program."""

    name: ClassVar[str] = "xdp"
    plain: ClassVar[str] = "XDP redirect"
    options_model: ClassVar[type[Model]] = XdpOptions
    redirects: bool = True
    pipelines: ClassVar[tuple[str, ...]] = ("cross", *ON_VETH)

    def unsupported(self, dut: Dut) -> str | None:
        """The program must be built, and that of the user be there, else it raises InputError."""
        own = self.options.object
        if own and not Path(own).is_file():
            raise NotThere(f"xdp: object={own}: there is no such file; `clang -O2 -g -target bpf -c` makes one")
        return why_not_built("xdpfwd", dut.host) or Pods(dut).missing()

    def in_words(self) -> tuple[str, frozenset[str]]:
        own = self.options.object
        return (f"XDP program {Path(own).name}", frozenset({"object"})) if own else super().in_words()

    def describe(self) -> str:
        return "An XDP program of the user's own." if self.options.object else ""

    def start(self, dut: Dut) -> None:
        """Attach and wait for the ready line."""
        pods = Pods(dut)
        pods.add_links()
        ends = hops([dut.ports[0].ifname, *pods.names, dut.ports[-1].ifname])
        flags = ["--hairpin"] if dut.hairpin else []
        if self.options.object:
            flags.append(f"--object={dut.host.program(Path(self.options.object))}")
        if self.options.section:
            flags.append(f"--section={self.options.section}")
        for number, pair in enumerate(ends):
            running, output = start_xdpfwd(dut, pair, self.options.mode, flags, number)
            if number:
                self.instance.add(EventProcess(self.name, "xdpfwd", dut, running, output))
            else:
                self.instance = _Redirect(dut, running, output, pods)
                self.instance.until_ready(5.0)
        pods.fill(redirected=True)

    def pids(self) -> tuple[int, ...]:
        """Its frames are forwarded in softirqs, and not by the loader."""
        return ()

    def counters(self) -> dict[str, Any]:
        """Port -> frames that came in (`rx`), that it sent on to the other port, and that this one did not take."""
        answers = self.instance.answers()
        return {
            port.role: {
                name: values[i]
                for name, values in answers[min(i, len(answers) - 1)].items()
                if isinstance(values, list)
            }
            for i, port in enumerate(self.instance.dut.ports)
        }

    def mode(self) -> dict[str, Any]:
        """Which program the kernel has loaded."""
        return {"program": self.instance.events()[0]["program"]}

    def why_silent(self) -> str:
        """It says so when a port drops all that it is given; a program that was told no port has nowhere to send to."""
        ready = self.instance.events()[0]
        if self.options.object and not (ready["devmap"] or ready["constants"]):
            return "it has neither a devmap nor a constant ifindex_a, so it knows no port (docs/own-programs.md)"
        self.counters()
        return "".join(self.log_tail()[-1:])

    def versions(self, host: Host) -> Mapping[str, str]:
        """The project's own program, and the hash of the user's."""
        ours = {"xdpfwd": "not built" if why_not_built("xdpfwd") else "built"}
        path = Path(self.options.object)
        return {**ours, path.name: by_hash(path)} if path.is_file() else ours
