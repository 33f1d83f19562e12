# SPDX-License-Identifier: Apache-2.0
"""The table of contents of a page: its headings, wherever their sections come from."""

import re

_HEADING = re.compile(r"<h2>(.*?)</h2>", re.DOTALL)
#: Where it goes.
PLACE = "<!--contents-->"


def with_contents(html: str) -> str:
    """With a link to each `<h2>`; ours or a method's, with their words escaped."""
    links: list[str] = []
    taken: set[str] = set()

    def named(heading: re.Match[str]) -> str:
        words = re.sub(r"<[^>]*>", "", heading[1]).strip()
        slug = plain = "section-" + (re.sub(r"\W+", "-", re.sub(r"&\w+;|&#\d+;", "", words).lower()).strip("-") or "it")
        while slug in taken:
            slug = f"{plain}-{len(taken)}"
        taken.add(slug)
        links.append(f'<li><a href="#{slug}">{words}</a></li>')
        return f'<h2 id="{slug}">{heading[1]}</h2>'

    html = _HEADING.sub(named, html)
    return html.replace(PLACE, f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>', 1)
