# SPDX-License-Identifier: Apache-2.0
"""Settings of the machine as somebody else's knobs have them: one file each, which a test can spoil."""

import os
from pathlib import Path
from typing import Any, ClassVar

from xdplab.knobs import Knob, KnobContext
from xdplab.model.design import Scalar

#: Name of a knob -> what putting it back, or setting it, raises.
stuck: dict[str, Exception] = {}
refused: dict[str, Exception] = {}


class Dial(Knob):
    """The file of its name in the folder `LAB_DIALS`."""

    scope: ClassVar = "system"

    @classmethod
    def file(cls) -> Path:
        return Path(os.environ["LAB_DIALS"], cls.name)

    def read(self, context: KnobContext) -> str:
        return self.file().read_text(encoding="utf-8")

    def apply(self, context: KnobContext, value: Scalar) -> None:
        if self.name in refused:
            raise refused[self.name]
        self.file().write_text(str(value), encoding="utf-8")

    def verify(self, context: KnobContext, value: Scalar) -> None:
        assert self.read(context) == str(value)

    def restore(self, context: KnobContext, saved: Any) -> None:
        if self.name in stuck:
            raise stuck[self.name]
        self.file().write_text(saved, encoding="utf-8")


DialOne = Dial.called("dial_one")
DialTwo = Dial.called("dial_two")
