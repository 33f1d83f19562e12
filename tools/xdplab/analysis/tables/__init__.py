# SPDX-License-Identifier: Apache-2.0
"""What tables, JSON, CSV and exports say of points."""
