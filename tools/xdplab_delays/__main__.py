# SPDX-License-Identifier: Apache-2.0
"""`python -m xdplab_delays RUN`: groups, rules, importance, the study's tables next to ours."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from xdplab.api import Run, XdplabError, load, need, significant, text_table
from xdplab_delays.analyse import DelayAnalysis, analyse
from xdplab_delays.published import PublishedComparison, compare_published
from xdplab_delays.under_load import under_load


def main(
    run: Annotated[str, typer.Argument(help="run folder or its name")] = "latest",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON on stdout")] = False,
    load_study: Annotated[
        Path | None, typer.Option("--under-load", help="write the study of each group's best under load")
    ] = None,
    bandwidth_bps: Annotated[
        float | None, typer.Option("--bandwidth-bps", min=1, help="of the medium, for --under-load")
    ] = None,
    results: Annotated[Path | None, typer.Option(help="folder of run folders (default: results/)")] = None,
) -> None:
    """Print what a sweep shows as the delay study has it: groups, their rules, its tables next to ours."""
    try:
        need("sweeps", "xdplab_delays")
        read = load(run, results)
        found = analyse(read) if read.sweeps else []
        if not found:
            raise XdplabError(f"run {read.name}: {read.answer.sentence}")
        if load_study:
            written = under_load(read.record, found[0], bandwidth_bps)
            load_study.write_text(yaml.safe_dump(written, sort_keys=False, allow_unicode=True), encoding="utf-8")
    except (XdplabError, OSError) as exc:
        print(f"xdplab_delays: {exc}", file=sys.stderr)
        raise typer.Exit(2) from None
    print(json.dumps([_data(each, read) for each in found], indent=1) if as_json else _text(found, read))


def _data(found: DelayAnalysis, run: Run) -> dict[str, object]:
    published = compare_published(found, run.record.study)
    return found.model_dump(mode="json") | {"published": [each.model_dump(mode="json") for each in published]}


def _text(found: list[DelayAnalysis], run: Run) -> str:
    parts = []
    for each in found:
        parts += [f"{each.sweep.quantity} latency, {each.sweep.title}", *(f"* {line}" for line in each.summary), ""]
        parts += [_importance(each), "", _rules(each), ""]
        parts += [text for table in compare_published(each, run.record.study) for text in (_beside(table), "")]
    return "\n".join(parts).rstrip()


def _importance(found: DelayAnalysis) -> str:
    rows = [["setting", "verdict", "importance (95 % interval)"]]
    for each in found.sweep.importance:
        low, middle, high = found.importance.get(each.factor, (None, None, None))
        rows.append([each.factor, each.verdict, "-" if middle is None else f"{middle:.3f} ({low:.3f} to {high:.3f})"])
    return text_table(rows)


def _rules(found: DelayAnalysis) -> str:
    rules = {rule.cluster: rule for rule in found.rules.rules}
    rows = [["group", "configurations", "mean us", "std us", "precision", "coverage", "rule"]]
    for group in found.groups.clusters:
        rule = rules.get(group.number)
        fit = [f"{rule.precision:.0%}", f"{rule.coverage:.0%}", rule.text] if rule else ["-", "-", "-"]
        rows.append([str(group.number), str(group.size), _us(group.mean_us), _us(group.std_us), *fit])
    return f"{text_table(rows)}\n{found.groups.reason}"


def _beside(each: PublishedComparison) -> str:
    rows = [["published cluster", "mean us", "ours us", "configurations", "our group"]]
    for row in each.rows:
        group = row.missing or ("outliers" if row.group is None else str(row.group))
        cluster = f"{row.published.cluster}: {row.published.rule}"
        rows.append([cluster, _us(row.published.mean_us), _us(row.mean_us), str(row.configurations), group])
    claims = [["the study says", "this run", "verdict"]]
    claims += [[claim.statement, claim.ours, claim.verdict] for claim in each.claims]
    note = [each.note] if each.note else []
    return "\n".join([f"next to {each.title}", text_table(rows), text_table(claims), *note])


def _us(value: float | None) -> str:
    return "-" if value is None else significant(value)


if __name__ == "__main__":
    typer.run(main)
