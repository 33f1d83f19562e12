# SPDX-License-Identifier: Apache-2.0
"""The checkout's modules of the NIC lane (ci/nic), which boot guests."""

import sys
from pathlib import Path

from xdplab.api import InputError, project_root


def lane() -> Path:
    """The checkout; its modules of the lane can be imported from now on.

    Raises:
        InputError: this is no checkout.
    """
    here = project_root()
    if not (here / "ci" / "nic").is_dir():
        raise InputError("xdplab cost: it needs a checkout of xdplab, whose ci/nic boots guests")
    if str(here / "ci") not in sys.path:
        sys.path.insert(0, str(here / "ci"))
    return here
