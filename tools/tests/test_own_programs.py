# SPDX-License-Identifier: Apache-2.0
"""What a study says of a user's own XDP program, and of a program that is started."""

import pytest
from lab import studies

from xdplab import app
from xdplab.forwarders import make_forwarder
from xdplab.forwarders.command import CommandOptions
from xdplab.forwarders.kernel.xdp import XdpOptions
from xdplab.model import ForwarderSpec, InputError


def spec(given: object) -> ForwarderSpec:
    return ForwarderSpec.model_validate(given)


@pytest.mark.parametrize(
    ("text", "path", "section"),
    [("xdp:object=a.o", "a.o", ""), ("xdp:object=/opt/a.o:fast", "/opt/a.o", "fast")],
)
def test_an_object_may_name_its_program(text: str, path: str, section: str) -> None:
    options = make_forwarder(spec(text)).options
    assert isinstance(options, XdpOptions)
    assert (options.object, options.section, options.mode) == (path, section, "native")


def test_a_section_needs_its_file() -> None:
    with pytest.raises(InputError, match="section: it is one of object=FILE"):
        make_forwarder(spec("xdp:section=fast"))


def test_arguments_are_a_list_and_stay_one() -> None:
    argv = ["/opt/app", "--port", "{port_a}", "two words", "it's"]
    made = make_forwarder(spec({"name": "command", "options": {"argv": argv, "ready_s": 3}}))
    assert isinstance(made.options, CommandOptions)
    assert list(made.options.argv) == argv
    assert (made.silent_s, made.redirects) == (3.0, False)
    by_text = make_forwarder(spec("command:argv=/opt/app --port {port_a} 'two words',redirects=true"))
    assert isinstance(by_text.options, CommandOptions)
    assert list(by_text.options.argv) == argv[:4]
    assert by_text.redirects


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["app", "{port_c}"], r"\{port_c\}: there is only \{port_a\}, \{port_b\}, \{mac_a\}, "),
        (["{folder}/app"], "its first word is the program"),
        ([], "argv"),
    ],
)
def test_what_a_command_cannot_be(argv: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_forwarder(spec({"name": "command", "options": {"argv": argv}}))


@pytest.mark.parametrize(
    ("forwarder", "program"),
    [
        ("xdp:object=/opt/a.o:fast", "/opt/a.o"),
        ({"name": "command", "options": {"argv": ["/opt/app", "{port_a}"]}}, "/opt/app"),
        ("command:argv=python3 -c pass", "python3"),
    ],
)
def test_it_is_started_only_if_the_command_line_allows_it(forwarder: object, program: str) -> None:
    study = studies.study(testbed="embedded", tester="xdpgen", forwarders=[forwarder])
    with pytest.raises(InputError, match=f"`--allow-program {program}`"):
        app.prepare(study)
    assert app.prepare(study, [program]).plan.points
