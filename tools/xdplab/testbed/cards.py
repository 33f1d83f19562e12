# SPDX-License-Identifier: Apache-2.0
"""Cards that a program's own driver has for a while (DPDK's, through vfio-pci), and that the kernel's gets back.

An interface goes with its driver, and another one comes with it again: under another name, with what the driver does by
default. So everything that is known of it is written to the state file first. What ethtool shows next to that is
remembered as settings are (`runner/settings.py`).
"""

import contextlib
import dataclasses
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from xdplab.hosts import Host
from xdplab.hosts.kernel import driver, has_carrier
from xdplab.hosts.waiting import comes_true
from xdplab.model import InputError, Steps, Unsupported, XdplabError, do_each
from xdplab.model.testbed import PortRole
from xdplab.testbed import port_settings
from xdplab.testbed.base import Port
from xdplab.testbed.needs import needed, refuse_if_needed, who_needs
from xdplab.testbed.state import TestbedLock

#: The kernel's driver that gives a device to a program.
VFIO = "vfio-pci"
_BUS = "/sys/bus/pci"
#: Switched on by who accepts that a card then writes to any memory; only in kernels with CONFIG_VFIO_NOIOMMU.
NO_IOMMU = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
#: Drivers that keep the card: DPDK's own works on top of them, and takes its frames through RDMA by the other module
#: (doc/guides/nics/mlx5.rst, mana.rst).
SHARING = {"mlx4_core": "mlx4_ib", "mlx5_core": "mlx5_ib", "mana": "mana_ib"}
#: A device that a process still has is not given back before it ends.
_UNBIND_S = 20.0
_INTERFACE_S = 15.0
_CARRIER_S = 15.0


def pci_address(host: Host, ifname: str) -> str | None:
    """Where the card of an interface is on the PCI bus; None: it is none, or shares its device with others."""
    done = host.run(["readlink", "-f", f"/sys/class/net/{ifname}/device"], check=False)
    name = done.stdout.strip().rpartition("/")[2]
    return name if re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", name) else None


def without_iommu(host: Host, ifname: str) -> bool:
    """Whether no IOMMU, and no driver of the kernel, keeps the card of an interface to the memory that it is given."""
    address = pci_address(host, ifname)
    return not host.exists(f"{_BUS}/devices/{address}/iommu_group") and not _is_shared(host, address)


def _is_shared(host: Host, address: str | None) -> bool:
    return address is not None and bound_driver(host, address) in SHARING


def why_not_taken(host: Host, ports: Sequence[Port]) -> str | None:
    """None, or why a program's own driver cannot have these ports."""
    addresses = {port.ifname: pci_address(host, port.ifname) for port in ports}
    found = (_why_not(host, ifname, address, set(addresses.values())) for ifname, address in addresses.items())
    return next(filter(None, found), None)


def _why_not(host: Host, ifname: str, address: str | None, ours: set[str | None]) -> str | None:
    name = driver(host, ifname)
    if address is None:
        return f"{ifname} ({name}) is no PCI device, which is what DPDK's own drivers are for; port=af_xdp takes any"
    device = f"{_BUS}/devices/{address}"
    others = [each for each in host.names(f"{device}/net") if each != ifname]
    if others:
        return f"{ifname}: {', '.join(others)} would go with it, which has the same device {address}"
    if _is_shared(host, address):
        module = SHARING[bound_driver(host, address)]
        needs = f"{ifname}: DPDK's driver works on top of {name} by RDMA, which has no device for it"
        there = host.exists(f"{device}/infiniband_verbs")
        return None if there else f"{needs}; `modprobe -a {module} ib_uverbs` loads what makes one"
    if not host.exists(f"{_BUS}/drivers/{VFIO}"):
        there = host.run(["modprobe", "--dry-run", VFIO], check=False).returncode == 0
        how = f"`modprobe {VFIO}` loads it" if there else "and none is installed for this kernel"
        return f"the kernel's module {VFIO} is not loaded, {how}"
    return _why_not_kept_apart(host, ifname, device, ours)


