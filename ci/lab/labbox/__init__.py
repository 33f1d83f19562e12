# SPDX-License-Identifier: Apache-2.0
"""A lab in a box: three Debian guests under QEMU, cabled as docs/first-lab.md has it, on which its commands are tried.

`machines` says what each guest is, `image` makes their disk from packages once, `box` starts and ends them, `follow`
runs the commands of the documents there, `production` makes B a host that others need. Kernel, QEMU, cards and archives
are those of `nic`. Figures measured there are the emulator's.
"""
