# SPDX-License-Identifier: Apache-2.0
"""Winners, orders, trends, advice, "no measurable difference" ask `analysis.compare`, or stand in a list here.

Read from the sources: who reads repetitions of two points, who makes an interval, who puts figures of points into an
order, and who says a verdict in words. Each exception has its reason, and one that is no longer needed fails.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

from xdplab.tools import project_root

PACKAGE = project_root() / "tools" / "xdplab"
#: What sees figures of points: the layers from `measure` on, but for the run itself, and what serves them.
PLACES = ("analysis", "api.py", "app.py", "cli", "measure", "methods", "report", "robot")
DECIDES = "analysis/compare.py"

#: Words of a verdict, in a string that a user may read.
VERDICT = re.compile(
    r"measurable difference|no difference|\bwinner\b|\bahead\b|times as |as (fast|much) as|has more"
    r"|\b(is|are) (faster|slower|better|worse|alike)\b|\b(better|worse|slower|faster|higher|lower) than\b"
    r"|\b(best|better|worse|fastest|slowest)\b|\bmatters?\b|\badvice\b|\bgains?\b"
    r"|\btold apart\b|\bscales?\b|\bagrees?\b"
)
#: What a decision of `compare` is asked for.
DECISIONS = {"alike", "better", "depends_on_repeats", "hindrance", "hindrances", "known", "said"}
ASKED = ("xdplab.analysis.compare", "xdplab.analysis.words")
#: Of these modules, what decides nothing.
PHRASES = {"NEVER_PAIRED", "capitalized", "listed"}
#: Figures of a point, as they are read from it or from what wraps it.
FIGURES = {"achieved_pps", "forwarded_pps", "loss_ratio", "mean", "measured", "median", "p50_us", "p99_us", "p999_us",
           "p99999_us", "rate", "speed", "value", "values"}  # fmt: skip
MEANS = {"fmean", "known_median", "median"}
MAKES_INTERVALS = {"apart_interval", "difference_interval", "ratio_interval", "together"}

#: Whole folders and files, for every rule, with the reason.
ELSEWHERE = {
    "analysis/compare.py": "it decides",
    "analysis/words.py": "it says what was decided",
}
#: Function -> why it may say such a word without a decision.
WORDS = {
    "analysis/gate.py:GateResult.sentence": "the verdict of judge_gate, by the interval of compare_points",
    "analysis/answers/answer.py:_unasked": "names the command that says it",
    "analysis/answers/ranking.py:": "that nothing is said",
    "analysis/runs/trend.py:": "two names of a step, which stands where the order of the runs is not chance (_chance)",
    "analysis/runs/trend.py:stretches": "the same",
    "analysis/sweep/analyse.py:_losses": "that lossy configurations are left out",
    "analysis/sweep/analyse.py:_what_matters": "puts the verdicts of Importance into a sentence",
    "analysis/sweep/analyse.py:sweep_sentence": "that nothing is said",
    "analysis/sweep/clusters.py:cluster": "what number of groups the criterion is near to",
    "analysis/sweep/importance.py:": "kinds of a verdict",
    "analysis/sweep/importance.py:Importance.undecided": "the same",
    "analysis/sweep/importance.py:Importance.verdict": "by corrected intervals of a table (test_sweep_planted.py)",
    "analysis/sweep/published.py:": "kinds of a verdict",
    "analysis/sweep/published.py:_matters": "by the verdict of Importance",
    "analysis/sweep/published.py:_number": "a count of groups next to a count",
    "analysis/sweep/published.py:_order": "by the chance of a rank correlation",
    "analysis/sweep/published.py:_worse": "by levels that differ from the default (Importance)",
    "analysis/tables/columns.py:": "title of a column whose cells are comparisons",
    "analysis/tables/columns.py:figure_column": "the same",
    "analysis/tables/export.py:_named": "name of a field: which way of a figure is good",
    "cli/check.py:": "kind of a line of doctor",
    "cli/check.py:check": "the same",
    "cli/doctor_host.py:_advice": "the same",
    "cli/doctor_hosts.py:direct_link": "the same",
    "cli/doctor_ports.py:_moderation": "the same",
    "cli/doctor_ports.py:_numa": "the same",
    "cli/doctor_ports.py:_pause": "the same",
    "cli/doctor_ports.py:_queues": "the same",
    "cli/gate.py:": "help of an option",
    "cli/gate.py:bisect": "the verdict of a gate",
    "cli/main.py:analyse": "help of an option",
    "cli/reproduce.py:": "what studies are for",
    "cli/tables.py:trend_table": "title of a table",
    "methods/latency/__init__.py:": "title of a column whose cells are comparisons",
    "methods/rfc2544/figures.py:": "declares which way of a figure is good",
    "report/sweep.py:_densities": "title of a chart",
    "report/sweep.py:_importance": "legend and note of a chart, by the verdicts of Importance.matters",
}
#: Function -> why it may put figures side by side.
ORDERS = {
    "analysis/answers/agreement.py:_through": "shown next to the hindrance, where too few pairs are clean",
    "analysis/answers/ranking.py:_led": "whom compare compares with all others",
    "analysis/sweep/clusters.py:_smallest_gap": "coordinates of groups of configurations",
    "analysis/runs/pooled.py:SharedPoint.spread": "of one point over machines: nobody is ahead",
    "methods/functions/scaling.py:Scaling._needed": "what a core more has to bring, which its interval is held against",
    "methods/rfc2544/figures.py:_time": "a time and what it resolves",
    "methods/rfc2544/figures.py:worst": "trials of one point",
    "methods/shared/curve.py:Curve._best": "of which of those with one core all others are parts",
}
#: Function -> why it may make an interval.
INTERVALS = {
    "cli/calibrate.py:measure_tester": "two ways to send of one tester, without a forwarder",
    "methods/breakdown/figures.py:_at_rate": "trials of one process in turns, with probes and without",
    "methods/tracing/figures.py:_at_rate": "trials of one process in turns, traced and not",
}

#: Template -> why its own words, those that no expression brings, may have a verdict in them.
TEMPLATES = {
    "methods/breakdown/report.html.j2": "title of a column whose cells are comparisons",
    "methods/rfc2544/ablation.html.j2": "the same, and how they are to be read",
    "methods/rfc2544/report.html.j2": "the same, and how fast bursts leave",
    "methods/tracing/report.html.j2": "a question, whose table is not judged",
    "report/agreement.html.j2": "title of a table whose cells are comparisons",
    "report/site.html.j2": "title of the groups that jumpavg finds",
    "report/sweep.html.j2": "words around Importance and ChangeAdvice, and as measured, which it says",
}


def of_source(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def sources() -> dict[str, str]:
    """Source by its path, but for what stands in `ELSEWHERE`."""
    found = {of_source(path): path for name in PLACES for path in (PACKAGE / name).rglob("*.py")}
    found |= {name: PACKAGE / name for name in PLACES if name.endswith(".py")}
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in sorted(found.items())
        if not any(name == each or (each.endswith("/") and name.startswith(each)) for each in ELSEWHERE)
    }


def functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """By their qualified names, each with what is within it."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef):
            yield f"{name}{child.name}", child
        else:
            yield from functions(child, f"{child.name}." if isinstance(child, ast.ClassDef) else name)


