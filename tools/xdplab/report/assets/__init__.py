# SPDX-License-Identifier: Apache-2.0
"""Style and scripts of our pages, put into each of them: a page is one file, and nothing is fetched."""

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files

#: Of every page.
SCRIPTS = ("chart.js", "table.js")


@cache
def text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def hashes() -> str:
    """What a page's Content-Security-Policy lets run: these scripts, and no other (CSP level 3, §2.3.1)."""
    digests = (hashlib.sha256(text(name).encode()).digest() for name in SCRIPTS)
    return " ".join(f"'sha256-{b64encode(each).decode()}'" for each in digests)
