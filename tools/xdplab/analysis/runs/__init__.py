# SPDX-License-Identifier: Apache-2.0
"""Several runs side by side."""