def _why_not_kept_apart(host: Host, ifname: str, device: str, ours: set[str | None]) -> str | None:
    """By the IOMMU, which gives groups of devices away; in place of one it takes the user's word."""
    group = f"{device}/iommu_group/devices"
    if host.exists(group):
        users = {each: bound_driver(host, each) for each in host.names(group) if each not in ours}
        kept = [f"{each} ({name})" for each, name in users.items() if name not in ("", VFIO, "pcieport")]
        return f"{ifname}: its IOMMU group also holds {', '.join(kept)}" if kept else None
    if not host.exists(NO_IOMMU):
        return (
            f"{ifname}: no IOMMU confines its memory access, and this kernel has no mode without one; "
            "kernel arguments such as intel_iommu=on, and the firmware, switch an IOMMU on"
        )
    if host.read(NO_IOMMU) in ("Y", "1"):
        return None
    return (
        f"{ifname}: no IOMMU confines its memory access; kernel arguments such as intel_iommu=on switch one on, or, "
        f"if the card may write to any memory of this machine, `echo Y > {NO_IOMMU}`, which xdplab never does"
    )


def take(lock: TestbedLock, ports: Sequence[Port]) -> tuple[Port, ...]:
    """Give the cards of ports to programs; what is needed to put them back is in the state file before.

    A card that its driver shares stays where it is: what a program sets on its interface is put back.

    Raises:
        Unsupported: vfio-pci does not take one.
        InputError: somebody has begun to need one.
    """
    for port in ports:
        refuse_if_needed(port.host, port.ifname)
    taken = {port.role: _saved(port) for port in ports}
    lock.remember(cards=taken)
    for port in ports:
        if taken[port.role]["driver"] not in SHARING:
            _bind(port.host, taken[port.role]["pci"], VFIO, VFIO)
    return tuple(dataclasses.replace(port, pci=taken[port.role]["pci"]) for port in ports)


def give_back(lock: TestbedLock, host: Host, *, ask: bool = False) -> list[str]:
    """Give cards of the state file to their drivers again, with all that was known of them, verified; what was done.

    `ask`: after a run that was killed; a card that has another user by now stays with that user.

    Raises:
        InputError: with `ask`: a card has another user.
        XdplabError: something stays changed, also where a program still has the card open through vfio-pci: to take it
            away would wait until that program ends. It stays in the state file.
    """
    left: dict[PortRole, dict[str, Any]] = dict(lock.state().get("cards", {}))
    steps, done = Steps(), []
    for role, saved in list(left.items()):
        with steps.step(f"{host.name}: {role}"):
            _refuse_if_used(host, role, saved, ask=ask)
            _give_back(host, saved)
            done.append(f"{host.name}: {saved['ifname']} back to driver {saved['driver']}")
            del left[role]
            lock.remember(cards=left)
    if any(not isinstance(each, InputError) for each in steps.failed):
        raise XdplabError(f"{steps.reasons}; `xdplab restore` tries again")
    steps.raise_failed()
    return done


def _saved(port: Port) -> dict[str, Any]:
    host, ifname = port.host, port.ifname
    address = pci_address(host, ifname)
    assert address is not None  # or it would have been refused
    return {
        "pci": address,
        "driver": bound_driver(host, address),
        "override": host.read(f"{_BUS}/devices/{address}/driver_override"),
        "ifname": ifname,
        "carrier": has_carrier(host, ifname),
        "tx_queue_len": host.read(_queue_len(ifname)),
        "link": port_settings.snapshot(host, ifname),
    }


def bound_driver(host: Host, address: str) -> str:
    """Driver of a device; "": none."""
    link = f"{_BUS}/devices/{address}/driver"
    return host.run(["readlink", "-f", link]).stdout.strip().rpartition("/")[2] if host.exists(link) else ""


def _bind(host: Host, address: str, wanted: str, override: str) -> None:
    """Take a device from its driver, and have another take it, as `driver_override` says (sysfs-bus-pci; "": any).

    Raises:
        Unsupported: that driver does not.
    """
    device = f"{_BUS}/devices/{address}"
    host.write(f"{device}/driver_override", f"{override}\n")
    if bound_driver(host, address) == wanted:
        return
    if bound_driver(host, address):
        # vfio-pci waits, without end, for the program that has it: the write is a program's, which can be ended
        host.run(["tee", f"{device}/driver/unbind"], stdin=address, timeout_s=_UNBIND_S)
    host.run(["tee", f"{_BUS}/drivers_probe"], stdin=address, check=False, timeout_s=_UNBIND_S)
    found = bound_driver(host, address)
    if found != wanted:
        raise Unsupported(f"{host.name}: {address}: {wanted} does not take it, it has {found or 'no driver'}")


