# SPDX-License-Identifier: Apache-2.0
"""xdplab: what makes a software switch fast on AF_XDP.

Packages import only from those to their left:
model, hosts, testbed, (knobs, forwarders, testers), methods, runner, results, analysis, report.
``cli`` and ``robot`` are thin front ends over ``app``.
"""

__version__ = "0.1.0"
