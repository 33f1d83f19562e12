# SPDX-License-Identifier: Apache-2.0
"""A job that needs nothing but its core and its caches, run as a script: `SECONDS`.

Rounds of the same work on 4 MiB (sort, compress, hash) until the time is over; prints one JSON object with the rounds
and the time. Uses the standard library only.
"""

import hashlib
import json
import random
import sys
import time
import zlib

_BYTES = 4 << 20


def one_round(data: bytes) -> bytes:
    words = sorted(data[at : at + 8] for at in range(0, 1 << 16, 8))
    return hashlib.sha256(zlib.compress(data[: 1 << 18], 1) + b"".join(words) + data).digest()


def main(argv: list[str]) -> int:
    duration_s = float(argv[0])
    data = random.Random(1).randbytes(_BYTES)  # noqa: S311 - the same bytes each time
    rounds, begin = 0, time.monotonic()
    while time.monotonic() - begin < duration_s:
        one_round(data)
        rounds += 1
    sys.stdout.write(json.dumps({"rounds": rounds, "elapsed_s": time.monotonic() - begin}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
