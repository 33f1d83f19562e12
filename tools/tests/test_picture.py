# SPDX-License-Identifier: Apache-2.0
"""The README's picture, sentences and table are of one stored run of the main job, in the tool's own words."""

import re
import struct
from pathlib import Path

import pytest
from lab import picture
from lab.browser import PROGRAM

README = (picture.ROOT / "README.md").read_text(encoding="utf-8")
AGAIN = "tools/tests/lab/picture.py draw"


@pytest.fixture(scope="module")
def words() -> str:
    return picture.words()


def test_the_picture_shows_what_the_stored_run_says_today(words: str) -> None:
    assert picture.words_of_picture() == words, AGAIN
    width, height = struct.unpack(">II", picture.PICTURE.read_bytes()[16:24])
    assert (width, height) == (picture.WIDTH, picture.HEIGHT), AGAIN


def test_the_readme_quotes_it(words: str) -> None:
    lines = [line.strip() for line in words.splitlines()]
    quoted = re.findall(r"^> (.+)$", README, re.MULTILINE)
    assert quoted == lines[: len(quoted)]
    assert len(quoted) >= 2
    table = [line for line in lines if line.startswith("|")]
    assert "\n".join(table) in README


def test_the_stored_run_is_small_and_names_no_machine() -> None:
    assert sum(path.stat().st_size for path in picture.STORED.iterdir()) < 500_000
    record, _ = picture.stored()
    assert not re.search(r"/(root|home|work)/", record.model_dump_json())
    assert '"boot_id":"00000000-0000-4000-8000-00000000000' in record.model_dump_json()


@pytest.mark.skipif(PROGRAM is None, reason="needs a headless Chromium: `WITH_BROWSER=1 ci/setup` installs it")
def test_the_command_draws_it(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = tmp_path / "report.png"
    monkeypatch.setattr(picture, "PICTURE", drawn)
    picture.draw()
    assert picture.words_of_picture() == words
    assert drawn.stat().st_size > 50_000