def says(nodes: Iterable[ast.AST]) -> list[str]:
    """Strings with a verdict in them, but for documentation."""
    every = [each for node in nodes for each in ast.walk(node)]
    alone = {id(each.value) for each in every if isinstance(each, ast.Expr)}
    texts = [each for each in every if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return [str(each.value) for each in texts if id(each) not in alone and VERDICT.search(str(each.value))]


def asked_names(tree: ast.AST) -> set[str]:
    """Names that a module has from `compare` and `words`."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module in ASKED]
    return {each.asname or each.name for node in imports for each in node.names if each.name not in PHRASES}


def asks(node: ast.AST, names: set[str]) -> bool:
    """Whether it calls one of these names, or reads what a comparison decided."""
    return any(
        (isinstance(each, ast.Name) and each.id in names)
        or (isinstance(each, ast.Attribute) and each.attr in DECISIONS)
        for each in ast.walk(node)
    )


def says_without_asking(source: str) -> dict[str, list[str]]:
    """Function ("" for the module's own strings) -> its verdicts, where no decision is asked for."""
    tree = ast.parse(source)
    names, own = asked_names(tree), dict(functions(tree))
    found = {name: said for name, node in own.items() if (said := says([node])) and not asks(node, names)}
    # a statement of the module or of a class, each by itself
    rest = [each for each in _statements(tree) if not isinstance(each, (ast.ClassDef, ast.FunctionDef))]
    outside = [text for each in rest if not isinstance(each, ast.Expr) for text in says([each])]
    return {**found, **({"": outside} if outside else {})}


def _statements(tree: ast.Module | ast.ClassDef) -> Iterator[ast.stmt]:
    for each in tree.body:
        yield each
        if isinstance(each, ast.ClassDef):
            yield from _statements(each)


def read_figures(node: ast.AST) -> set[str]:
    """Whose figures an expression reads: `ours` and `theirs` of `ours.p50_us - theirs.p50_us`."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and each.attr in FIGURES:
            found.add(ast.unparse(each.value))
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in MEANS:
            found.add(ast.unparse(each))
    return found


def side_by_side(node: ast.AST) -> Iterator[str]:
    """Expressions with figures of two in an order, a ratio or a difference; repetitions of two in one function."""
    for each in ast.walk(node):
        sides: list[ast.expr] = []
        if isinstance(each, ast.Compare) and any(
            isinstance(one, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for one in each.ops
        ):
            sides = [each.left, *each.comparators]
        elif isinstance(each, ast.BinOp) and isinstance(each.op, (ast.Div, ast.Sub)):
            sides = [each.left, each.right]
        keys = (
            each.keywords if isinstance(each, ast.Call) and ast.unparse(each.func) in ("max", "min", "sorted") else []
        )
        if any(read_figures(keyword.value) for keyword in keys if keyword.arg == "key"):
            yield ast.unparse(each)
        read = [found for side in sides if (found := read_figures(side))]
        if len(read) > 1 and len(set().union(*read)) > 1:
            yield ast.unparse(each)
    every = [each for each in ast.walk(node) if isinstance(each, ast.Attribute) and each.attr == "by_repetition"]
    of = {ast.unparse(each.value) for each in every}
    if len(of) > 1:
        yield f"by_repetition of {', '.join(sorted(of))}"


def ordered(source: str) -> dict[str, list[str]]:
    """Function -> its expressions with figures side by side."""
    return {name: found for name, node in functions(ast.parse(source)) if (found := list(side_by_side(node)))}


def makes_intervals(source: str) -> dict[str, list[str]]:
    """Function -> which interval it makes."""
    found = {
        name: [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in MAKES_INTERVALS]
        for name, node in functions(ast.parse(source))
    }
    return {name: made for name, made in found.items() if made}


def unexplained(found: Mapping[str, Mapping[str, list[str]]], reasons: Mapping[str, str]) -> dict[str, object]:
    """What no reason is given for, and reasons for what is there no more."""
    named = {f"{path}:{name}": what for path, each in found.items() for name, what in each.items()}
    new: dict[str, object] = {name: what for name, what in named.items() if name not in reasons}
    return {**new, **{name: "is there no more" for name in reasons if name not in named}}


def test_who_says_a_verdict_has_asked_for_it() -> None:
    found = {path: says_without_asking(source) for path, source in sources().items()}
    assert unexplained(found, WORDS) == {}


def test_who_puts_figures_of_points_side_by_side_is_compare() -> None:
    assert ordered((PACKAGE / DECIDES).read_text(encoding="utf-8"))
    assert unexplained({path: ordered(source) for path, source in sources().items()}, ORDERS) == {}


def test_who_makes_an_interval_of_two_points_is_compare() -> None:
    assert makes_intervals((PACKAGE / DECIDES).read_text(encoding="utf-8"))
    assert unexplained({path: makes_intervals(source) for path, source in sources().items()}, INTERVALS) == {}


def words_of_template(text: str) -> list[str]:
    """What a template says by itself, not by an expression."""
    own = re.sub(r"\{#.*?#\}|\{\{.*?\}\}|\{%.*?%\}|<[^>]*>", " ", text, flags=re.DOTALL)
    return sorted({found.group(0) for found in VERDICT.finditer(own)})


def figures_in_template(text: str) -> list[str]:
    """Expressions of a template with figures of two in an order, a ratio or a difference."""
    tree = jinja2.Environment(autoescape=True).parse(re.sub(r"\{%-? *(import|include)[^%]*%\}", "", text))
    sides = [(each.left, each.right) for each in tree.find_all((nodes.Div, nodes.Sub))]
    sides += [(each.expr, one.expr) for each in tree.find_all(nodes.Compare) for one in each.ops if one.op[0] in "gl"]
    read = [[of_figure(side) for side in both] for both in sides]
    return [" and ".join(sorted(left | right)) for left, right in read if left and right and left != right]


def of_figure(node: nodes.Node) -> set[str]:
    every = [*node.find_all(nodes.Getattr), *([node] if isinstance(node, nodes.Getattr) else [])]
    return {str(each.node) for each in every if each.attr in FIGURES}


def test_templates_say_no_verdict_of_their_own_and_compare_no_figures() -> None:
    texts = {of_source(path): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.j2")}
    assert len(texts) > 20
    said = {path: found for path, text in texts.items() if (found := words_of_template(text))}
    assert {path: found for path, found in said.items() if path not in TEMPLATES} == {}
    assert set(TEMPLATES) <= set(said), "is there no more"
    compared = {path: figures_in_template(text) for path, text in texts.items()}
    assert {path: found for path, found in compared.items() if found} == {}


@pytest.mark.parametrize(
    "text", ["{{ a.p50_us / b.p50_us }}", "{{ a.rate - b.rate }}", "{% if a.value > b.value %}x{% endif %}"]
)
def test_a_template_that_compares_is_seen(text: str) -> None:
    assert figures_in_template(text)
    assert not figures_in_template(text.replace("b.", "a."))
    assert words_of_template("<b>{{ one }}</b> is faster") == ["is faster"]
    assert words_of_template("{{ verdict('is faster') }} {# best #}") == []


def test_what_stands_elsewhere_is_there() -> None:
    assert [name for name in ELSEWHERE if not (PACKAGE / name).exists()] == []


ORDERED = {
    "a winner by medians": "def best(a, b):\n    return a if median(a.values) > median(b.values) else b\n",
    "an order by a figure": "def order(points):\n    return sorted(points, key=lambda one: one.p50_us)\n",
    "a ratio of two": "def times(a, b):\n    return a.p50_us / b.p50_us\n",
    "repetitions of two": "def pairs(a, b):\n    return [*zip(a.by_repetition, b.by_repetition)]\n",
}
WORDED = {
    "in a function": "def f(a, b):\n    return f'{a} is ahead of {b}'\n",
    "in a method": "class A:\n    def f(self):\n        '''No winner.'''\n        return 'no measurable difference'\n",
    "in a constant": "'''The best.'''\nSAID = 'which settings matter'\n",
    "in a constant of a class": "class A:\n    '''The best.'''\n    words = 'is better'\n",
    "beside the question of another": "def g(one):\n    return one.better\n\ndef f():\n    return '3 times as much'\n",
}
ASKING = {
    "a decision": "def f(one):\n    return 'a is ahead' if one.better else 'no measurable difference'\n",
    "words": "from xdplab.analysis.words import verdict\n\ndef f(one):\n    return f'best: {verdict(one)}'\n",
    "documentation": "'''Who is ahead.'''\n\ndef f():\n    '''The best of all.'''\n",
}


def test_figures_side_by_side_are_seen() -> None:
    assert [what for what, source in ORDERED.items() if not ordered(source)] == []
    own = "def f(a):\n    return a.value / a.rate, max(a.values), a.p50_us > 3, a.sent - a.lost, a.by_repetition\n"
    assert ordered(own) == {}


def test_a_verdict_without_a_decision_is_seen() -> None:
    assert [what for what, source in WORDED.items() if not says_without_asking(source)] == []
    assert [what for what, source in ASKING.items() if says_without_asking(source)] == []


def test_an_interval_of_ones_own_is_seen() -> None:
    assert makes_intervals("def f(pairs):\n    return ratio_interval(pairs)\n") == {"f": ["ratio_interval"]}


def test_an_exception_that_is_no_longer_needed_fails() -> None:
    assert unexplained({"a.py": {"f": ["x"]}}, {"a.py:f": "why"}) == {}
    assert unexplained({"a.py": {}}, {"a.py:f": "why"}) == {"a.py:f": "is there no more"}
    assert unexplained({"a.py": {"f": ["x"]}}, {}) == {"a.py:f": ["x"]}
