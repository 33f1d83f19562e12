# SPDX-License-Identifier: Apache-2.0
"""The methods that come with xdplab: a folder each, found by their entry points. Their face is in `xdplab.measure`."""
