# SPDX-License-Identifier: Apache-2.0
"""The hosts and ports of a testbed of kind `hosts`: real machines, reached over SSH.

Every text that reaches a command line is held to a pattern here, before anything is done with it: a name cannot begin
with a dash, and holds no blank, comma, quote or slash.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from xdplab.model.base import Model
from xdplab.model.programs import NamesProgram

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