def _refuse_if_used(host: Host, role: PortRole, saved: dict[str, Any], *, ask: bool) -> None:
    """A card that a program has is not taken; with `ask` none that another driver, or a user of its interface has.

    Raises:
        InputError: who has it by now.
        XdplabError: the same without `ask`.
    """
    address, wanted, why, force = saved["pci"], saved["driver"], "", "`xdplab restore --force` takes it all the same, "
    has = bound_driver(host, address)
    if has == VFIO:
        users = _programs_with(host, address)
        why, force = (f"process {', '.join(users)} has it through {VFIO}" if users else ""), ""
        if why and not ask:
            raise XdplabError(f"card {address}: {why}; end that")
    elif not ask:
        return
    elif has == wanted:
        there = host.exists(f"{_BUS}/devices/{address}/net")  # its interface may come only now
        names = host.names(f"{_BUS}/devices/{address}/net") if there else ()
        why = next((f"{name} {needed(needs)}" for name in names if (needs := who_needs(host, name))), "")
    else:
        why = has and f"driver {has} has it"
    if why:
        raise InputError(
            f"{host.name}: {role}: card {address}: {why} by now; end that, {force}or `xdplab restore --forget {role}` "
            "leaves it so"
        )


def _programs_with(host: Host, address: str) -> list[str]:
    """Processes that have the device open, by its IOMMU group or by iommufd (Documentation/driver-api/vfio.rst)."""
    device = f"{_BUS}/devices/{address}"
    group = host.run(["readlink", "-f", f"{device}/iommu_group"], check=False).stdout.strip().rpartition("/")[2]
    own = host.names(f"{device}/vfio-dev") if host.exists(f"{device}/vfio-dev") else ()
    names = [group, f"noiommu-{group}", *(f"devices/{name}" for name in own)]
    place = ["-mindepth", "3", "-maxdepth", "3", "-path", "/proc/[0-9]*/fd/*"]
    same = [word for name in names for word in ("-o", "-lname", f"/dev/vfio/{name}")][1:]
    found = host.run(["find", "/proc", *place, "(", *same, ")"], check=False).stdout.split()
    return sorted({path.split("/")[2] for path in found}, key=int)


def _give_back(host: Host, saved: dict[str, Any]) -> None:
    address, ifname, link = saved["pci"], saved["ifname"], saved["link"]
    _bind(host, address, saved["driver"], saved["override"].replace("(null)", ""))
    _name(host, address, ifname)

    def give_address() -> None:
        if port_settings.read_link(host, ifname)["address"] != link["mac"]:  # given by somebody, not the card's own
            host.run(["ip", "link", "set", "dev", ifname, "down"])
            host.run(["ip", "link", "set", "dev", ifname, "address", link["mac"]])

    do_each(
        f"{host.name}: {ifname}",
        give_address,
        partial(host.write, _queue_len(ifname), saved["tx_queue_len"]),
        partial(port_settings.restore, host, ifname, link),
    )
    if saved["carrier"]:
        comes_true(lambda: has_carrier(host, ifname), _CARRIER_S, 0.1)  # without it the next proof says so


def _name(host: Host, address: str, ifname: str) -> None:
    """Its interface as it was called.

    Raises:
        XdplabError: it has none, or another has that name.
    """
    folder = f"{_BUS}/devices/{address}/net"
    if not comes_true(lambda: host.exists(folder) and bool(host.names(folder)), _INTERFACE_S):
        raise XdplabError(f"{host.name}: {address}: no interface came with its driver after {_INTERFACE_S:g} s")
    with contextlib.suppress(XdplabError):  # where there is udev, it has its own name for it
        host.run(["udevadm", "settle", "--timeout=10"], check=False)
    (found,) = host.names(folder)
    if found != ifname:
        host.run(["ip", "link", "set", "dev", found, "down"])
        host.run(["ip", "link", "set", "dev", found, "name", ifname])


def _queue_len(ifname: str) -> str:
    return f"/sys/class/net/{ifname}/tx_queue_len"
