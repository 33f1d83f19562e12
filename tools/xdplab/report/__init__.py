# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML file: the answer first, then what it rests on."""

from xdplab.report.html import describe as describe, render as render, write_report as write_report
