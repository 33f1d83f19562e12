# SPDX-License-Identifier: Apache-2.0
"""What came of the tests in the guest."""
from pathlib import Path
def read_outcome(folder: Path, code: int):
    raise SystemExit(code)
