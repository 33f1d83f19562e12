# SPDX-License-Identifier: Apache-2.0
"""Single frames at an interface of a host, sent and taken in, by `frame_probe.py` there."""

from pathlib import Path

from xdplab.hosts.base import Conversation, Host
from xdplab.model import PointFailed

_PROBE = Path(__file__).with_name("frame_probe.py")
_START_S = 5.0


class FrameProbe:
    """Sends frames by an interface and tells of those that come in there and hold a mark."""

    def __init__(self, host: Host, ifname: str, mark: bytes, log: Path) -> None:
        """Args: where it is, what its frames hold, and where it complains.

        Raises:
            PointFailed: it does not start.
        """
        argv = [host.python, "-I", "-S", host.program(_PROBE), ifname, mark.hex()]
        self._ifname = ifname
        self._process: Conversation = host.converse(argv, log=log)
        if self._line(_START_S) != "ready":
            self.stop()
            raise PointFailed(f"no probe at {ifname}: {' | '.join(self._process.log_tail(2))}")

    def send(self, frame: bytes) -> None:
        self._process.send(frame.hex())

    def receive(self, timeout_s: float) -> bytes | None:
        """The next frame; None: none came in that time.

        Raises:
            PointFailed: the probe has ended.
        """
        line = self._line(timeout_s)
        return bytes.fromhex(line) if line else None

    def stop(self) -> None:
        self._process.stop()

    def _line(self, timeout_s: float) -> str | None:
        try:
            return self._process.receive(timeout_s)
        except EOFError:
            raise PointFailed(f"the probe at {self._ifname} ended: {self._process.log_tail(2)}") from None
