# SPDX-License-Identifier: Apache-2.0
"""Stable pseudonyms for what says whose machines a run is of: equal stays equal, everywhere in its two files.

Host and user names are those of the record, of this machine, and of home folders and mail addresses in any of its
texts; what has a form of its own (MAC and IP addresses, serial numbers, UUIDs) is found by that. Histograms stay as
they are.
"""

import getpass
import ipaddress
import itertools
import os
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from xdplab.model import InputError, Model, RunRecord, TrialRecord, plugins
from xdplab.results import boot_line
from xdplab.results.folder import first_error

_M = TypeVar("_M", bound=Model)
_HEX = "[0-9A-Fa-f]"
#: Also with the type of its link before it (BOOTIF), in fours of digits, and bare: then like numbers of many things.
_MAC = re.compile(
    rf"(?<!\w)(?<!\b{_HEX}{_HEX}[:-])(?:(enx|0x|){_HEX}{{12}}"
    rf"|(01-)?{_HEX}{{2}}([:-])(?:{_HEX}{{2}}\3){{4}}{_HEX}{{2}}|{_HEX}{{4}}(\.){_HEX}{{4}}\.{_HEX}{{4}})(?![\w:-]|\.\w)"
)
_UUID = re.compile(
    rf"(?<!\w)(?:{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}|{_HEX}{{32}}|(?<=PARTUUID=){_HEX}{{8}}-{_HEX}{{2}})(?!\w)"
)
#: A dotted quad that follows the word version is one.
_IPV4 = re.compile(r"(?<![\w.])(?<!ersion: )(?<!ersion )(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
_IPV6 = re.compile(
    rf"(?<![\w:.]){_HEX}{{0,4}}(?:(?::{_HEX}{{0,4}}){{1,6}}:(?:\d{{1,3}}\.){{3}}\d{{1,3}}|(?::{_HEX}{{0,4}}){{2,7}})(?![\w:])"
)
_SERIAL = re.compile(r"(?i)(?:serial(?:[ _-]?(?:number|no\.?|short))?|\bs/n|\bsn)\s*[:=]\s*([\w./-]{5,})")
#: A device's own number as lspci prints it.
_DEVICE_SERIAL = re.compile(rf"(?<![\w-])((?:{_HEX}{{2}}-){{7}}{_HEX}{{2}})(?![\w-])")
_HOME = re.compile(r"/(?:home|Users)/([A-Za-z0-9_][\w.-]*)")
_MAIL = re.compile(r"(?<![\w.+-])([\w+-][\w.+-]*)@([\w-]+(?:\.[\w-]+)+)")
#: Who built a kernel, as it names them; `timer@3` is nobody.
_BUILDER = re.compile(r"(?<=\()([\w+-][\w.+-]*)@([A-Za-z][\w-]*)(?=\))")
#: Names that no public register gives out, and those that clouds make of an address.
_PRIVATE = re.compile(
    r"(?i)(?<![\w.-])(?:[\w-]+\.)+(?:internal|local|localdomain|lan|corp|intranet|home\.arpa)(?![\w-]|\.\w)"
    r"|(?<![\w.-])ip-(?:\d{1,3}-){3}\d{1,3}(?![\w-])"
)
#: Nobody's: loopback, masks, what RFCs reserve for documents and benchmarks.
_NOBODYS = [
    ipaddress.ip_network(each)
    for each in (
        *("0.0.0.0/8", "127.0.0.0/8", "198.18.0.0/15", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/3", "::/127", "ff00::/8", "2001:db8::/32"),
    )
]
_NOT_NAMES = {"", "root", "localhost", "user"}
#: Names of this machine that are those of many.
_COMMON = {"debian", "ubuntu", "fedora", "linux", "server", "node"}
#: Shorter names are replaced only where they stand alone, and in home folders and mail addresses.
_SHORTEST = 3


class Replaced(NamedTuple):
    """One name that is gone."""

    kind: str
    was: str
    now: str
    times: int


class Redactor:
    """Of one run."""

    def __init__(self, head: Mapping[str, Any], trials: Callable[[], Iterator[dict[str, Any]]]) -> None:
        """`head`: run.json; `trials`: the lines of trials.jsonl, which are read once beforehand."""
        self._found: dict[tuple[str, str], str] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._numbers: dict[str, Iterator[int]] = {}
        self._taken: set[str] = set()
        self._macs: set[str] = set()
        # in small letters -> kind and name: where it stands alone, and anywhere in a text
        self._alone: dict[str, tuple[str, str]] = {}
        self._words: dict[str, tuple[str, str]] = {}
        for name in _hosts_of(head):
            self._name_host(name)
        for user in _users_of(head):
            self._name(user, ("user", user))
        for part in itertools.chain([head], trials()):
            for text in _texts(part):
                self._collect(text)
        inside = "|".join(map(re.escape, sorted(self._words, key=len, reverse=True)))
        self._any = re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{inside})(?![A-Za-z0-9])") if inside else None

    @property
    def replaced(self) -> list[Replaced]:
        """In the order in which they were met."""
        return [Replaced(*key, now, self._counts[key]) for key, now in self._found.items()]

    def record(self, head: Mapping[str, Any]) -> RunRecord:
        """run.json without them.

        Raises:
            InputError: a name is also a word of the format, and what is left is no record.
        """
        return _checked(RunRecord, self._replace_name_fields(self._walk(head)))

    def trial(self, line: Mapping[str, Any]) -> TrialRecord:
        """A line of trials.jsonl without them; raises as `record`."""
        return _checked(TrialRecord, self._walk(line))

    def text(self, text: str, key: str = "") -> str:
        """A text without them; `key`: under which it stands."""
        for option, now in boot_line.withheld(text) if key == "cmdline" else ():
            self._found["boot option", option] = now
            self._counts["boot option", option] += 1
            text = re.sub(rf"(?<!\S){re.escape(option)}(?!\S)", now, text)
        text = _UUID.sub(lambda found: self._pseudonym("UUID", found.group().lower()), text)
        text = _HOME.sub(lambda found: found.group().removesuffix(found.group(1)) + self._field(found.group(1)), text)
        for form in (_MAIL, _BUILDER):
            text = form.sub(lambda found: "@".join(map(self._field, found.groups())), text)
        if self._any:
            text = self._any.sub(lambda found: self._pseudonym(*self._words[found.group().lower()]), text)
        text = _MAC.sub(self._mac, text)
        text = _IPV6.sub(lambda found: self._address("IPv6", found.group()), text)  # one may end in an IPv4 address
        return text if key == "versions" else _IPV4.sub(lambda found: self._address("IPv4", found.group()), text)

    def _collect(self, text: str) -> None:
        self._taken |= {each.group() for each in _IPV4.finditer(text)}
        for found in _HOME.finditer(text):
            self._name(found.group(1), ("user", found.group(1)))
        self._macs |= {_digits(each) for each in _MAC.finditer(text) if each.group(1) != ""}
        for found in _PRIVATE.finditer(text):
            self._name_host(found.group())
        for found in itertools.chain(_MAIL.finditer(text), _BUILDER.finditer(text)):
            self._name(found.group(1), ("user", found.group(1)))
            self._name(found.group(2), ("host", found.group(2)))
        for found in itertools.chain(_SERIAL.finditer(text), _DEVICE_SERIAL.finditer(text)):
            if any(each.isdigit() for each in found.group(1)):
                self._name(found.group(1), ("serial", found.group(1)))

    def _name_host(self, name: str) -> None:
        """A name with its domain and its first label alone are the same machine."""
        try:
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            names = (name, name.partition(".")[0])
            known = next((self._alone[each.lower()] for each in names if each.lower() in self._alone), ("host", name))
            for each in names:
                self._name(each, known)

    def _name(self, word: str, known: tuple[str, str]) -> None:
        word = word.lower()
        if word not in _NOT_NAMES:
            self._alone.setdefault(word, known)
            if len(word) >= _SHORTEST and word not in _vocabulary():
                self._words.setdefault(word, self._alone[word])

    def _pseudonym(self, kind: str, was: str) -> str:
        self._counts[kind, was] += 1
        if (kind, was) not in self._found:
            self._found[kind, was] = self._next(kind)
        return self._found[kind, was]

    def _next(self, kind: str) -> str:
        number = next(self._numbers.setdefault(kind, itertools.count(1)))
        match kind:
            case "MAC":
                return "02:00:" + ":".join(f"{byte:02x}" for byte in number.to_bytes(4, "big"))
            case "UUID":
                return f"00000000-0000-4000-8000-{number:012x}"
            case "IPv6":
                return f"2001:db8::{number:x}"
            case "IPv4":  # where the first network of its kind is full, the next has room for 131,072
                now = str(ipaddress.ip_address("192.0.2.0" if number < 255 else "198.18.0.0") + number)
                return self._next(kind) if now in self._taken else now
        return f"{kind}-{number}"

    def _walk(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {
                name if name in _vocabulary() else self.text(name): self._walk(each, key if key == "versions" else name)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._walk(each, key) for each in value]
        return self.text(value, key) if isinstance(value, str) and key != "hdr" else value

    def _replace_name_fields(self, head: dict[str, Any]) -> dict[str, Any]:
        """Where the name of a host or user is a field of its own it is replaced whatever it is."""
        testbed, environment = head["testbed"], head["environment"]
        for part in (testbed, environment):
            part["hosts"] = {self._field(name): each for name, each in part.get("hosts", {}).items()}
            for port in part.get("ports", {}).values() if testbed["hosts"] else ():
                port["host"] = self._field(port["host"])
        for host in testbed["hosts"].values():
            for reached in filter(None, (host, host.get("jump"))):
                reached |= {key: self._field(reached[key]) for key in ("address", "user") if reached.get(key)}
        return head

    def _field(self, name: str) -> str:
        known = self._alone.get(name.lower())
        return self._pseudonym(*known) if known else name

    def _mac(self, found: re.Match[str]) -> str:
        digits = _digits(found)
        if int(digits[1], 16) & 1 or not int(digits, 16):  # multicast and broadcast, and none at all
            return found.group()
        if found.group(1) == "" and digits not in self._macs:
            return found.group()
        now = self._pseudonym("MAC", ":".join(re.findall("..", digits)))
        bare, linked, between, _ = found.groups()
        if between:
            return (linked or "") + now.replace(":", between)
        now = now.replace(":", "")
        return now[:4] + "." + now[4:8] + "." + now[8:] if bare is None else bare + now

    def _address(self, kind: str, text: str) -> str:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        mapped = getattr(address, "ipv4_mapped", None)
        if mapped:
            return f"::ffff:{self._address('IPv4', str(mapped))}"
        return text if any(address in network for network in _NOBODYS) else self._pseudonym(kind, str(address))


def _digits(mac: re.Match[str]) -> str:
    """Its own twelve."""
    return re.sub("[^0-9a-f]", "", mac.group().lower().removeprefix("enx").removeprefix("0x"))[-12:]


def _checked(model: type[_M], data: Any) -> _M:
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        raise InputError(f"--redact: what is left is no record: {first_error(exc)}") from None


def _texts(value: Any, key: str = "") -> Iterator[str]:
    """Keys and texts; a serial number that stands under such a key is recognised by it."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from _texts(inner, str(name))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, key)
    elif isinstance(value, str) and key != "hdr":
        yield f"serial: {value}" if "serial" in key.lower() and " " not in value else value


def _hosts_of(head: Mapping[str, Any]) -> Iterator[str]:
    """Names and addresses of the testbed's machines, and the name of this one."""
    for name, host in head["testbed"].get("hosts", {}).items():
        yield from (host["address"], name)
        yield from (reached["address"] for reached in (host.get("jump"),) if reached)
    environments = [head["environment"], *head["environment"].get("hosts", {}).values()]
    yield from head["environment"].get("hosts", {})
    yield from (name for each in environments for name in boot_line.hosts(each.get("cmdline", "")))
    if socket.gethostname().lower() not in _COMMON:
        yield socket.gethostname()


def _users_of(head: Mapping[str, Any]) -> Iterator[str]:
    for host in head["testbed"].get("hosts", {}).values():
        yield from (reached["user"] for reached in (host, host.get("jump") or {}) if reached.get("user"))
    yield from (getpass.getuser(), os.environ.get("SUDO_USER", ""))


@cache
def _vocabulary() -> frozenset[str]:
    """Keys and fixed values of the format, and names of parts."""
    found: set[Any] = set()

    def add(schema: Any) -> None:
        if isinstance(schema, Mapping):
            found.update(schema.get("properties", {}), schema.get("enum", ()), [schema.get("const")])
            schema = [*schema.values()]
        for inner in schema if isinstance(schema, list) else ():
            add(inner)

    for model in (RunRecord, TrialRecord):
        add(model.model_json_schema())
    for kind in ("forwarders", "testers", "methods", "knobs"):
        found.update(plugins.names(f"xdplab.{kind}"))
    return frozenset(each for each in found if isinstance(each, str))
