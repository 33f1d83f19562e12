# SPDX-License-Identifier: Apache-2.0
"""Hooks of MkDocs (mkdocs.yml): pages that are made of the code, and pages of the files that stand outside docs/."""

import json
import posixpath
import re
from typing import Any

from mkdocs.structure.files import File, Files

from dev.commands import reference
from xdplab.cli.parts import by_kind, schemas
from xdplab.tools import project_root

ROOT = project_root()
#: Page -> the file that it is.
ELSEWHERE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    **{f"{folder}.md": f"{folder}/README.md" for folder in ("bpf", "ovs", "trex", "vpp")},
}
#: Kind of part -> its page, where it is not called like it.
PAGES = {"methods": "method-keys.md", "pipelines": "pipelines-reference.md", "suites": "suites-reference.md"}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    made = {page: (ROOT / path).read_text(encoding="utf-8") for page, path in ELSEWHERE.items()}
    made["commands.md"] = reference()
    made |= {PAGES.get(kind, f"{kind}.md"): _of_kind(kind, parts) for kind, parts in by_kind().items()}
    found = {f"schemas/{name.replace(' ', '')}.json": json.dumps(one, indent=1) for name, one in schemas().items()}
    listed = "\n".join(f"* [{name.removeprefix('schemas/')}]({name})" for name in found)
    made["schemas.md"] = f"# JSON Schemas\n\nOf what is read and written, as `xdplab schema` prints them.\n\n{listed}\n"
    for name, content in {**made, **found}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between files of the project become links between pages; what is no page is named without one."""
    name = page.file.src_uri
    here = ELSEWHERE.get(name, f"docs/{name}")

    def linked(found: re.Match[str]) -> str:
        text, target, anchor = found.group(1), found.group(2), found.group(3) or ""
        if not target or name in ("schemas.md", "commands.md"):
            return found.group()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        uri = next((each for each, file in ELSEWHERE.items() if file == path), path.removeprefix("docs/"))
        if uri == path and not path.startswith("docs/"):
            return text
        return f"[{_title(path) if text.endswith('.md') else text}]({uri}{anchor})"

    return _LINK.sub(linked, markdown)


def _title(path: str) -> str:
    """Of a page, instead of the name of its file."""
    found = re.search(r"^# (.+)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    return found.group(1) if found else path


def _of_kind(kind: str, parts: dict[str, str]) -> str:
    found_parts = "".join(f"## {name}\n\n```text\n{_without_machine(text)}\n```\n\n" for name, text in parts.items())
    return f"# {kind.capitalize()}\n\nAs printed by `xdplab explain NAME`.\n\n{found_parts}"


def _without_machine(text: str) -> str:
    return text.replace(f"{ROOT}/", "")
