# SPDX-License-Identifier: Apache-2.0
"""What is in a page of ours."""

import re

from xdplab.report import assets


def without_our_scripts(page: str) -> str:
    """In small letters; data of charts are no scripts."""
    for name in assets.SCRIPTS:
        page = page.replace(f"<script>{assets.text(name)}</script>", "")
    return re.sub(r'<script type="application/json">[^<]*</script>', "", page).lower()
