# SPDX-License-Identifier: Apache-2.0
"""What is in a page of ours."""

import re

from xdplab.report import page as pages


def without_our_scripts(page: str) -> str:
    """In small letters; data of charts are no scripts."""
    for name in pages.SCRIPTS:
        page = page.replace(f"<script>{pages.asset(name)}</script>", "")
    return re.sub(r'<script type="application/json">[^<]*</script>', "", page).lower()
