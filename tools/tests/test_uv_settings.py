# SPDX-License-Identifier: Apache-2.0
"""ci/uv_settings.py: what pip is configured with, said to uv; or that uv has no like of it."""

from pathlib import Path
from types import ModuleType

import pytest
from lab.command import load_program


@pytest.fixture(scope="module")
def settings() -> ModuleType:
    return load_program(Path(__file__).resolve().parents[2] / "ci" / "uv_settings.py")


def test_an_index_of_ones_own_is_the_one_that_uv_asks(settings: ModuleType) -> None:
    lines = [
        "global.index-url='https://one.example/simple'",
        "install.index-url='https://two.example/simple'",
        "install.trusted-host='a.example\\nb.example'",
        ":env:.find-links='/opt/wheels /opt/more'",
        ":env:.disable-pip-version-check='1'",
        "download.index-url='https://three.example/simple'",
    ]
    found = settings.uv_settings(lines)
    assert found["UV_DEFAULT_INDEX"] == "https://two.example/simple"
    assert found["UV_INSECURE_HOST"] == "a.example b.example"
    assert found["UV_FIND_LINKS"] == "/opt/wheels,/opt/more"


def test_the_environment_comes_last(settings: ModuleType) -> None:
    lines = [":env:.cert='/env.crt'", "global.cert='/global.crt'"]
    assert settings.uv_settings(lines)["SSL_CERT_FILE"] == "/env.crt"


def test_a_setting_that_would_be_lost_is_reported(settings: ModuleType) -> None:
    with pytest.raises(settings.NotInUv, match="only-binary"):
        settings.uv_settings(["global.only-binary=':all:'"])
