# SPDX-License-Identifier: Apache-2.0
"""What our own programs take of a frame; kept with the tests, so that a change that costs more is seen."""

from collections.abc import Callable

from xdplab.model import InputError
from xdplab_cost.cells import DRIVERS, in_guest
from xdplab_cost.guest import Guest
from xdplab_cost.kernels import obtain
from xdplab_cost.run import cost_at, kernel_symbols

#: Forwarder -> where its own functions are: in BPF programs (xdpfwd's, and that of the meter), or in its process.
OWN = {"xdp": "bpf:", "xsk": "/usr/bin/xsk:"}
KERNEL, DRIVER = "6.1", "veth"


def own_cost(say: Callable[[str], None]) -> dict[str, float]:
    """Instructions per frame of each, without the kernel's.

    Raises:
        InputError: a guest has no figure.
    """
    made = obtain(KERNEL, say)
    symbols = kernel_symbols(made, say)
    if isinstance(symbols, str):
        raise InputError(f"Linux {KERNEL}: {symbols}")
    driver, found = DRIVERS[DRIVER], {}
    for name, where in OWN.items():
        cost, _ = cost_at(Guest(made, driver, in_guest(name, driver), "b0", 1), symbols)
        found[name] = round(sum(count for function, count in cost.functions.items() if function.startswith(where)), 2)
    return found
