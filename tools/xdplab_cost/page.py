# SPDX-License-Identifier: Apache-2.0
"""Headings, paragraphs and tables, written as Markdown and as HTML."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
div { overflow-x: auto } table { border-collapse: collapse; margin: 1rem 0 }
th, td { border: 1px solid #8886; padding: .2rem .5rem; text-align: left; vertical-align: top }
td { font-variant-numeric: tabular-nums } td:first-child { white-space: nowrap } code { overflow-wrap: anywhere }
"""


@dataclass(frozen=True)
class Heading:
    """Of a section; level 1 is the page's own."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """With `code` and [links](to)."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list; each likewise."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table, whose first row is its head."""

    rows: Sequence[Sequence[str]]


Block = Heading | Paragraph | Bullets | Table


def as_markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(["<!-- SPDX-License-Identifier: Apache-2.0 -->", *map(_markdown, blocks)]) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Bullets(texts):
            return "\n".join(f"* {text}" for text in texts)
        case Table([head, *body]):
            lines = [head, ["---"] * len(head), *body]
            return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    raise TypeError(block)


def as_html(blocks: Sequence[Block]) -> str:
    """One file; all text is escaped."""
    title = next((html.escape(block.text) for block in blocks if isinstance(block, Heading)), "")
    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n<style>{_STYLE}</style>'
    viewport = '<meta name="viewport" content="width=device-width">'
    return "\n".join([head, viewport, *map(_html, blocks)]) + "\n</html>\n"


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Bullets(texts):
            return "<ul>" + "".join(f"<li>{_inline(text)}</li>" for text in texts) + "</ul>"
        case Table([head, *body]):
            lines = ["".join(f"<th>{_inline(cell)}</th>" for cell in head)]
            lines += ["".join(f"<td>{_inline(cell)}</td>" for cell in line) for line in body]
            return "<div><table>" + "".join(f"<tr>{line}</tr>\n" for line in lines) + "</table></div>"
    raise TypeError(block)


def _inline(text: str) -> str:
    """Links within the documents lead nowhere from a page by itself: only their words stay."""
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(words))
