# SPDX-License-Identifier: Apache-2.0
"""VPP: `forwarder` has what its three forwarders share, `ports` them, `options` their options, `process` what runs."""
