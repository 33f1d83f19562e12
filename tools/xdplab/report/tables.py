# SPDX-License-Identifier: Apache-2.0
"""Tables that can be read at any width: each cell knows its heading, for pages on which a row becomes a card."""

import re
from collections.abc import Iterator
from string import Template

from markupsafe import Markup, escape

from xdplab.report.assets import text

#: Columns from which on a table is of a kind -> the kind, and the width of a page up to which its rows are cards.
KINDS = {10: ("wide", "72rem"), 6: ("middling", "52rem"), 3: ("narrow", "30rem")}

_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<t([hd])\b([^>]*)>(.*?)(?=</t[hd]>)", re.DOTALL)


def cards() -> str:
    """The rules for all kinds."""
    rule = Template(text("cards.css"))
    return "".join(rule.substitute(kind=kind, width=width) for kind, width in KINDS.values())


def table(rows: str, caption: str, sort: bool = False) -> Markup:
    """A table of rows `<tr>`, the first of which is its heading; with `sort` it is sorted and filtered by table.js.

    What stands in the rows is markup: a template has escaped it, so each `<` in it is of a tag.
    """
    found = _ROW.findall(rows)
    headings = [_plain(cell) for _, _, cell in _CELL.findall(found[0])]
    kind = next((kind for columns, (kind, _) in KINDS.items() if len(headings) >= columns), "")
    head = found[0].replace("<th", '<th scope="col"')
    body = "\n".join(_labelled(row, headings) for row in found[1:])
    attributes = (f' class="{kind}"' if kind else "") + (" data-sort" if sort else "")
    return Markup(  # noqa: S704 - see above; the caption is escaped here
        f'<div class="scroll"><table{attributes}><caption>{escape(caption)}</caption>\n'
        f"<thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _labelled(row: str, headings: list[str]) -> str:
    labels = _labels(row, headings)
    return _CELL.sub(lambda cell: f"<t{cell[1]}{cell[2]}{next(labels)}>{cell[3]}", row)


def _labels(row: str, headings: list[str]) -> Iterator[str]:
    """The attribute of each cell: none of those that span columns."""
    at = 0
    for _, attributes, _ in _CELL.findall(row):
        span = re.search(r'colspan="(\d+)"', attributes)
        yield "" if span or at in (0, len(headings)) else f' data-label="{headings[at]}"'
        at += int(span[1]) if span else 1


def _plain(cell: str) -> str:
    """Of a heading its words: still escaped, in one line, without the hyphens at which it was broken."""
    return " ".join(re.sub(r"<[^>]*>", " ", cell.replace("-<br>", "")).split()).replace('"', "&quot;")
