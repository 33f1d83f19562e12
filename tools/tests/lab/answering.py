# SPDX-License-Identifier: Apache-2.0
"""A program in place of `bpf/xsk` and `bpf/xdpfwd`: it prints a ready line, and another for each SIGUSR1."""

import sys

_PROGRAM = """
import signal, sys
ready, answer, complaint = sys.argv[1:]
def asked(number, frame):
    if complaint:
        print(complaint, file=sys.stderr, flush=True)
    print(answer, flush=True)
signal.signal(signal.SIGUSR1, asked)
print(ready, flush=True)
while True:
    signal.pause()
"""


def answering(ready: str, answer: str, complaint: str = "") -> list[str]:
    """Its command line; `complaint` goes to stderr before each answer."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, ready, answer, complaint]
