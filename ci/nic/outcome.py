# SPDX-License-Identifier: Apache-2.0
"""What came of the tests in the guests: pytest's own records, and the facts that the tests noted."""

import json
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nic.errors import Hang

#: What pytest says when tests failed, and when none was chosen.
_FAILED, _NONE_CHOSEN = 1, 5


@dataclass(frozen=True)
class Outcome:
    """Of one run: names of the tests by what became of them, and facts as topic -> driver -> words."""

    passed: Sequence[str]
    failed: Sequence[str]
    skipped: Sequence[str]
    facts: Mapping[str, Mapping[str, str]]

    @property
    def exit_code(self) -> int:
        """0 when every test passed; a skipped one proves nothing, so it counts as failed."""
        return int(bool(self.failed or self.skipped or not self.passed))

    def text(self) -> str:
        """The table for people, without a rate or a time: those would be the emulation's."""
        lines = ["", "On real drivers, with emulated cards (functions only, no performance):"]
        for topic, by_driver in self.facts.items():
            lines.append(f"  {topic}")
            for driver, words in by_driver.items():
                wrapped = textwrap.wrap(words, 120 - 32) or [""]
                lines += [f"    {driver:<26}{wrapped[0]}", *(f"{'':30}{more}" for more in wrapped[1:])]
        lines += [f"FAILED {name}" for name in self.failed]
        lines += [f"SKIPPED {name}" for name in self.skipped]
        lines.append(f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped")
        return "\n".join(lines)


def merged(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Of guests by name, as one; a test's name then begins with its guest's."""
    facts: dict[str, dict[str, str]] = {}
    for outcome in outcomes.values():
        for topic, by_driver in outcome.facts.items():
            facts.setdefault(topic, {}).update(by_driver)
    passed, failed, skipped = (
        [f"{guest}: {name}" for guest, outcome in outcomes.items() for name in getattr(outcome, kind)]
        for kind in ("passed", "failed", "skipped")
    )
    return Outcome(passed, failed, skipped, facts)


def read_outcome(folder: Path, code: int) -> Outcome:
    """The results of a guest whose pytest ended with `code`.

    Raises:
        Hang: pytest itself broke, or its record is not there or does not fit its exit code.
    """
    record = folder / "tests.xml"
    if code not in (0, _FAILED, _NONE_CHOSEN) or not record.exists():
        raise Hang(f"pytest in the guest broke (exit code {code}); its words are above and in {folder.parent}")
    found: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in ElementTree.parse(record).iter("testcase"):  # noqa: S314 - written by our own pytest
        parts = {child.tag for child in case}
        kind = "failed" if parts & {"failure", "error"} else "skipped" if "skipped" in parts else "passed"
        found[kind].append(f"{case.get('classname', '')}::{case.get('name', '')}")
    if (code == _FAILED) != bool(found["failed"]):
        raise Hang(f"{record} does not fit pytest's exit code {code}: it names {len(found['failed'])} failed tests")
    facts = folder / "facts.json"
    found_parts = json.loads(facts.read_text(encoding="utf-8")) if facts.exists() else {}
    return Outcome(found["passed"], found["failed"], found["skipped"], found_parts)
