# SPDX-License-Identifier: Apache-2.0
"""What only the development of xdplab needs: `python tools/dev --help`. The package does not import it."""
