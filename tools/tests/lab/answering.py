# SPDX-License-Identifier: Apache-2.0
"""A program in place of `bpf/xsk` and `bpf/xdpfwd`: it prints a ready line, and another for each SIGUSR1."""

import sys

_PROGRAM = """
import signal, sys
ready, answer, complaint = sys.argv[1:]
# Blocked and waited for: a handler and pause() would miss a signal that comes just before pause().
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print(ready, flush=True)
while True:
    signal.sigwait([signal.SIGUSR1])
    if complaint:
        print(complaint, file=sys.stderr, flush=True)
    print(answer, flush=True)
"""


def answering(ready: str, answer: str, complaint: str = "") -> list[str]:
    """Its command line; `complaint` goes to stderr before each answer."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, ready, answer, complaint]
