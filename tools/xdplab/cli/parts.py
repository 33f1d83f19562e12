# SPDX-License-Identifier: Apache-2.0
"""`xdplab list` and `xdplab explain`: every part that is installed, as its own source or file tells of it."""

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from xdplab.analysis.tables.columns import schema_of_rows
from xdplab.app import study_files
from xdplab.cli.fields import models_of, rows
from xdplab.forwarders.options import Key, RawOptions
from xdplab.forwarders.registry import GROUP as FORWARDERS
from xdplab.knobs import Knob, make_knob
from xdplab.knobs.registry import GROUP as KNOBS
from xdplab.model import InputError, Model, RunRecord, StudySpec, TestbedSpec, TrialRecord, plugins
from xdplab.model.described import above, document
from xdplab.model.design import RAW
from xdplab.model.errors import meant
from xdplab.model.method import GROUP as METHODS
from xdplab.model.pipeline import KINDS, ONE_WAY, SIZED
from xdplab.testers.registry import GROUP as TESTERS
from xdplab.tools import project_root, testbeds_folder

_WIDTH = 118
_INDENT: dict[str, Any] = {"initial_indent": " " * 6, "subsequent_indent": " " * 6}


class Part(NamedTuple):
    """One thing that a study or a command line may name."""

    kind: str
    name: str
    #: What it is; the first sentence is that of the list.
    text: str
    #: Paragraphs of the explanation below it, asked for when somebody wants them.
    more: Callable[[], Iterable[str]]


def listed(kind: str | None) -> str:
    """Names and first sentences, of one kind or of all.

    Raises:
        InputError: no such kind.
    """
    if kind is not None and kind not in _KINDS:
        raise InputError(f"list: {kind!r}: unknown{meant(kind, _KINDS)}; there are {', '.join(_KINDS)}")
    found = []
    for each in [kind] if kind else _KINDS:
        parts = list(_KINDS[each]())
        width = max((len(part.name) for part in parts), default=0)
        found += [f"{each}:", *(f"  {part.name:<{width}}  {_first(part.text)}" for part in parts), ""]
    return "\n".join([*found, "`xdplab explain NAME` describes one."])


def explained(name: str) -> str:
    """All that is called so.

    Raises:
        InputError: nothing is.
    """
    parts = [part for kind in _KINDS.values() for part in kind()]
    found = [part for part in parts if part.name == name]
    if not found:
        close = meant(name, [part.name for part in parts])
        raise InputError(f"explain: unknown name {name!r}{close}; `xdplab list` names all")
    return "\n\n".join(_described(part) for part in found)


def by_kind() -> dict[str, dict[str, str]]:
    """Kind -> name -> explanation, of everything; for the documents."""
    return {kind: {part.name: _described(part) for part in parts()} for kind, parts in _KINDS.items()}


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schemas of what is read and written."""
    found = {model.__name__: model.model_json_schema() for model in (StudySpec, TestbedSpec)}
    found |= {model.__name__: model.model_json_schema(mode="serialization") for model in (RunRecord, TrialRecord)}
    return {**found, "show --json": schema_of_rows()}


def names() -> list[str]:
    """Of everything, for the shell's completion."""
    return sorted({part.name for kind in _KINDS.values() for part in kind()})


def _described(part: Part) -> str:
    blocks = [f"{part.kind} {part.name}", part.text, *part.more()]
    return "\n\n".join(textwrap.indent(each, "  " * bool(number)) for number, each in enumerate(blocks) if each)


