# SPDX-License-Identifier: Apache-2.0
"""A testbed of a pool: pabot hands each of its processes one that no other process has.

The pool is pabot's resource file: a section for each testbed, with `TESTBED=` its name or file, and `TAGS=` what it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from robot.libraries.BuiltIn import BuiltIn, RobotNotRunningError

from xdplab.model import InputError
from xdplab.model.extras import need

POOL = "pool"


@contextmanager
def borrowed(testbed: str) -> Iterator[str]:
    """The testbed to use for `testbed`, which may be `pool`, or `pool:TAG` for one that has the tag (`pool:ice,zc`).

    Waits until one is free, and gives it back when the block ends.

    Raises:
        InputError: there is no pool, nothing in it fits, or pabot is not installed.
    """
    name, _, tags = testbed.partition(":")
    if name != POOL:
        yield testbed
        return
    need("lab", f"testbed {testbed}")
    from pabot.pabotlib import PabotLib

    nobody = "start the suites with `make pool POOL=FILE` (docs/hosts.md)"
    if not BuiltIn().get_variable_value("${PABOTLIBURI}"):
        raise InputError(f"testbed pool: {nobody}")
    pool = PabotLib()
    pool.set_polling_logging(False)  # it would log ten lines a second while it waits for hours
    try:
        entry = pool.acquire_value_set(*filter(None, tags.split(",")))
    except (AssertionError, RuntimeError, ValueError) as exc:  # RuntimeError: any of them, from the other process
        why = nobody if "Connection" in str(exc) else str(exc)  # pabot gives an address also without --pabotlib
        raise InputError(f"testbed {testbed}: {why}") from None
    try:
        try:
            found = str(pool.get_value_from_set("TESTBED"))
        except AssertionError:
            raise InputError(f"testbed {testbed}: the pool's entry [{entry}] has no line TESTBED=...") from None
        yield found
    finally:
        pool.release_value_set()


def log_folder() -> Path | None:
    """Where the log of this run of Robot will be; None where Robot does not run.

    Each process of pabot has a folder below `pabot_results`, and their logs are merged into one above that.
    """
    try:
        folder = Path(str(BuiltIn().get_variable_value("${OUTPUT DIR}")))
    except RobotNotRunningError:
        return None
    return next((each.parent for each in (folder, *folder.parents) if each.name == "pabot_results"), folder)
