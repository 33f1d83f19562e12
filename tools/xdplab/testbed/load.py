# SPDX-License-Identifier: Apache-2.0
"""Reading testbed files."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from xdplab.model import InputError, TestbedSpec, validated
from xdplab.model.base import YAML_BYTES, read_text
from xdplab.model.errors import meant
from xdplab.testbed.base import Testbed
from xdplab.testbed.embedded import EmbeddedTestbed
from xdplab.testbed.fake import FakeTestbed
from xdplab.testbed.real import HostsTestbed


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: the first value would be lost silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} given twice", key_node.start_mark)
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep)


def load_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping from a file.

    Raises:
        InputError: unreadable, not YAML, or not a mapping; names the line.
    """
    try:
        text = read_text(path, YAML_BYTES)
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8 text"
        raise InputError(f"{path}: {reason}") from None
    try:
        data = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except (ValueError, RecursionError) as exc:  # of PyYAML itself: a date that does not exist, nesting without end
        raise InputError(f"{path}: not valid YAML: {exc}") from None
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InputError(f"{where}: not valid YAML: {getattr(exc, 'problem', None) or 'cannot be read'}") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: a mapping of keys to values is expected")
    return data


def read_testbed(name_or_path: str, folder: Path) -> TestbedSpec:
    """The testbed file of that path, or `folder/NAME.yaml`."""
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = folder / f"{name_or_path}.yaml"
        if not path.is_file():
            known = sorted(p.stem for p in folder.glob("*.yaml"))
            there = ", ".join(known) or "none"
            raise InputError(
                f"testbed {name_or_path!r}: no such file {path}{meant(name_or_path, known)} (there are: {there})"
            )
    spec = validated(TestbedSpec, load_yaml(path), str(path))
    spec._file = str(path.resolve())
    return spec


def open_testbed(spec: TestbedSpec, *, one_tester_host: bool = False, pods: int = 0) -> Testbed:
    """The testbed object for a file; nothing is built before `up()`.

    `one_tester_host`: a tester needs both its ports on one host, which a testbed that builds its hosts can give it.
    `pods`: containers next to the forwarder, which only such a testbed has.
    """
    if spec.kind == "hosts":
        return HostsTestbed(spec)
    return EmbeddedTestbed(spec, one_tester_host, pods) if spec.kind == "embedded" else FakeTestbed(spec)
