# SPDX-License-Identifier: Apache-2.0
"""A page without a browser: its tags and their attributes."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """All of a text, in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str, attribute: str) -> list[str | None]:
        """An attribute of all tags of a name."""
        return [attrs.get(attribute) for name, attrs in self.tags if name == tag]
