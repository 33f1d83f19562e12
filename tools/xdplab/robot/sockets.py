# SPDX-License-Identifier: Apache-2.0
"""Keywords of the suites that measure one socket."""

from pathlib import Path
from typing import Any, ClassVar

from robot.api import FatalError, SkipExecution, logger
from robot.api.deco import keyword, library

from xdplab import app
from xdplab.analysis.ranks import RankAgreement, rank_agreements
from xdplab.analysis.socket_answer import socket_answer
from xdplab.analysis.sockets import SocketRow, socket_rows
from xdplab.model import XdplabError
from xdplab.model.functions import NfMatrix
from xdplab.tools import project_root


@library(scope="SUITE", auto_keywords=False)
class SocketLibrary:
    """A study is run once per suite; its cases are the tests."""

    ROBOT_LIBRARY_VERSION: ClassVar[str] = "1"

    def __init__(self) -> None:
        self._rows: list[SocketRow] = []
        self._ranks: list[RankAgreement] = []

    @keyword
    def run_socket_study(self, path: str, **changes: Any) -> None:
        """Execute a study of `suites/studies/sockets`, with some of its keys replaced; empty values are left out."""
        given = {key: value for key, value in changes.items() if value not in ("", None, [])}
        try:
            file = project_root() / "suites" / "studies" / "sockets" / path
            study = app.read_socket_study(file if file.is_file() else Path(path), given)
            folder, record = app.run_sockets(study, _note, app.results_folder())
        except XdplabError as exc:
            raise FatalError(str(exc)) from None
        self._rows = socket_rows(study, folder.load()[1])
        self._ranks = rank_agreements(study, self._rows)
        logger.info(f'<a href="file://{folder.report}">{folder.report}</a>', html=True)
        logger.console(f"  {socket_answer(self._rows).sentence}\n  report {folder.report}")
        if record.interrupted:
            raise FatalError("interrupted; what was measured is kept")

    @keyword
    def run_function_study(self, path: str, knobs: str = "", **changes: str) -> None:
        """The same for network functions: their sizes and modes are space-separated, knobs are `name=value`."""
        given: dict[str, Any] = {}
        for key, value in changes.items():
            if not value:
                continue
            if key in NfMatrix.model_fields:
                given[f"network_functions.{key}"] = value if key == "work_bytes" else value.split()
            else:
                given[key] = value
        if knobs:
            pairs = [knob.partition("=") for knob in knobs.split()]
            if not all(equals for _, equals, _ in pairs):
                raise FatalError(f"KNOBS: {knobs!r}: name=value is expected")
            given["knobs"] = {name: value for name, _, value in pairs}
        self.run_socket_study(path, **given)

    @keyword
    def case_was_measured(self, case: str) -> None:
        """Pass when every supported cell of a case was measured; skip with the reason when none is supported here."""
        self._measured(case, [row for row in self._rows if row.case == case])

    @keyword
    def function_was_measured(self, functions: str, mode: str) -> None:
        """The same for a network function, or a chain of them, in one mode: all its sizes and kinds of traffic."""
        chain = tuple(functions.split("+"))
        rows = [
            row for row in self._rows if row.function and (row.function.functions, row.function.mode) == (chain, mode)
        ]
        self._measured(f"{functions}, {mode}", rows)

    @keyword
    def orders_are_compared(self) -> None:
        """State for each network function how the order of its modes agrees with the published one; no gate."""
        ranks = [rank for rank in self._ranks if rank.published_order]
        if not ranks:
            raise SkipExecution("nothing published about these functions and sizes")
        for rank in ranks:
            _note(f"{rank.workload}: {rank.group}: {rank.sentence}")

    @keyword
    def who_is_ahead_is_said(self) -> str:
        """Return the report's first sentence; skip with it when it compares nothing."""
        found = socket_answer(self._rows)
        if not found.said:
            raise SkipExecution(found.sentence)
        _note(found.sentence)
        return found.sentence

    def _measured(self, case: str, rows: list[SocketRow]) -> None:
        if not rows:
            raise SkipExecution(f"{case} is not part of this study")
        bad = [f"{row.workload}: {row.reason}" for row in rows if row.status in ("failed", "partial")]
        if bad:
            raise AssertionError(f"{case}: {'; '.join(bad)}")
        if all(row.status == "unsupported" for row in rows):
            raise SkipExecution(f"unsupported: {rows[0].reason}")
        for row in rows:
            logger.info(f"{row.workload}, {row.case} ({row.mode}): {row.mpps} Mpps, {row.stages}")


def _note(text: str) -> None:
    logger.info(text)
    logger.console(f"  {text}")
