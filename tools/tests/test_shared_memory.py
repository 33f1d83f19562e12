# SPDX-License-Identifier: Apache-2.0
"""What a killed forwarder leaves in shared memory, on hosts that have such and that have none."""

from pathlib import Path

import pytest

from xdplab.hosts import LocalHost
from xdplab.testbed import state
from xdplab.testbed.state import remove_shared_memory, shared_memory_prefix


def test_what_is_ours_goes_and_a_host_without_shared_memory_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest of ci/nic has no /dev/shm, and the end of each run failed there."""
    there, run = tmp_path / "shm", Path("/run/xdplab/lab/dut")
    monkeypatch.setattr(state, "_SHARED_MEMORY", str(there))
    assert remove_shared_memory(LocalHost(), run) == []
    there.mkdir()
    ours, others = there / f"{shared_memory_prefix(run)}-global_vm", there / "xdplab-0-global_vm"
    for path in (ours, others):
        path.touch()
    assert remove_shared_memory(LocalHost(), run) == [str(ours)]
    assert [*there.iterdir()] == [others]
