# SPDX-License-Identifier: Apache-2.0
"""The testbed file: which hosts, which ports, and the CPUs the four halves of a path may use."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, StringConstraints, model_validator

from xdplab.model.base import Model
from xdplab.model.programs import NamesProgram

# The hosts and ports of a testbed of kind `hosts`: real machines, reached over SSH.
#
# Every text that reaches a command line is held to a pattern here, before anything is done with it: a name cannot begin
# with a dash, and holds no blank, comma, quote or slash.

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]
#: What the kernel takes for an interface (dev_valid_name), less what means something to a program it is given to.
IfName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$")]
Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:%-]{0,252}$")]
User = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$")]
#: A folder on a host: absolute, and no part of it hidden or `..`.
Folder = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}){1,8}$")]
_HIDDEN_OR_NOT = r"\.?[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
DeployFolder = Annotated[str, Field(pattern=rf"^/?{_HIDDEN_OR_NOT}(/{_HIDDEN_OR_NOT}){{0,7}}$")]
Mac = Annotated[str, StringConstraints(to_lower=True, pattern=r"^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$")]
PciAddress = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
PortRole = Literal["a0", "b0", "b1", "c0", "d0", "d1"]
#: Which ports face each other: the path through the forwarder, and the tester's direct link.
LINKS: tuple[tuple[PortRole, PortRole], ...] = (("a0", "b0"), ("b1", "c0"), ("d0", "d1"))


class SshAddress(Model):
    """How a machine is reached. No key and no password is ever in the file: a path, or nothing for ssh-agent."""

    #: Name or IP address.
    address: Address
    #: Where sshd listens.
    port: int = Field(default=22, ge=1, le=65535)
    #: Who logs in; None: who runs xdplab.
    user: User | None = None
    #: Private key file on this machine; without it the keys of ssh-agent and those in ~/.ssh are tried.
    key: str | None = None
    #: File with the keys of hosts; a host that is not in it is refused.
    known_hosts: str = "~/.ssh/known_hosts"


class HostSpec(SshAddress):
    """A host of the testbed."""

    #: A host to go through (`ProxyJump`).
    jump: SshAddress | None = None
    #: Become root with `sudo -n`, which never asks for a password; not needed when `user` is root.
    sudo: bool = False
    #: Where programs are put by SFTP: relative to the user's home, or absolute.
    deploy: DeployFolder = ".cache/xdplab"
    #: Private folder on the host for sockets, logs and databases while a run lasts; best on a tmpfs.
    folder: Folder = "/run/xdplab"
    #: CPUs that the data path may use, in order of preference; default: all that a login session may run on.
    cpus: tuple[Annotated[int, Field(ge=0, le=4095)], ...] | None = None
    #: How long a lost connection is tried again before the run gives up.
    reconnect_s: float = Field(default=60.0, ge=1, le=3600)
    #: How long the host hears nothing from us before it ends what runs there; a closed connection ends it at once.
    lease_s: float = Field(default=300.0, ge=2, le=86400)
    #: A connection that is silent this long is lost.
    dead_after_s: float = Field(default=9.0, ge=1, le=600)


class TrexSpec(Model):
    """A TRex that has cards of its own, and how it is started; its configuration says which they are."""

    #: Folder of its release on the host of a0, with `t-rex-64` in it.
    folder: Annotated[Folder, NamesProgram()]
    #: Its configuration file there, which may have it load libraries.
    config: Annotated[Folder, NamesProgram()]


class PortSpec(Model):
    """An interface on a host, or a card of TRex. What is given next to it is what `xdplab doctor` expects to find."""

    #: One of `hosts`.
    host: Name
    #: As the kernel there calls it.
    ifname: IfName | None = None
    #: In place of `ifname`, of the tester's ports: number of a port of TRex, which has its card without the kernel.
    trex: int | None = Field(default=None, ge=0, le=63)
    #: MAC address.
    mac: Mac | None = None
    #: Name of the driver, as `ethtool -i` has it.
    driver: Annotated[str, Field(pattern=r"^[a-z0-9_][a-z0-9_-]{0,30}$")] | None = None
    #: Address on the PCI bus.
    pci: PciAddress | None = None
    #: Speed of the link.
    speed_mbps: int | None = Field(default=None, gt=0)

    @property
    def title(self) -> str:
        """The interface, or `TRex port 0`."""
        return self.ifname or f"TRex port {self.trex}"

    @model_validator(mode="after")
    def _one_of_both(self) -> "PortSpec":
        if (self.ifname is None) == (self.trex is None):
            raise ValueError("ifname is needed, or trex in its place")
        return self


class CpuLayout(Model):
    """Where the four consumers of CPU time run ("whose core pays").

    `None` for a NAPI means inline: on veth it then runs on the core that sent the frame.
    """

    #: CPU that sends.
    tester_tx: int = Field(ge=0)
    #: CPU of the NAPI that receives for the forwarder.
    dut_napi: int | None = Field(default=None, ge=0)
    #: CPU of the forwarder's thread.
    forwarder: int = Field(ge=0)
    #: CPU of the NAPI that receives for the tester.
    tester_rx: int | None = Field(default=None, ge=0)
    #: CPUs for everything else.
    housekeeping: tuple[int, ...] = ()
    #: Further CPUs that send (`senders` of the testbed file).
    extra_senders: tuple[int, ...] = ()

    @property
    def tx_cpus(self) -> tuple[int, ...]:
        """All CPUs that send."""
        return (self.tester_tx, *self.extra_senders)

    def describe(self) -> str:
        """One line for tables: `tx 0 · napi inline · forwarder 1 · rx inline`."""
        napi = "inline" if self.dut_napi is None else str(self.dut_napi)
        rx = "inline" if self.tester_rx is None else str(self.tester_rx)
        return f"tx {'/'.join(map(str, self.tx_cpus))} · napi {napi} · forwarder {self.forwarder} · rx {rx}"


class TestbedSpec(Model):
    """A testbed file (`suites/testbeds/*.yaml`).

    `embedded` builds namespaces and veth pairs on this machine; `fake` simulates all of it without root; `hosts` are
    real machines over SSH. There the ports say the roles: A has a0, B has b0 and b1, C has c0, and d0-d1 is a direct
    link between tester ports. A and C may be one machine with two ports. With one cable, a0-b0, path `hairpin` is all.
    With a0 and c0 alone, what stands between them is forwarder `external`.
    """

    __test__ = False  # the name is the field's term, not a pytest class

    #: Of this file.
    schema_version: Literal[1] = Field(default=1, alias="schema")
    #: As runs, locks and folders have it.
    name: Name
    #: See above.
    kind: Literal["embedded", "fake", "hosts"]
    #: Of all its ports. Above 3498 XDP programs must know packets of several buffers, or the kernel refuses them.
    mtu: int = Field(default=1500, ge=576, le=9702)
    #: Of each of the forwarder's ports.
    queues: int = Field(default=1, ge=1, le=16)
    #: CPUs that send for each of the tester's ports. A veth port takes what one CPU sends into one queue: N queues are
    #: filled by N of them.
    senders: int = Field(default=1, ge=1, le=8)
    #: CPUs the data path may use; default: all this process may run on.
    cpus: tuple[int, ...] | None = None
    #: Only of kind `hosts`: its machines by name.
    hosts: dict[Name, HostSpec] = {}
    #: Likewise: role -> the interface.
    ports: dict[PortRole, PortSpec] = {}
    #: How a TRex is started whose cards are ports of the file; without it, `tester: trex:server=ADDRESS` names one that
    #: runs.
    trex: TrexSpec | None = None
    #: False: cards are left as they are. True: for the time of a run, frames come into `queues` queues alone,
    #: interrupts of the tester's cards are not held back and go to its own CPUs, and pause frames of all ports are off,
    #: where the drivers have it.
    low_latency: bool = True
    #: False: never take a one-way latency here. True: only where A and C are found to share one kernel and its clock.
    one_way: bool = True

    _file: str = PrivateAttr("")

    @property
    def file(self) -> str:
        """Path of the file that it was read from; empty: from none."""
        return self._file

    @property
    def line_rate_bps(self) -> float | None:
        """Speed of the slowest port of the path; None unless the file has `speed_mbps` of each."""
        speeds = [port.speed_mbps for role, port in self.ports.items() if role[0] in "abc"]
        return min(each or 0 for each in speeds) * 1e6 if speeds and None not in speeds else None

    @property
    def one_cable(self) -> bool:
        """Whether the forwarder has one port, out of which frames go that came in by it."""
        return self.kind == "hosts" and "b0" in self.ports and "b1" not in self.ports

    @property
    def external(self) -> bool:
        """Whether what forwards is none of the file's hosts, and is not started here."""
        return self.kind == "hosts" and "b0" not in self.ports

    @property
    def usual_path(self) -> Literal["through", "hairpin", "reflect"]:
        """That of a study which names none: one-way only where one machine has both ports of the tester, and its clock.

        Hosts that turn out to be namespaces of one kernel can be given `path: through`.
        """
        if self.kind != "hosts":
            return "through"
        if self.one_cable:
            return "hairpin"
        return "through" if self.one_way and self.ports["a0"].host == self.ports["c0"].host else "reflect"

    @model_validator(mode="after")
    def _hosts_and_ports(self) -> "TestbedSpec":
        if self.kind != "hosts":
            if self.hosts or self.ports or self.trex:
                raise ValueError(f"hosts, ports and trex belong to kind: hosts, not to kind: {self.kind}")
            return self
        if self.cpus is not None:
            raise ValueError("cpus: give them to each of the hosts")
        pairs = (("d0", "d1"),) if {"a0", "c0"} == {*self.ports} - {"d0", "d1"} else (("b1", "c0"), ("d0", "d1"))
        halves = [pair for pair in pairs if (pair[0] in self.ports) != (pair[1] in self.ports)]
        if halves or (len(pairs) == 2 and {"a0", "b0"} - set(self.ports)):
            wanted = (
                "a0 and b0 are needed, b1 with c0 or neither, d0 with d1 or neither; or a0 and c0 without b0 and b1, "
                "for forwarder external"
            )
            raise ValueError(f"ports: {wanted}; there are {_and(self.ports)}")
        unknown = {port.host for port in self.ports.values()} - set(self.hosts)
        if unknown:
            raise ValueError(f"ports: host {_and(unknown)} is not under hosts, which has {_and(self.hosts)}")
        if not self.one_cable and not self.external and self.ports["b0"].host != self.ports["b1"].host:
            raise ValueError("ports: b0 and b1 must be on one host, where the forwarder runs")
        near, far = self.ports["a0"], self.ports.get("c0", self.ports["a0"])
        direct = [self.ports[role].host for role in ("d0", "d1") if role in self.ports]
        if direct not in ([], [near.host, far.host]):
            raise ValueError("ports: d0 belongs on the host of a0, d1 on that of c0: it is the tester's direct link")
        if len({(port.host, port.title) for port in self.ports.values()}) < len(self.ports):
            raise ValueError("ports: an interface is given twice")
        self._check_cards_of_trex()
        reached = {(host.address, host.port, host.folder) for host in self.hosts.values()}
        if len(reached) < len(self.hosts):
            raise ValueError("hosts: the same address twice; one host may have several ports")
        return self

    def _check_cards_of_trex(self) -> None:
        owned = {role: port.host for role, port in self.ports.items() if port.trex is not None}
        if not owned and self.trex:
            raise ValueError("trex: no port of the file has trex: NUMBER")
        if owned and set(owned) != {role for role in self.ports if not role.startswith("b")}:
            raise ValueError(f"ports: all of the tester's are cards of one TRex, or none; there are {_and(owned)}")
        if owned and self.one_cable:
            raise ValueError("ports: TRex receives by another card than it sends by: b1 and c0 are needed")
        if len(set(owned.values())) > 1:
            raise ValueError("ports: the cards of one TRex are on one host")


def _and(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
