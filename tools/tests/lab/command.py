# SPDX-License-Identifier: Apache-2.0
"""`xdplab` as a user meets it: exit code, standard output, standard error."""

import importlib.machinery
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from xdplab.cli import main

#: The environment that pytest runs from holds `xdplab` and `robot` too; not resolved, a venv's python is a link.
BIN = Path(sys.executable).parent
TESTS = Path(__file__).resolve().parents[1]
#: In front of a command: a user without rights and without files of its own.
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        """The lines that tell a user what went wrong."""
        return [line for line in self.err.splitlines() if line.startswith("xdplab: ")]

    def refused(self, *words: str, code: int = 2) -> None:
        """One line that holds all `words`, that exit code, and no traceback."""
        assert "Traceback" not in self.err + self.out, self.err
        assert len(self.complaints) == 1, self.err
        missing = [word for word in words if word not in self.complaints[0]]
        assert not missing, f"{missing} not in: {self.complaints[0]}"
        assert self.code == code, f"exit code {self.code}: {self.err}"

    def json(self) -> Any:
        return json.loads(self.out)


def environment(extra: Mapping[str, str] | None = None, python_path: Sequence[Path] = ()) -> dict[str, str]:
    """The environment of a child: ours, `extra`, and folders in front of PYTHONPATH."""
    env = {**os.environ, **(extra or {})}
    folders = [*map(str, python_path), *env.get("PYTHONPATH", "").split(os.pathsep)]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    return env


def start(*args: object, env: Mapping[str, str], wrap: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start `xdplab` in the background; `wrap` goes in front (setpriv ...)."""
    argv = [*wrap, str(BIN / "xdplab"), *map(str, args)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(env))


def load_program(path: Path) -> ModuleType:
    """A program without a suffix, as a module; also known by its name, for dataclasses look their module up."""
    loader = importlib.machinery.SourceFileLoader(f"{path.parent.name}_{path.name}_under_test", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


@contextmanager
def held_up(testbed: object, env: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """`xdplab up` that holds a testbed within."""
    process = start("up", "--testbed", testbed, env=env)
    try:
        assert process.stdout
        assert any(line.startswith("up;") for line in iter(process.stdout.readline, "")), "it is not up"
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        finish(process)


def guardians(run: int) -> list[int]:
    """Processes that wait for the end of a run to restore what it changed."""
    found = []
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            stat = (path / "stat").read_text(encoding="utf-8", errors="replace") if path.name.isdigit() else ""
            parent = stat.rpartition(")")[2].split()[1] if stat else ""
            if parent == str(run) and b"restore" in (path / "cmdline").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def kill_9(run: int) -> None:
    """SIGKILL for a run and, before that, for its guardian, which would restore what is to be looked at."""
    for pid in [*guardians(run), run]:
        os.kill(pid, signal.SIGKILL)


def finish(process: subprocess.Popen[str], timeout_s: float = 60) -> Done:
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=60)  # its guardian has its stderr for as long as it restores
    return Done(process.returncode, out, err)


def xdplab(*args: object, env: Mapping[str, str], wrap: Sequence[str] = (), timeout_s: float = 60) -> Done:
    """Run `xdplab` to its end in a process of its own."""
    if wrap:
        return finish(start(*args, env=env, wrap=wrap), timeout_s)
    return forked(main, ["xdplab", *map(str, args)], env, timeout_s)


def robot(*args: object, env: Mapping[str, str], timeout_s: float = 170) -> Done:
    """Run `robot` likewise."""
    return forked(lambda: run_robot(sys.argv[1:]), ["robot", *map(str, args)], env, timeout_s)


def forked(program: Callable[[], Any], argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> Done:
    """Run a program to its end in a fork of this process, which has its libraries: to load them takes half a second."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # our other threads only wait
            pid = os.fork()
        if not pid:
            _become(program, argv, env, (out.fileno(), err.fileno()))
        in_time, ended = False, os.pidfd_open(pid)
        try:
            in_time = bool(select.select([ended], [], [], timeout_s)[0])
        finally:
            os.close(ended)
            if not in_time:
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        for file in (out, err):
            file.seek(0)
        done = Done(os.waitstatus_to_exitcode(status), out.read(), err.read())
    assert in_time, f"{argv}: not over within {timeout_s:g} s: {done}"
    return done


def _become(
    program: Callable[[], Any], argv: Sequence[str], env: Mapping[str, str], files: tuple[int, int]
) -> NoReturn:
    """In a fork: files, environment, paths and signals are those of a program that was started."""
    code: Any = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        for given, wanted in zip((os.open(os.devnull, os.O_RDONLY), *files), range(3), strict=True):
            os.dup2(given, wanted)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(fd, mode) for fd, mode in ((0, "r"), (1, "w"), (2, "w")))
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        os.environ.clear()
        os.environ.update(env)
        sys.path[:0] = [each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]
        sys.modules.pop("lab.saboteur", None)  # it reads the environment
        sys.argv = [*argv]
        code = program()
    except SystemExit as exc:
        code = exc.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def run_robot(argv: Sequence[str]) -> int:
    """Robot Framework's entry point; its exit code."""
    from robot import run_cli

    return int(run_cli([*argv], exit=False))


def documented(command: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout_s: float) -> Done:
    """Run a command as a page has it: its program is the one of this environment."""
    argv = [str(BIN / command[0]), *command[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, env=dict(env), cwd=cwd, timeout=timeout_s, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def inline(capsys: pytest.CaptureFixture[str], *args: object) -> Done:
    """Run the same entry point in this process, a second faster; `dev`: that of tools/dev."""
    capsys.readouterr()
    before, sys.argv = sys.argv, ["xdplab", *map(str, args)]
    code: Any = 0
    try:
        if args[:1] == ("dev",):
            from dev.__main__ import cli, main as main_of

            del sys.argv[1]
            main_of(cli)
        else:
            main()
    except SystemExit as exc:
        code = exc.code
    finally:
        sys.argv = before
    out, err = capsys.readouterr()
    return Done(int(code or 0), out, err)


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 30) -> Any:
    """Poll until `condition` gives something; fail with `what` when it does not."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {timeout_s:g} s")
