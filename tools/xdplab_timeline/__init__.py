# SPDX-License-Identifier: Apache-2.0
"""Methods that say where the time of a frame goes: `stages`, `breakdown`, `tracing`; and `micro`, a rate of one socket.

Beside the core, as anybody else's package: `xdplab.api` is all that they import of it.
"""
