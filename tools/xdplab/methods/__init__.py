# SPDX-License-Identifier: Apache-2.0
"""The methods of the core: a folder each, found by their entry points. Their face is in `xdplab.measure`.

`counting` has what those share that count by themselves, most of which are of other packages.
"""
