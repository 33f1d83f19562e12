# SPDX-License-Identifier: Apache-2.0
"""One version number; CITATION.cff, CHANGELOG.md and the hooks of pre-commit are what their readers expect."""

import re
import shutil
import tomllib
from datetime import date
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import xdplab
from xdplab.tools import project_root

ROOT = project_root()


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


class Entity(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)


class Citation(BaseModel):
    """What we use of the schema of the Citation File Format 1.2.0, and no key beside."""

    model_config = ConfigDict(extra="forbid")

    cff_version: Literal["1.2.0"] = Field(alias="cff-version")
    message: str = Field(min_length=1)
    title: str = Field(min_length=1)
    authors: list[Entity] = Field(min_length=1)
    type: Literal["software", "dataset"] = "software"
    abstract: str = Field(min_length=1)
    version: str
    license: Literal["Apache-2.0"]
    keywords: list[str] = Field(min_length=1)
    released: date | None = Field(default=None, alias="date-released")


CITATION: dict[str, Any] = yaml.safe_load(text_of("CITATION.cff"))


def test_the_citation_is_one() -> None:
    assert Citation.model_validate(CITATION).title.startswith("xdplab")


@pytest.mark.parametrize(
    "change", [{"authors": []}, {"cff-version": "1.1"}, {"autors": ["x"]}, {"date-released": "soon"}]
)
def test_what_is_no_citation_is_seen(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Citation.model_validate({**CITATION, **change})


CHANGES = re.findall(r"^## (.+)$", text_of("CHANGELOG.md"), re.MULTILINE)


def test_there_is_one_version_number() -> None:
    """pyproject.toml takes that of the package; the others are compared."""
    project = tomllib.loads(text_of("pyproject.toml"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "xdplab.__version__"}
    newest = re.match(r"\[([\d.]+)\]", CHANGES[0])
    assert newest
    package = re.match(r"xdplab \(([\d.]+)-\d+\)", text_of("ci/debian/changelog"))
    assert package
    assert {CITATION["version"], newest.group(1), package.group(1)} == {xdplab.__version__}


def test_the_newest_release_has_one_date() -> None:
    day = CHANGES[0].rpartition(" ")[2]
    if day == "Unreleased":
        pytest.skip("the newest version is not released")
    stamp = re.search(r"^ -- .*>  (.*)$", text_of("ci/debian/changelog"), re.MULTILINE)
    assert stamp
    assert {str(CITATION["date-released"]), str(parsedate_to_datetime(stamp.group(1)).date())} == {day}


def field_of(name: str) -> set[str]:
    """Packages of a field of the package xdplab."""
    paragraph = text_of("ci/debian/control").split("\n\n")[1]
    found = re.search(rf"^{name}:\n((?: .*\n)+)", paragraph, re.MULTILINE)
    assert found
    return set(re.findall(r"^ ([\w.+-]+)", found.group(1), re.MULTILINE))


def test_the_debian_package_asks_for_what_setup_installs() -> None:
    table = [line.split() for line in text_of("ci/packages.txt").splitlines() if line.startswith("core ")]
    core = {debian for _, debian, *_ in table} - {"python3", "python3-venv", "sudo"}
    assert core <= field_of("Recommends")
    for extra in ("python3-asyncssh", "python3-sklearn"):
        assert extra in field_of("Recommends")


def test_the_libraries_of_the_debian_packages_are_those_that_are_tested() -> None:
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", text_of("ci/constraints.txt").lower(), re.MULTILINE))
    fetched = dict(
        re.findall(r"^([\w-]+)==(\S+) --hash=sha256:[0-9a-f]{64}$", text_of("ci/debian/libraries.txt"), re.MULTILINE)
    )
    assert len(fetched) == 4
    assert {name: pinned[name] for name in fetched} == fetched
    rules = re.search(r"^LIBRARIES = (.*)$", text_of("ci/debian/rules"), re.MULTILINE)
    assert rules
    assert rules.group(1).split() == sorted(fetched)
    packages = set(re.findall(r"^Package: python3-(\S+)$", text_of("ci/debian/control"), re.MULTILINE))
    assert packages == set(fetched)


def test_the_changelog_keeps_its_form() -> None:
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - (Unreleased|\d{4}-\d\d-\d\d)", each) for each in CHANGES)
    assert sum("Unreleased" in each for each in CHANGES) <= 1
    kinds = set(re.findall(r"^### (.+)$", text_of("CHANGELOG.md"), re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def hooks() -> list[dict[str, Any]]:
    (repository,) = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"  # nothing is fetched from anywhere
    found: list[dict[str, Any]] = repository["hooks"]
    return found


def test_the_hooks_are_the_checks_of_ci_but_for_pytest() -> None:
    checks = re.findall(r"^check (.+)$", text_of("ci/check"), re.MULTILINE)
    reported = [line.replace('"$bin/', ".venv/bin/").replace('"', "") for line in checks]
    assert [hook["entry"] for hook in hooks()] == [line for line in reported if "pytest" not in line]


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: str(hook["id"]))
def test_the_command_of_a_hook_is_there(hook: dict[str, Any]) -> None:
    assert (hook["language"], hook["pass_filenames"]) == ("system", False)
    program = hook["entry"].split()[0]
    assert shutil.which(str(ROOT / program) if "/" in program else program), program
