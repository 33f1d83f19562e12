# SPDX-License-Identifier: Apache-2.0
"""pip's settings as uv's: prints lines NAME=VALUE for uv's environment, as `ci/setup` needs them.

uv does not read what pip is configured with: indexes, folders with wheels, certificates. Standard library only: this
runs before anything is installed.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterable

#: pip's setting -> uv's variable.
_SAME = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "keyring-provider": "UV_KEYRING_PROVIDER",
    "no-index": "UV_NO_INDEX",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
#: pip's settings that do not change what is installed, nor from where.
_OF_PIP_ONLY = {
    *("break-system-packages", "cache-dir", "disable-pip-version-check", "no-cache-dir", "no-color", "no-input"),
    *("no-python-version-warning", "progress-bar", "quiet", "require-virtualenv", "retries", "root-user-action"),
    *("use-feature", "verbose"),
}
#: Sections of pip's configuration that `pip install` reads, the last of which wins.
_SECTIONS = ("global", "install", ":env:")


class NotInUv(Exception):
    """A setting of pip that has no like in uv."""


def uv_settings(lines: Iterable[str]) -> dict[str, str]:
    """Variables of uv from the lines of `pip config list`, such as `global.index-url='https://...'`.

    Raises:
        NotInUv: one of the settings would be lost.
    """
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in lines:
        section, _, rest = line.partition(".")
        key, _, value = rest.partition("=")
        if section in found:
            found[section][key] = str(ast.literal_eval(value))
    settings = {key: value for section in _SECTIONS for key, value in found[section].items()}
    if lost := sorted(settings.keys() - _SAME.keys() - _OF_PIP_ONLY):
        raise NotInUv(f"pip is configured with {', '.join(lost)}, which uv has not")
    # pip looks into all indexes for the best version, and Debian's pip trusts what the system trusts
    given = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "true"}
    for key in sorted(settings.keys() & _SAME.keys()):
        words = settings[key].split()
        given[_SAME[key]] = ("," if key == "find-links" else " ").join(words)
    return given


def main() -> int:
    """Prints the settings; those that uv's own variables give already stay as they are."""
    argv = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    try:
        given = uv_settings(lines)
    except NotInUv as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for name, value in given.items():
        if not (name.startswith("UV_") and name in os.environ):
            sys.stdout.write(f"{name}={value}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
