# SPDX-License-Identifier: Apache-2.0
"""Programs with AF_XDP sockets: `forwarder` and `functions` of `bpf/xsk`, and `xdpsock` of the bpf-examples project."""
