# SPDX-License-Identifier: Apache-2.0
"""Steps of which each is made whatever another raises: what fails is collected, and raised after the last."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xdplab.model.errors import InputError, Interrupted, XdplabError


class Steps:
    """What is put back, step by step.

    steps = Steps()
    for host in hosts:
        with steps.step(host.name):
            host.close()
    steps.raise_failed()
    """

    def __init__(self) -> None:
        self.failed: list[XdplabError] = []

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """One of them; `what` names it where the error is none of ours."""
        try:
            yield
        except XdplabError as exc:
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
    def error(self) -> XdplabError | None:
        """None, or the first that failed, with the reasons of all.

        An interruption stays one, and bad input is one only where nothing else failed.
        """
        if not self.failed:
            return None
        first = min(self.failed, key=lambda each: (not isinstance(each, Interrupted), isinstance(each, InputError)))
        return type(first)(self.reasons) if len(self.failed) > 1 else first

    def raise_failed(self) -> None:
        """Raises XdplabError: `error`, unless it is None."""
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
