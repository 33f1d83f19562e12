# SPDX-License-Identifier: Apache-2.0
"""Forms that other programs read, all of `analysis.export`'s rows: CSV, Parquet, OpenMetrics, JUnit."""

from collections.abc import Callable, Sequence

from xdplab.analysis.tables.export import export_rows
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord
from xdplab.report.exports.junit import junit_of
from xdplab.report.exports.openmetrics import openmetrics_of
from xdplab.report.exports.tables import csv_of, parquet_of

#: Name of a form -> what makes it.
FORMS: dict[str, Callable[[RunRecord, Sequence[PointSummary]], bytes]] = {
    "csv": lambda run, points: csv_of(export_rows(run, points)),
    "parquet": lambda run, points: parquet_of(export_rows(run, points)),
    "openmetrics": lambda run, points: openmetrics_of(run, points, export_rows(run, points)),
    "junit": lambda run, points: junit_of(run, points, export_rows(run, points)),
}
