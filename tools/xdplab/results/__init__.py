# SPDX-License-Identifier: Apache-2.0
"""Run folders: run.json, trials.jsonl (the truth), report.html."""

from xdplab.results.folder import (
    Journal as Journal,
    RunFolder as RunFolder,
    find_run as find_run,
    new_run as new_run,
    trials_by_point as trials_by_point,
)
