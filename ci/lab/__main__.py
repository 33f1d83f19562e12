#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""`make lab`, or `.venv/bin/python ci/lab`; see docs/lab.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for nic; this folder is there already

from labbox.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
