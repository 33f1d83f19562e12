# SPDX-License-Identifier: Apache-2.0
"""Somebody else's distribution adds a forwarder and a knob, and no file of ours knows of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import Done, environment, xdplab
from lab.outsider import distribution

from xdplab.analysis import summarise

ACME = """
import os
from pathlib import Path
from typing import ClassVar, Literal
from xdplab.api import Box, FakeForwarder, InputError, Knob, Unsupported

FILE = Path(os.environ["ACME_FILE"])

class Options(Box):
    colour: Literal["red", "green"] = "green"

class Switch(FakeForwarder):
    name: ClassVar[str] = "acme-switch"
    options_model: ClassVar[type] = Options

    def mode(self):
        return {"label": f"acme {self.options.colour}"}

class Depth(Knob):
    name: ClassVar[str] = "acme_depth"
    scope: ClassVar[str] = "system"

    def check(self, value):
        if value not in (1, 2, 9):
            raise InputError(f"knob acme_depth: {value!r} is not 1, 2 or 9")
        return value

    def supported(self, context, value):
        return "acme_depth 9 needs a deeper machine" if value == 9 else None

    def read(self, context):
        return FILE.read_text()

    def apply(self, context, value):
        FILE.write_text(str(value))
        with FILE.with_suffix(".log").open("a") as log:
            log.write(f"{value}\\n")

    def verify(self, context, value):
        if FILE.read_text() != str(value):
            raise Unsupported("acme_depth did not take")

    def restore(self, context, saved):
        FILE.write_text(saved)
"""
POINTS = {
    "xdplab.forwarders": {"acme-switch": "acme:Switch"},
    "xdplab.knobs": {"acme_depth": "acme:Depth"},
}


def acme(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "depth").write_text("7", encoding="utf-8")
    return environment({"ACME_FILE": str(tmp_path / "depth")}, [distribution(tmp_path / "acme", "acme", POINTS, ACME)])


def test_a_foreign_forwarder_and_knob_are_measured_and_the_knob_put_back(tmp_path: Path) -> None:
    env = acme(tmp_path)
    path = studies.study_file(tmp_path, forwarders=["fake", "acme-switch:colour=red"], knobs={"acme_depth": [1, 2, 9]})
    done = xdplab("run", path, env=env)
    assert done.complaints == []
    run = studies.only_run(tmp_path / "results")
    rows = [row.model_dump() for row in summarise(run.load(), run.trials())]
    found = {(row["forwarder"], row["knobs"]["acme_depth"]): (row["mode"], row["status"]) for row in rows}
    assert found == {
        **{("fake", depth): ("simulated", "ok") for depth in (1, 2)},
        **{("acme-switch:colour=red", depth): ("acme red", "ok") for depth in (1, 2)},
        **{(name, 9): ("", "unsupported") for name in ("fake", "acme-switch:colour=red")},
    }
    assert all("deeper machine" in row["reason"] for row in rows if row["status"] == "unsupported")
    assert (tmp_path / "depth").read_text(encoding="utf-8") == "7"
    applied = (tmp_path / "depth.log").read_text(encoding="utf-8").split()
    assert sorted(applied) == ["1"] * 4 + ["2"] * 4  # two forwarders, two repetitions
    assert {trial.knobs["acme_depth"] for trial in run.trials() if trial.result} == {"1", "2"}


def test_foreign_names_are_listed_and_their_options_checked(
    tmp_path: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_FILE", str(tmp_path / "depth"))
    monkeypatch.syspath_prepend(distribution(tmp_path / "acme", "acme", POINTS, ACME))
    cli("run", studies.study_file(tmp_path, forwarders="acme")).refused("there are acme-switch, fake")
    wrong = studies.study_file(tmp_path, forwarders="acme-switch:colour=blue")
    cli("run", wrong).refused("forwarder acme-switch: colour: ", "'blue'")


def test_without_the_distribution_the_name_is_unknown(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run", studies.study_file(tmp_path, forwarders="acme-switch")).refused("forwarder 'acme-switch': unknown")