def _first(text: str) -> str:
    sentence = re.split(r"(?<=[.?])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(".")
    return textwrap.shorten(re.sub(r"^Method `[a-z]+`: ", "", sentence), _WIDTH - 24, placeholder=" ...")


def _of_group(kind: str, group: str, more: Callable[[str, Any], Iterable[str]]) -> Callable[[], Iterator[Part]]:
    """Parts that are found by an entry point; the document of their module, which names its sources, comes last."""

    def parts() -> Iterator[Part]:
        for entry in plugins.entries(group):
            part = entry.load()
            what = getattr(part, "spec_model", part)  # a method's spec says what is measured, its class how
            own = document(what) if vars(what).get("__doc__") else above(entry.module, entry.attr)
            behind = partial(_with_module, entry.module, more, entry.name, part)
            yield Part(kind, entry.name, own or document(what), behind)

    return parts


def _with_module(module: str, more: Callable[[str, Any], Iterable[str]], name: str, part: Any) -> Iterator[str]:
    yield from more(name, part)
    yield document(sys.modules[module])


def _forwarder(name: str, part: Any) -> Iterator[str]:
    yield from _options(part.options_model, f"{name}:OPTION=VALUE,...")
    yield _needs(part.unsupported)


def _tester(name: str, part: Any) -> Iterator[str]:
    yield from _forwarder(name, part)
    yield "\n".join(f"no figures of `{clause}`: {why}" for clause, why in part.cannot.items())


def _knob(name: str, part: Any) -> Iterator[str]:
    yield f"values: {_values(make_knob(name))}; `unset` leaves it as it is"
    yield _needs(part.unsupported)
    yield f"set after {', '.join(part.after)}" if part.after else ""
    yield "outlives a run that is killed: `xdplab restore` puts it back" if part.scope == "system" else ""
    yield f'xdplab run STUDY --set "knobs={{{name}: [VALUE, ...]}}"'


def _values(knob: Knob) -> str:
    """What it says to a value that it cannot take."""
    try:
        knob.check("?")
    except InputError as exc:
        return re.sub(r"^is (not|none of|neither|no) ?", "", str(exc).partition("'?' ")[2]).strip()
    return "any"


def _pipeline(kind: str) -> Iterator[str]:
    yield f"{kind}:N takes 1 to {SIZED[kind]:,}" if kind in SIZED else ""
    yield f"measured from the tester's side only: {kind} does not take what the other begins" if kind in ONE_WAY else ""
    does = [each.name for each in plugins.entries(FORWARDERS) if kind in each.load().pipelines]
    yield f"done by {', '.join(does)}"
    size = f":{min(1000, SIZED[kind])}" if kind in SIZED else ""
    yield f"robot -v PIPELINE:{kind}{size} suites/latency.robot"


def _method(name: str, part: Any) -> Iterator[str]:
    yield from _options(part.spec_model, f"method: {{name: {name}, KEY: VALUE}}")
    yield "figures:\n" + "\n".join(f"  {each.key}: {each.title}" for each in part.figures)


def _options(model: type[Model] | None, use: str) -> Iterator[str]:
    """Each field of a model and of those in it: type, default, what it is, what its own metadata says of it."""
    if model is None or not model.model_fields:
        yield "no options"
        return
    for number, each in enumerate(models_of(model)):
        lines = [f"{each.__name__}:" if number else f"options ({use}):"]
        for key, kind, default, text in rows(each):
            beside = [it.documented() for it in each.model_fields[key].metadata if isinstance(it, Key)]
            if key == RAW and issubclass(each, RawOptions):
                beside += [f"{RAW}.{place}: {where}." for place, where in each.raw_places.items()]
            said = " ".join(filter(None, [text, *beside]))
            of = f"  {key}: {_plain(kind)}" + (f"; default {_plain(default)}" if default != "–" else "; must be given")
            lines += [of, *textwrap.wrap(said, _WIDTH, break_on_hyphens=False, **_INDENT)]
        yield "\n".join(lines)


def _plain(cell: str) -> str:
    """A cell of the documents for a terminal."""
    return re.sub(r"\[(\w+)\]\(#\w+\)", r"\1", cell).replace("`", "").replace("its own", "(see the source)")


def _needs(unsupported: Any) -> str:
    """Where it is inactive: what it says of its own check of the machine."""
    own = not unsupported.__module__.endswith(".base") and document(unsupported)
    return f"where: {own}" if own else ""


def _study(path: Path) -> Part:
    return Part("study", path.stem, _comment(path), lambda: [f"xdplab run {path.stem} --dry-run", f"file: {path}"])


def _testbed(path: Path) -> Part:
    return Part("testbed", path.stem, _comment(path), lambda: [f"xdplab doctor --testbed {path.stem}", f"file: {path}"])


@cache
def _suite(path: Path) -> Part:
    from robot.api import TestSuite

    suite = TestSuite.from_file_system(path)
    given = [
        f"-v {each.name[2:-1]}:{'  '.join(each.value).replace('${EMPTY}', '')}" for each in suite.resource.variables
    ]
    more = ["\n".join(["variables:", *(f"  {each}" for each in given)]), f"robot {path}"]
    return Part("suite", path.stem, suite.doc, lambda: more)


def _comment(path: Path) -> str:
    """What stands at a file's head, below the licence."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    head = lines[: next((number for number, line in enumerate(lines) if not line.startswith("#")), 0)]
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in head)


#: Kind -> all parts of it; what `xdplab list` may be asked for.
_KINDS: dict[str, Callable[[], Iterable[Part]]] = {
    "forwarders": _of_group("forwarder", FORWARDERS, _forwarder),
    "testers": _of_group("tester", TESTERS, _tester),
    "knobs": _of_group("knob", KNOBS, _knob),
    "pipelines": lambda: (Part("pipeline", kind, text, partial(_pipeline, kind)) for kind, text in KINDS.items()),
    "methods": _of_group("method", METHODS, _method),
    "studies": lambda: map(_study, study_files().values()),
    "testbeds": lambda: map(_testbed, sorted(testbeds_folder().glob("*.yaml"))),
    "suites": lambda: map(_suite, sorted((project_root() / "suites").glob("*.robot"))),
}
