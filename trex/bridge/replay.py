# SPDX-License-Identifier: Apache-2.0
"""A client that writes down what a real one was asked and answered, and one that answers from such a record."""

import json
from collections.abc import Callable
from typing import Any

from client import BridgeError


class Recorder:
    """Passes each call on to a real client and appends it to a file, one JSON object a line."""

    def __init__(self, client: Any, path: str) -> None:
        self._client = client
        self._path = path

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._client, name)

        def call(*args: Any) -> Any:
            entry: dict[str, Any] = {"call": name, "args": [each for each in args if not callable(each)]}
            try:
                entry["result"] = function(*args)
                return entry["result"]
            except BridgeError as exc:
                entry["error"] = {"kind": exc.kind, "text": str(exc)}
                raise
            finally:
                with open(self._path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")

        return call


class Replay:
    """Answers each call with what the record holds next, and complains when another call comes than was recorded."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            self._entries = [entry for line in file if "call" in (entry := json.loads(line))]
        self._path = path

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            given = [each for each in args if not callable(each)]
            entry: dict[str, Any] = self._entries.pop(0) if self._entries else {"call": "nothing more", "args": []}
            if entry["call"] != name or json.loads(json.dumps(given)) != entry["args"]:
                raise BridgeError(
                    "replay", f"{self._path}: {name}{given} was asked, {entry['call']}{entry['args']} is on record"
                )
            if "error" in entry:
                raise BridgeError(entry["error"]["kind"], entry["error"]["text"])
            return entry["result"]

        return call
