# SPDX-License-Identifier: Apache-2.0
"""Runs on three hosts behind sshd, and whether they left anything changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lab.command import Done, environment, xdplab
from lab.cuts import changes, look
from lab.sshlab import SshLab
from xdplab.analysis import summarise
from xdplab.results import RunFolder

_STUDY: dict[str, Any] = {
    "schema": 1,
    "name": "ssh",
    "path": "through",  # the hosts are namespaces of one kernel
    "forwarders": ["xdp"],
    "method": {"name": "latency", "duration_s": 0.1, "warmup_s": 0.02, "drain_s": 0.05},
    "traffic": {"probe_pps": 2000},
    "repetitions": 1,
}


class Bench:
    """A lab of three hosts behind sshd, and runs on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lab = SshLab(folder / "lab")
        self.env = environment({"XDPLAB_STATE": str(folder / "state"), "XDPLAB_RESULTS": str(folder / "results")})
        self.before: dict[str, list[str]] = {}

    @classmethod
    @contextmanager
    def up(cls, folder: Path) -> Iterator["Bench"]:
        """A bench whose lab is up, until the block ends."""
        made = cls(folder)
        try:
            made.lab.up()
            made.before = look(made.lab)
            yield made
        finally:
            made.lab.down()

    def study(self, **given: Any) -> Path:
        """A short study on the lab, with some of its keys replaced."""
        path = self.folder / "study.yaml"
        spec = {**_STUDY, "testbed": str(self.lab.testbed), **given}
        path.write_text(yaml.safe_dump(spec), encoding="utf-8")
        return path

    def run(self, **given: Any) -> Done:
        """`xdplab run` of that study."""
        return xdplab("run", self.study(**given), env=self.env, timeout_s=150)

    def last_run(self) -> RunFolder:
        return RunFolder((self.folder / "results" / "latest").resolve())

    def rows(self) -> list[dict[str, Any]]:
        """The summaries of the newest run, as JSON has them."""
        run = self.last_run()
        return [row.model_dump(mode="json") for row in summarise(run.load(), run.trials())]

    def refused(self, *words: str) -> None:
        """`xdplab up` says one line with all `words`, and changes nothing."""
        xdplab("up", "--testbed", self.lab.testbed, env=self.env).refused(*words)
        self.assert_as_before()

    def connects(self, **env: str) -> None:
        """`xdplab up` comes up and goes down again, and nothing stays changed."""
        until_eof = {**self.env, **env, "XDPLAB_UP_UNTIL_EOF": "1"}
        done = xdplab("up", "--testbed", self.lab.testbed, env=until_eof, timeout_s=60)
        assert done.code == 0, done.err
        self.assert_as_before()

    def assert_as_before(self) -> None:
        """No setting of the hosts differs from when the lab came up, nothing runs there, no state file is left."""
        assert changes(self.lab, self.before) == []
        assert [path.name for path in (self.folder / "state").glob("*.json")] == []
