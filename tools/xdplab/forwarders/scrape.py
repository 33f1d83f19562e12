# SPDX-License-Identifier: Apache-2.0
"""What programs print, as tables of lines with their fields: a line that has changed its form is an error."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xdplab.model import PointFailed


@dataclass(frozen=True)
class Line:
    """A kind of line in a program's output."""

    #: The program or its command, for messages.
    source: str
    #: Regular expression of what such a line begins with.
    begin: str
    #: Regular expression of the rest; its named groups are the fields.
    fields: str

    def read(self, line: str) -> dict[str, str | None] | None:
        """Its fields; None: another kind of line.

        Raises:
            PointFailed: it begins so, and a field is missing.
        """
        if not re.match(self.begin, line):
            return None
        found = re.fullmatch(self.begin + self.fields, line.rstrip())
        if found is None:
            raise PointFailed(f"{self.source}: line not understood: {line.strip()!r}")
        return found.groupdict()

    def each(self, text: str) -> Iterator[dict[str, str | None]]:
        return (found for line in text.splitlines() if (found := self.read(line)) is not None)

    def one(self, text: str) -> dict[str, str | None]:
        """Fields of the first such line.

        Raises:
            PointFailed: there is none.
        """
        for found in self.each(text):
            return found
        raise PointFailed(f"{self.source}: no line that begins with {self.begin.strip()!r}")
