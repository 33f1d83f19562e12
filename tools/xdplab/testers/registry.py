# SPDX-License-Identifier: Apache-2.0
"""Finding testers by name."""

from xdplab.model import ForwarderSpec, InputError, plugins, validated
from xdplab.testers.base import Tester

GROUP = "xdplab.testers"


def make_tester(text: str) -> Tester:
    """The tester of `name[:option=value,...]`.

    Raises:
        InputError: no such tester, or an option it has not.
    """
    try:
        asked = ForwarderSpec.parse(text)
    except ValueError as exc:
        raise InputError(f"tester: {str(exc).replace('forwarder', 'tester')}") from None
    name, options = asked["name"], asked["options"]
    found = plugins.find(GROUP, "tester", name)
    model = found.options_model
    if model is None:
        if options:
            raise InputError(f"tester {name!r}: takes no options, {next(iter(options))!r} is given")
        tester = found()
    else:
        tester = found(validated(model, options, f"tester {name}"))
    assert isinstance(tester, Tester)
    return tester
