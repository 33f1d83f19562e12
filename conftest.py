# SPDX-License-Identifier: Apache-2.0
"""For all tests: what they start dies of the signals that they send, also where `nohup` or `&` had them ignored."""

import signal

for _ignored in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        # Goes on for pytest; a program that it starts has the default, for a handler does not outlive exec().
        signal.signal(_ignored, lambda *_: None)
