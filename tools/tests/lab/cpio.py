# SPDX-License-Identifier: Apache-2.0
"""Reading the archives that the kernel unpacks at its start."""


def members(data: bytes) -> dict[str, tuple[int, bytes]]:
    """An archive as the kernel reads it (init/initramfs.c): name -> mode and content."""
    found, at = {}, 0
    while at < len(data):
        assert data[at : at + 6] == b"070701", at
        fields = [int(data[at + 6 + 8 * index : at + 14 + 8 * index], 16) for index in range(13)]
        mode, size, name_bytes = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_bytes - 1].decode()
        at += (110 + name_bytes + 3) & ~3
        if name != "TRAILER!!!":
            found[name] = (mode, data[at : at + size])
        at += (size + 3) & ~3
    return found
