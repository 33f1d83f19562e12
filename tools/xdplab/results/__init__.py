# SPDX-License-Identifier: Apache-2.0
"""Run folders: run.json, trials.jsonl (the truth), report.html."""

from xdplab.results.folder import RunFolder, find_run, new_run
