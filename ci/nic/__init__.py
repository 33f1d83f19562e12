# SPDX-License-Identifier: Apache-2.0
"""The NIC lane: tests on the drivers igb and virtio_net, and on Debian's kernels, under QEMU's software emulation.

`artefact` fetches and caches QEMU and kernels, `kernels` says what each runs, `qemu` writes the command line, `boot`
runs the guest within a time limit, `outcome` reads what came of it, and `guest/` holds the tests. Functions only: an
emulated card's rates and latencies are those of the emulation.
"""
