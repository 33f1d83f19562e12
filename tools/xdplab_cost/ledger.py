# SPDX-License-Identifier: Apache-2.0
"""The ledger: a table of costs as files that are kept, for readers and for programs that follow benchmarks."""

import json
from pathlib import Path

from xdplab.api import bencher_metric
from xdplab_cost import table
from xdplab_cost.gate import METRIC
from xdplab_cost.run import CostTable, batch_words


def bencher(found: CostTable) -> dict[str, dict[str, dict[str, float]]]:
    """Bencher's metric format: the least and the greatest of a seed bound a cell."""
    return {
        " ".join(["xdplab cost", cell.kernel, cell.driver, cell.forwarder, *batch_words(found.batch)]): {
            METRIC: bencher_metric(cell.instructions, cell.low, cell.high)
        }
        for cell in found.cells
        if cell.instructions is not None
    }


def write(found: CostTable, stem: Path) -> None:
    """Write STEM.html, .md, .json, .csv and .bencher.json; in a folder the stem is `cost`."""
    stem = stem / "cost" if stem.is_dir() else stem
    texts = {
        ".html": table.web_page(found),
        ".md": table.markdown(found),
        ".json": found.model_dump_json(indent=1) + "\n",
        ".csv": table.comma_separated(found),
        ".bencher.json": json.dumps(bencher(found), indent=1, allow_nan=False) + "\n",
    }
    for suffix, text in texts.items():
        stem.with_name(stem.name + suffix).write_text(text, encoding="utf-8")
