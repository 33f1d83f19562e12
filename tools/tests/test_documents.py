# SPDX-License-Identifier: Apache-2.0
"""What the documents list is what the code has; what they name is there."""

import re

import pytest

from dev.data_format import data_format, own_methods
from dev.drawing import drawing
from xdplab.analysis.columns import own_columns
from xdplab.measure import TrialFigures, method_class, method_names
from xdplab.methods.counting import RateRecord
from xdplab.methods.rfc2544.records import ClauseRecord, SearchRecord
from xdplab.methods.rfc2544.search import PRESETS
from xdplab.model import InputError, Model, TrialRecord
from xdplab.model.base import described
from xdplab.results import RunFolder
from xdplab.tools import project_root
from xdplab_changes.figures import ChangeRecord
from xdplab_timeline.breakdown import BreakdownRecord
from xdplab_timeline.stages import StagesRecord
from xdplab_timeline.tracing import TracedRecord

ROOT = project_root()
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]
STORED = sorted((ROOT / "tools" / "tests" / "data").glob("stored*/**/trials.jsonl"))


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def test_the_data_format_is_what_the_models_say() -> None:
    """Else: python tools/dev data-format > docs/data-format.md."""
    assert text_of("docs/data-format.md") == data_format()


def test_the_drawing_of_the_core_is_that_of_its_imports() -> None:
    """Else: python tools/dev drawing."""
    assert f"```\n{drawing()}\n```" in text_of("docs/architecture.md")


def test_each_stop_of_a_walk_is_there_and_no_walk_has_more_than_six() -> None:
    walks = text_of("docs/architecture.md").partition("## Five walks")[2].partition("\n## ")[0].split("\n**From ")[1:]
    assert len(walks) == 5
    for walk in walks:
        stops = re.findall(r"^\d\. `(\w+)` \(`([\w/.]+)`\)", walk, re.MULTILINE)
        assert len(re.findall(r"^\d\. ", walk, re.MULTILINE)) == len(stops) <= 6
        for name, file in stops:
            text = (ROOT / ("" if file.startswith("bpf") else "tools/xdplab") / file).read_text(encoding="utf-8")
            assert re.search(rf"\b(def|class|int|void) {name}\b", text), (name, file)


class Base(Model):
    #: Of the base.
    name: str
    undescribed: int


class Made(Base):
    name: str
    #: In two
    #: lines.
    other: int


def test_a_field_is_described_by_the_lines_above_it_and_else_as_in_its_base() -> None:
    assert described(Made) == {"name": "Of the base.", "other": "In two lines."}


def test_a_field_without_a_description_is_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dev.data_format.RunRecord", Made)
    with pytest.raises(LookupError, match=r"Made\.undescribed: no line"):
        data_format()


def sections(document: str) -> dict[str, str]:
    """Heading of the second level -> what is below it."""
    _, *rest = re.split(r"^## (.+)\n", text_of(document), flags=re.MULTILINE)
    return dict(zip(rest[::2], rest[1::2], strict=True))


METHODS = sections("docs/methods.md")


def words(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_each_method_has_a_section_with_its_names_figures_and_columns() -> None:
    shared = words(METHODS["What all share"])
    assert {method.name for method in own_methods()} == set(METHODS) - {"What all share"}
    for method in own_methods():
        reported = words(METHODS[method.name])
        others = {name for name in method_names() if method_class(name) is method} - {method.name}
        assert others <= reported, method.name
        assert {each.key for each in method.figures} <= reported, method.name
        keys = {each.key for each in own_columns(method)}
        assert keys <= reported | shared, (method.name, keys - reported - shared)


def test_the_presets_are_those_of_the_search() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) % \| (\d+) \|$", METHODS["rfc2544"], re.M
    )
    reported = {name: tuple(map(float, numbers)) for name, *numbers in rows}
    assert reported == {
        name: (one.final_trial_s, one.duration_sum_s, one.exceed_ratio, 100 * one.relative_width, one.budget_s)
        for name, one in PRESETS.items()
    }


def is_one(kind: type[TrialFigures], trial: TrialRecord) -> bool:
    try:
        kind.of(trial)
    except InputError:
        return False
    return True


def test_what_is_journaled_is_one_record_of_its_method_and_no_other() -> None:
    seen = set()
    for path in STORED:
        run = RunFolder(path.parent)
        kinds = method_class(run.load().study.method.name).records
        for trial in run.trials():
            if trial.figures:
                (found,) = (kind for kind in kinds if is_one(kind, trial))
                seen.add(found)
    assert {RateRecord, ChangeRecord, StagesRecord, BreakdownRecord, TracedRecord, SearchRecord} <= seen


