# SPDX-License-Identifier: Apache-2.0
"""Errors a user meets. Each message is one line: what, where, what to do."""

import difflib
from collections.abc import Iterable


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


class Interrupted(XdplabError):
    """SIGINT, SIGTERM or SIGHUP: everything is put back, then exit code 130."""

    exit_code = 130


def meant(word: object, known: Iterable[str]) -> str:
    """`; did you mean 'latency'?`, where one of the known words is close to what was written; else nothing."""
    close = difflib.get_close_matches(str(word), list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
