# SPDX-License-Identifier: Apache-2.0
"""xdplab: what makes a software switch fast on AF_XDP.

Its layers, and where a method, a figure and a column live: docs/architecture.md.
"""

__version__ = "0.2.0"
