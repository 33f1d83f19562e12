# SPDX-License-Identifier: Apache-2.0
"""What a killed forwarder leaves in shared memory, on hosts that have such and that have none."""

from pathlib import Path

import pytest

from xdplab.hosts import LocalHost, shared_memory


def test_what_is_ours_goes_and_a_host_without_shared_memory_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest of ci/nic has no /dev/shm, and the end of each run failed there."""
    there, run = tmp_path / "shm", Path("/run/xdplab/lab/dut")
    monkeypatch.setattr(shared_memory, "_WHERE", str(there))
    assert shared_memory.remove(LocalHost(), run) == []
    there.mkdir()
    ours, others = there / f"{shared_memory.prefix(run)}-global_vm", there / "xdplab-0-global_vm"
    for path in (ours, others):
        path.touch()
    assert shared_memory.remove(LocalHost(), run) == [str(ours)]
    assert [*there.iterdir()] == [others]
