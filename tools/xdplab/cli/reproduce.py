# SPDX-License-Identifier: Apache-2.0
"""`xdplab reproduce`: the source documents, part by part, with ours next to what was published.

What the command needs is imported in its function, as in `cli.main`.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xdplab.cli.runs import Results
from xdplab.tools import results_folder

if TYPE_CHECKING:
    from xdplab.analysis.documents import Document


_COLUMNS = """\
| figure, table or finding | study | reproduced here | needs a card | cannot be reproduced |
| --- | --- | --- | --- | --- |
"""
_HEAD = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by: xdplab reproduce --markdown > docs/reproduce.md -->
# Reproduce the source documents

Which study reproduces which figure or table, what of it works without hardware, what needs a card, and what
cannot be. `xdplab reproduce NAME` prints the same with published and measured figures side by side, as far as the
studies have been run (`xdplab run STUDY`; with `--testbed FILE` on three hosts). Absolute rates of a veth pair are not
those of a card: what can be reproduced here are orders, ratios, and which settings matter.
"""


def reproduce(
    name: Annotated[str | None, typer.Argument(help="document (default: all five)")] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print what docs/reproduce.md has")] = False,
    results: Results = None,
) -> None:
    """Print what of a source document is reproduced here, by which study, and published and measured side by side.

    Measured is what the newest run of each study in the results folder has. Times are those of traffic and starts, on
    one machine and on three alike; calibration and what is repeated come on top.

    Example: xdplab reproduce intel-afxdp-guide
    """
    from xdplab.analysis.documents import documents, find_document

    found = {name: find_document(name)} if name else documents()
    if as_markdown:
        print(page(found), end="")
        return
    print("\n\n".join(_text(each, document, results or results_folder()) for each, document in found.items()))


def _text(name: str, document: "Document", results: Path) -> str:
    from xdplab.analysis.documents import beside, newest_run
    from xdplab.model.digits import columns

    lines = [f"{name}: {document.title} ({document.authors})"]
    for part in document.parts:
        lines += ["", f"  {part.part}", f"    here:   {part.here}"]
        lines += [f"    {key:<8}{text}" for key, text in (("card:", part.card), ("never:", part.never)) if text]
        lines.append(f"    run:    xdplab run {part.study}: {planned(part.study)[1]}")
        lab = f"xdplab run {part.lab or part.study} --testbed lab.yaml"
        if part.lab:
            lines.append(f"    lab:    {lab}: {planned(part.lab)[1]}")
        if part.afternoon:
            options = " ".join(f"--set {shlex.quote(each)}" for each in part.afternoon)
            takes = planned(part.lab or part.study, part.afternoon)[1]
            lines.append(f"    or:     {lab} {options}: {takes}")
    for study in document.studies:
        run = newest_run(results, study)
        if run is None:
            lines += ["", f"  {study}: not measured yet"]
            continue
        lines += ["", f"  {study}, run {run.name}: {run.answer.sentence}", *(f"  {line}" for line in run.findings)]
        rows = [[each.what, each.published, each.here] for each in beside(document, run)]
        if rows:
            lines += ["", columns([["", "published", "here"], *rows])]
    return "\n".join(lines)


def planned(study: str, changes: Sequence[str] = ()) -> tuple[float, str]:
    """What traffic and starts of a study take, with changes (KEY=VALUE): seconds, and as a text."""
    from xdplab import app
    from xdplab.cli.study import changes_of
    from xdplab.model.digits import duration

    takes_s = app.prepare(app.read_study(app.find_study(study), changes_of(changes))).plan.seconds()
    return takes_s, duration(takes_s)


def page(documents: Mapping[str, "Document"]) -> str:
    return _HEAD + "".join(_section(name, document) for name, document in documents.items())


def _section(name: str, document: "Document") -> str:
    rows: Iterable[str] = (
        f"| {part.part} | `xdplab run {part.study}` | {part.here} | {part.card or '-'} | {part.never or '-'} |\n"
        for part in document.parts
    )
    return f"\n## {document.title}\n\n{document.authors}. `xdplab reproduce {name}`\n\n{_COLUMNS}{''.join(rows)}"
