# SPDX-License-Identifier: Apache-2.0
"""TRex's client library with a pen behind it, and one that answers from what was written down.

Both stand in for the module `trex.stl.api`, so that all of ours runs in a replay: `client.py` and `profiles/streams.py`
too. A line of a record is one of

    {"constant": NAME, "value": ...}                            a name of the module that is no class
    {"call": NAME, "args": [...], "kwargs": {...}, "result": ...}   or "error": TEXT in the place of the result
    {"rpc": METHOD, "params": {...}, "accepted": true}          what the server got over JSON-RPC, before its call

where objects that the library made are written as they were asked for: {"new": CLASS, "args": [...], "kwargs": {...}}.
"""

import json
import types
from collections.abc import Callable
from typing import Any

from client import BridgeError

#: Of the library's messages to the server, those that a trial is made of; the others are polls and counters.
_OF_A_TRIAL = frozenset({"acquire", "set_port_attr", "add_stream", "start_traffic", "remove_all_streams"})
#: Names under which an object holds another one that is asked things.
_HELD, _HANDED_OUT = "conn", "get_port"
#: Asked again and again, one after the other, while traffic runs and the answers are yes: on record once.
_POLLS = ("is_traffic_active", "is_connected")


class Made:
    """An object of the library, and how it was asked for."""

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], real: Any = None) -> None:
        self.asked = {"new": name, "args": plain(args), "kwargs": plain(kwargs)}
        self.real = real


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes as text, an object as it was asked for, a number as key with a # in front."""
    if isinstance(value, Made):
        return value.asked
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {f"#{key}" if isinstance(key, int) else str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(each) for each in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else None


def restored(value: Any) -> Any:
    """What `plain` has written, with its numbers as keys."""
    if isinstance(value, dict):
        return {int(key[1:]) if key.startswith("#") else key: restored(each) for key, each in value.items()}
    return [restored(each) for each in value] if isinstance(value, list) else value


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Made):
        return value.real
    return [_unwrapped(each) for each in value] if isinstance(value, (list, tuple)) else value


def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*_unwrapped(args), **{key: _unwrapped(each) for key, each in kwargs.items()})


class Recorder(types.ModuleType):
    """The module `trex.stl.api` as it is; appends to a file, one JSON object a line."""

    def __init__(self, real: Any, rpc_client: Any, path: str) -> None:
        super().__init__("trex.stl.api")
        self._real, self._path, self._polled = real, path, False
        self.TRexError = real.TRexError
        self._tap(rpc_client)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system looks for
            raise AttributeError(name)
        found = getattr(self._real, name)
        if not callable(found):
            self._write({"constant": name, "value": found})
            return found
        if name == "STLClient":
            return lambda **kwargs: _Asked(self, self._client(found, kwargs), "")
        return lambda *args, **kwargs: Made(name, args, kwargs, _called(found, args, kwargs))

    def _client(self, made: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        self._write({"call": "STLClient", "args": [], "kwargs": plain(kwargs), "result": None})
        return made(**kwargs)

    def _tap(self, rpc_client: Any) -> None:
        """Write down what the server gets, whatever of the library sends it."""
        name = f"_{rpc_client.__name__}__send_msg"
        send = getattr(rpc_client, name)

        def tapped(this: Any, message: str, retry: int = 0) -> Any:
            answer = send(this, message, retry)
            found = json.loads(message)
            for each in found if isinstance(found, list) else [found]:
                if each["method"] in _OF_A_TRIAL:
                    params = {key: value for key, value in each["params"].items() if key not in ("api_h", "handler")}
                    self._write({"rpc": each["method"], "params": params, "accepted": bool(answer)})
            return answer

        setattr(rpc_client, name, tapped)

    def answered(self, name: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Call, and write down what came of it."""
        entry: dict[str, Any] = {"call": name, "args": plain(args), "kwargs": plain(kwargs)}
        try:
            result = _called(function, args, kwargs)
        except self.TRexError as exc:
            self._write({**entry, "error": str(exc)})
            raise
        entry["result"] = plain(result)
        again = name in _POLLS and bool(result)
        if not (again and self._polled):
            self._write(entry)
        self._polled = again and (self._polled or name == _POLLS[1])
        return result

    def _write(self, entry: dict[str, Any]) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


class Replay(types.ModuleType):
    """Answers each call with what the record holds next, and complains when another call comes than was recorded."""

    class TRexError(Exception):
        """What the library raises."""

    def __init__(self, path: str) -> None:
        super().__init__("trex.stl.api")
        with open(path, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        self._constants = {each["constant"]: each["value"] for each in entries if "constant" in each}
        self._entries = [each for each in entries if "call" in each]
        self._path = path
        self._yes: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._constants:
            return self._constants[name]
        if name == "STLClient":
            return lambda **kwargs: _Asked(self, self.answered(name, None, (), kwargs), "")
        return lambda *args, **kwargs: Made(name, args, kwargs)

    def answered(self, name: str, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What is on record.

        Raises:
            BridgeError: another call is.
        """
        asked = {"call": name, "args": plain(args), "kwargs": plain(kwargs)}
        entry = self._entries[0] if self._entries else {"call": "nothing more", "args": [], "kwargs": {}}
        if name in _POLLS and name != entry["call"] and name in self._yes:
            return self._yes[name]  # on record once, and asked until something else was
        del self._entries[:1]
        if json.loads(json.dumps(asked)) != {key: entry[key] for key in asked}:
            raise BridgeError("replay", f"{self._path}: {_text(asked)} was asked, {_text(entry)} is on record")
        if "error" in entry:
            raise self.TRexError(entry["error"])
        result = restored(entry["result"])
        self._yes = {**self._yes, name: result} if name in _POLLS and result else {}
        return result


class Clock:
    """In the place of the module `time`: nothing is waited for, and time has passed all the same."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        """Seconds slept so far."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """At once."""
        self._now_s += seconds


class _Asked:
    """An object that is asked things: the client, a port, a connection."""

    def __init__(self, module: Any, real: Any, prefix: str) -> None:
        self._module, self._real, self._prefix = module, real, prefix

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name, None)
        if name == _HELD:
            return _Asked(self._module, found, f"{self._prefix}{name}.")
        if name == _HANDED_OUT:
            return lambda number: _Asked(self._module, found and found(number), f"{self._prefix}{name}({number}).")
        return lambda *args, **kwargs: self._module.answered(self._prefix + name, found, args, kwargs)


def _text(call: dict[str, Any]) -> str:
    words = [json.dumps(each) for each in call["args"]]
    words += [f"{key}={json.dumps(value)}" for key, value in call["kwargs"].items()]
    return f"{call['call']}({', '.join(words)})"
