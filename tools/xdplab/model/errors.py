# SPDX-License-Identifier: Apache-2.0
"""Errors a user meets. Each message is one line: what, where, what to do."""

import difflib
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class XdplabError(Exception):
    """Something ended; `exit_code` is what the command line returns."""

    exit_code = 1


class InputError(XdplabError):
    """Bad input or a missing part: nothing was changed."""

    exit_code = 2


class DoesNotCompile(InputError):
    """Source that a build option names is there, and cannot be compiled."""


class NotThere(InputError):
    """What a study or the environment names, a program or its file, is not where it says."""


class MissingProgram(XdplabError):
    """A program that is called is not on this machine."""

    exit_code = 2


class Missing(InputError):
    """This machine lacks what all of a run needs; the message says what, and how to get it. Suites skip."""


class NothingMeasurable(Missing):
    """It has the tester, and none of the study's points can be measured on it."""


class Unsupported(XdplabError):
    """This machine cannot do what the point asks for; the message is the reason shown in the report."""


class PointFailed(XdplabError):
    """A forwarder or tester broke during a point; the run goes on with the next one."""


class LinkLost(XdplabError):
    """The connection to a host was lost, and with it what ran there: the repetition fails, and is repeated once."""


class HostLost(XdplabError):
    """A host could not be reached again: the run ends, and what was changed there is put back by `xdplab restore`."""


class JournalFailed(XdplabError):
    """The journal cannot be written (disk full): the run ends, what it measured is safe."""


class Interrupted(BaseException):
    """SIGINT, SIGTERM or SIGHUP: everything is put back, then exit code 130.

    No `XdplabError`, as `KeyboardInterrupt` is no `Exception`: who takes an error for a port that is down, or for a
    program that does not answer, must not take a signal for one.
    """

    exit_code = 130


def meant(word: object, known: Iterable[str]) -> str:
    """`; did you mean 'latency'?`, where one of the known words is close to what was written; else nothing."""
    close = difflib.get_close_matches(str(word), list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


# Steps of which each is made whatever another raises: what fails is collected, and raised after the last.


class Steps:
    """What is put back, step by step.

    steps = Steps()
    for host in hosts:
        with steps.step(host.name):
            host.close()
    steps.raise_failed()
    """

    def __init__(self) -> None:
        self.failed: list[XdplabError | Interrupted] = []

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """One of them; `what` names it where the error is none of ours."""
        try:
            yield
        except (XdplabError, Interrupted) as exc:
            self.failed.append(exc)
        except Exception as exc:  # unforeseen, or what a host answered: the other steps are made all the same
            at = traceback.extract_tb(exc.__traceback__)[-1]
            where = f"{Path(at.filename).name}:{at.lineno}"
            self.failed.append(XdplabError(f"{what}: {type(exc).__name__}: {exc} ({where})"))

    @property
    def reasons(self) -> str:
        """Of all that failed, each once."""
        return "; ".join(dict.fromkeys(map(str, self.failed)))

    @property
    def error(self) -> XdplabError | Interrupted | None:
        """None, or the first that failed, with the reasons of all.

        An interruption stays one, and bad input is one only where nothing else failed.
        """
        if not self.failed:
            return None
        first = min(self.failed, key=lambda each: (not isinstance(each, Interrupted), isinstance(each, InputError)))
        return type(first)(self.reasons) if len(self.failed) > 1 else first

    def raise_failed(self) -> None:
        """Raises `error`, unless it is None: an XdplabError, or Interrupted."""
        if self.error is not None:
            raise self.error


def do_each(what: str, *calls: Callable[[], object]) -> None:
    """Make every call.

    Raises:
        XdplabError: the first that failed, with the reasons of all.
    """
    steps = Steps()
    for call in calls:
        with steps.step(what):
            call()
    steps.raise_failed()
