# SPDX-License-Identifier: Apache-2.0
"""What programs get of a path: methods `applications` and `functions`, and forwarder `nf`, the network functions.

They are found by the entry points of `pyproject.toml`, as those of any other package.
"""
