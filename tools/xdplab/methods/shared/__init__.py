# SPDX-License-Identifier: Apache-2.0
"""What several methods share; no method by itself."""
