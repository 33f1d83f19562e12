# SPDX-License-Identifier: Apache-2.0
"""VPP's statistics, which only its own machine can read: shared memory. Standard library and vpp_stats only.

Run as a program, with the sockets of API and statistics as arguments, it serves the controller of a VPP behind SSH, in
lines of JSON: `{"message": HEX}` is passed to VPP's API, and each message of VPP comes as such a line;
`{"read": NAME, "of": N}` is answered by `{"answer": VALUE, "of": N}` or `{"raises": [KIND, TEXT], "of": N}`.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from typing import Any

#: Before each message of VPP's API: an unused number, its length, another (`vpp_transport_socket` of vpp-papi).
HEADER_BYTES = 16
#: Names that `read` takes besides those of statistics.
IN_PROGRESS, ERRORS = "in progress", "errors"
#: Of a message: as HEX it is a line that the agent passes on.
_LONGEST = 14 << 20


def papi_stats(address: str) -> Any:
    """A reader of the statistics behind the socket at `address`."""
    from vpp_papi.vpp_stats import VPPStats

    class Segment(VPPStats):  # type: ignore[misc]
        _kept: dict[str, Any] | None = None

        def __getitem__(self, item: str, blocking: bool = True) -> Any:
            if self._kept is None:
                return super().__getitem__(item, blocking)
            if item not in self._kept:
                self._kept[item] = super().__getitem__(item, blocking)
            return self._kept[item]

        def set_errors(self, blocking: bool = True) -> Any:
            """Each of 3,000 is a link into one vector, which vpp-papi reads again each time: 1.2 s, so 0.01 s."""
            self._kept = {}
            try:
                return super().set_errors(blocking)
            finally:
                self._kept = None

    return Segment(address)


def main(api: str, stats: str) -> None:
    """Until standard input or VPP's socket is closed."""
    vpp, segment = socket.socket(socket.AF_UNIX), papi_stats(stats)
    try:
        vpp.connect(api)
    except OSError as exc:
        _write(raises=[type(exc).__name__, str(exc)], of=0)
        return
    _write(answer=None, of=0)
    asked, came = b"", b""
    while True:
        ready, _, _ = select.select([0, vpp.fileno()], [], [])
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, asked = (asked + data).split(b"\n")
            for line in lines:
                _carry_out(json.loads(line), vpp, segment)
        if vpp.fileno() in ready:
            data = vpp.recv(1 << 16)
            if not data:
                return
            came = _passed_on(came + data)


def _carry_out(request: dict[str, Any], vpp: socket.socket, segment: Any) -> None:
    if "message" in request:
        data = bytes.fromhex(request["message"])
        vpp.sendall(bytes(8) + len(data).to_bytes(4, "big") + bytes(4) + data)
        return
    try:
        segment.connect()  # once
        name = request["read"]
        if name == IN_PROGRESS:
            answer: Any = segment.in_progress
        else:
            answer = segment.set_errors() if name == ERRORS else segment[name]
    except Exception as exc:  # vpp-papi has several kinds
        _write(raises=[type(exc).__name__, " ".join(str(part) for part in exc.args)], of=request["of"])
    else:
        _write(answer=answer, of=request["of"])


def _passed_on(data: bytes) -> bytes:
    """Each whole message in it as a line; the rest."""
    while len(data) >= HEADER_BYTES:
        length = int.from_bytes(data[8:12], "big")
        if length > _LONGEST:
            raise SystemExit(f"a message of {length} bytes")
        if len(data) < HEADER_BYTES + length:
            break
        _write(message=data[HEADER_BYTES : HEADER_BYTES + length].hex())
        data = data[HEADER_BYTES + length :]
    return data


def _write(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
