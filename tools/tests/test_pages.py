# SPDX-License-Identifier: Apache-2.0
"""The documents as pages (mkdocs.yml): built without a warning, all there, and no link leads nowhere or elsewhere."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from xdplab.cli.parts import by_kind, schemas
from xdplab.tools import project_root

ROOT = project_root()


class Page(HTMLParser):
    """What it links to, what it loads, and the names in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.names |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        else:
            self.loads += [given[key] for key in ("src", "href", "srcset", "data", "poster") if key in given]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("pages") / "site"
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path: Page(path) for path in folder.rglob("*.html")}


def page(pages: dict[Path, Page], name: str) -> tuple[Path, Page]:
    ((path, found),) = [(path, each) for path, each in pages.items() if path.name == name]
    return path, found


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    outside = {load for each in pages.values() for load in each.loads if re.match(r"(\w+:)?//", load)}
    assert outside == set()
    (folder,) = {path.parent for path in pages if path.name == "index.html"}
    styles = [path.read_text(encoding="utf-8") for path in folder.rglob("*.css")]
    assert styles
    assert [
        found for text in styles for found in re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", text)
    ] == []


def test_each_link_leads_to_a_page_and_to_a_heading_of_it(pages: dict[Path, Page]) -> None:
    followed = 0
    for path, each in pages.items():
        for link in each.links:
            target, _, anchor = link.partition("#")
            if re.match(r"\w+:|//", link) or path.name == "404.html":
                continue
            there = (path.parent / unquote(target)).resolve() if target else path
            assert there.is_file(), (path.name, link)
            assert not anchor or there.suffix != ".html" or unquote(anchor) in pages[there].names, (path.name, link)
            followed += 1
    assert followed > 1000


def test_the_kinds_of_documents_are_in_the_navigation(pages: dict[Path, Page]) -> None:
    text = page(pages, "index.html")[0].read_text(encoding="utf-8")
    captions = re.findall(r'<span class="caption-text">(.+?)</span>', text)
    assert captions == ["Tutorial", "How to", "Reference", "Explanation"]


def test_each_part_has_a_heading_and_each_schema_a_file(pages: dict[Path, Page]) -> None:
    files = {"methods": "method-keys.html", "pipelines": "pipelines-reference.html", "suites": "suites-reference.html"}
    for kind, parts in by_kind().items():
        path, found = page(pages, files.get(kind, f"{kind}.html"))
        assert parts
        assert set(parts) <= found.names, kind
        assert str(ROOT) not in path.read_text(encoding="utf-8")
    folder = page(pages, "schemas.html")[0].parent / "schemas"
    read = [json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()]
    assert all(each in read for each in json.loads(json.dumps(schemas())).values())
