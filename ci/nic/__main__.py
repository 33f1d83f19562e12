#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""`make nic-test`, or `.venv/bin/python ci/nic`; see docs/nic-lane.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this file is run by its folder's path

from nic.lane import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