def test_the_records_of_each_method_are_linked_and_those_of_clauses_in_their_rows() -> None:
    for method in own_methods():
        links = re.findall(r"\[(\w+)\]\(data-format\.md#(\w+)\)", METHODS[method.name])
        assert all(anchor == name.lower() for name, anchor in links)
        assert {each.__name__ for each in method.records} <= {name for name, _ in links}, method.name
    rows = dict(re.findall(r"^\| (RFC [\d .]+) \| .*? \| \[(\w+)\].* \|$", METHODS["rfc2544"], re.MULTILINE))
    clauses = [each for each in method_class("rfc2544").records if issubclass(each, ClauseRecord)]
    assert rows == {each.clause: each.__name__ for each in clauses}


def test_each_word_of_the_glossary_is_one_sentence_and_says_where_it_is_used() -> None:
    entries = re.findall(r"^\* \*\*(.+?)\*\*: (.+?)(?=^\* |\Z)", text_of("docs/glossary.md"), re.MULTILINE | re.DOTALL)
    names = [name for name, _ in entries]
    asked = ("through", "hairpin", "reflect", "inline", "1C1T", "trial", "point", "repetition", "turn",
             "budget", "interval", "ablation", "micro-benchmark", "co-located workload")  # fmt: skip
    assert [word for word in asked if not any(word in name.split(", ") for name in names)] == []
    assert names == sorted(names, key=str.lower)
    for name, text in entries:
        sentence, _, where = text.rpartition("(")
        paths = words(where)
        assert paths, name
        folders = {path: ROOT if path.startswith("tools/") else ROOT / "tools" / "xdplab" for path in paths}
        assert [path for path, folder in folders.items() if not (folder / path).exists()] == [], name
        assert not re.search(r"\.\s", sentence), name


def test_what_a_document_links_to_is_there() -> None:
    links = [(document, link) for document in DOCUMENTS for link in re.findall(r"\]\(([^)\s]+)\)", text_of(document))]
    assert len(links) > 200
    for document, link in links:
        target, _, anchor = link.partition("#")
        assert "://" not in target, (document, link)
        path = (ROOT / document).parent / target if target else ROOT / document
        assert path.exists(), (document, link)
        headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
        assert not anchor or anchor in anchors, (document, link)


def test_the_readme_leads_to_every_document() -> None:
    linked = set(re.findall(r"\]\(([^)#\s]+)", text_of("README.md")))
    assert {*DOCUMENTS, "CITATION.cff"} - {"README.md"} <= linked


def test_a_file_that_a_document_names_is_there() -> None:
    for document in DOCUMENTS:
        folders = [ROOT, ROOT / "tools" / "xdplab", ROOT / "tools" / "tests", (ROOT / document).parent]
        named = {
            word
            for word in words(text_of(document))
            if re.fullmatch(r"[\w./-]+/[\w./-]+\.(py|md|robot|yaml|j2|dat|c|h)", word)
        }
        ours = {word for word in named if not word.startswith(("/", "acme/", "results/")) and "NAME" not in word}
        lacking = [word for word in sorted(ours) if not any((folder / word).exists() for folder in folders)]
        assert lacking == [], document


def test_code_cites_documents_of_the_project() -> None:
    folders = ("tools", "ovs", "bpf", "suites", "ci", "docs", "vpp", "trex")
    kinds = {".py", ".c", ".h", ".md", ".robot", ".yaml", ".yml", ".j2", ".txt", ""}
    found = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in kinds and path.is_file()
    ]
    ours = [path for path in found if not {"build", "__pycache__"} & set(path.parts)]
    assert len(ours) > 500
    outside = ("DESIGN" + ".md", "STYLE" + ".md")
    text = {path: path.read_text(encoding="utf-8", errors="replace") for path in ours}
    assert {str(path) for path in ours for word in outside if word in text[path]} == set()


def test_a_rule_that_code_cites_is_one_of_the_architecture() -> None:
    rules = set(re.findall(r"^(\d+)\. \*\*", text_of("docs/architecture.md"), re.MULTILINE))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tools").glob("xdplab*/**/*.py")]
    cited = {number for text in sources for number in re.findall(r"docs/architecture\.md,\s+rule (\d+)", text)}
    assert {"9"} <= cited <= rules
