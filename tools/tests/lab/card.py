# SPDX-License-Identifier: Apache-2.0
"""A machine with a card that this machine has not got: files, and an ethtool that prints as the real one does.

Layout of the outputs: `-c`, `-g`, `-k`, `-l` as recorded from virtio_net with ethtool 6.1 (data/ethtool), `-n` as
reported for i40e (github.com/ntop/PF_RING/issues/259), `-a`, `-x` and private flags as ethtool 6.1's sources print
them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdplab.hosts.base import Completed
from xdplab.model import XdplabError

RECORDED = Path(__file__).resolve().parents[1] / "data" / "ethtool"


class Recorded:
    """A port whose ethtool printed what has been recorded from the driver `name`; it cannot be set."""

    name = "B"

    def __init__(self, name: str) -> None:
        self._driver = name

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Completed:
        """`ethtool -g PORT` and the like."""
        file = RECORDED / f"{self._driver}{argv[1]}.txt"
        if argv[0] != "ethtool" or not file.exists():
            return Completed(tuple(argv), 1, "", "netlink error: Operation not supported")
        text = file.read_text(encoding="utf-8")
        return Completed(tuple(argv), int("not supported" in text and argv[1] == "-n"), text, "")


class Machine:
    """Files and a card with eight queues. An argv with the word `refuses` fails; while `stuck`, nothing is taken."""

    name = "B"
    reached_by = ""

    def __init__(self, files: Mapping[str, str] | None = None, programs: Sequence[str] = ()) -> None:
        self.files = dict(files or {})
        self.programs = programs
        self.calls: list[list[str]] = []
        self.refuses = ""
        self.stuck = False
        self.coalesce = {"rx-usecs": "50", "tx-usecs": "50", "rx-frames": "n/a", "tx-frames": "256"}
        self.adaptive = {"rx": "on", "tx": "n/a"}
        self.pause = {"autoneg": "on", "rx": "on", "tx": "off"}
        self.ring = {"rx": "512", "tx": "512"}
        self.channels = "8"
        self.features = {
            "gro": "on",
            "lro": "off",
            "tso": "on",
            "rx": "on",
            "tx": "on",
            "rxvlan": "on",
            "ntuple": "off",
        }
        self.flags = {"legacy-rx": "off", "flow-director-atr": "on"}
        self.rules: dict[str, str] = {}
        self.table = [index % 8 for index in range(16)]
        #: Somebody has set it: it stays as it is, and no queue of it can go (ethtool_check_max_channel).
        self.table_is_set = False
        #: The driver fills its table otherwise than the kernel, when its number of queues changes (igb_setup_mrqc).
        self.own_table = False
        self.msr = "600"

    def read(self, path: str) -> str:
        if path not in self.files:
            raise XdplabError(f"B: {path}: No such file or directory")
        return self.files[path]

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in self.files

    def write(self, path: str, text: str) -> None:
        """Write a file that is there."""
        self.read(path)
        self.calls.append(["write", path, text])
        if not self.stuck:
            self.files[path] = text

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Completed:
        self.calls.append(list(argv))
        code, out = self._answer(list(argv))
        done = Completed(tuple(argv), code, out, "" if not code else "netlink error: Invalid argument")
        if check and code:
            raise XdplabError(f"B: {' '.join(argv)}: {done.complaint}")
        return done

    def _answer(self, argv: list[str]) -> tuple[int, str]:
        program, *rest = argv
        if self.refuses and self.refuses in argv:
            return 1, ""
        if program == "test":
            return int(rest[1] not in self.files and not any(f.startswith(rest[1] + "/") for f in self.files)), ""
        if program == "cat":
            return (0, self.files[rest[0]]) if rest[0] in self.files else (1, "")
        if program == "ls":
            names = {f.removeprefix(rest[0] + "/").split("/")[0] for f in self.files if f.startswith(rest[0] + "/")}
            return int(not names), "\n".join(sorted(names))
        if program == "which":
            return int(any(each not in self.programs for each in rest)), ""
        if program == "rdmsr":
            return 0, f"{self.msr}\n{self.msr}\n"
        if program == "wrmsr":
            self.msr = self.msr if self.stuck else rest[2].removeprefix("0x")
            return 0, ""
        if program == "ip":  # nobody needs it
            return 0, "[]" if "route" in argv else '[{"ifname": "p0"}]'
        assert program == "ethtool", argv
        return self._ethtool(rest[0], rest[2:])

    def _ethtool(self, flag: str, rest: list[str]) -> tuple[int, str]:
        if flag == "--set-priv-flags" or (flag.isupper() and not flag.startswith("--")):
            return self._set(flag, rest)
        shown = {
            "-i": "driver: i40e\nversion: 6.5.0\n",
            "-a": "Pause parameters for p0:\nAutonegotiate:\t{autoneg}\nRX:\t\t{rx}\nTX:\t\t{tx}\n".format(**self.pause)
            + "RX negotiated: {rx}\nTX negotiated: {tx}\n".format(**self.pause) * (self.pause["autoneg"] == "on"),
            "-c": self._coalesce(),
            "-g": "Ring parameters for p0:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nTX:\t\t4096\n"
            f"Current hardware settings:\nRX:\t\t{self.ring['rx']}\nRX Mini:\tn/a\nTX:\t\t{self.ring['tx']}\n",
            "-l": "Channel parameters for p0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t8\n"
            f"Current hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t{self.channels}\n",
            "-k": self._features(),
            "-n": f"8 RX rings available\nTotal {len(self.rules)} rules\n\n" + "".join(map(self._rule, self.rules)),
            "-x": f"RX flow hash indirection table for p0 with {self.channels} RX ring(s):\n{self._table()}"
            "RSS hash key:\n01:02:03\n",
            "--show-priv-flags": "Private flags for p0:\n" + "".join(f"{k:<18}: {v}\n" for k, v in self.flags.items()),
        }  # fmt: skip
        return 0, shown[flag]

    def _set(self, flag: str, rest: list[str]) -> tuple[int, str]:
        if self.stuck:
            return 0, ""
        if flag == "-L":
            return self._set_channels(rest[1])
        if flag == "-X":
            return self._set_table(rest)
        if flag == "-C":
            target = self.adaptive if rest[0].startswith("adaptive") else self.coalesce
            target[rest[0].removeprefix("adaptive-")] = rest[1]
        elif flag == "-A":
            self.pause |= dict(zip(rest[::2], rest[1::2], strict=True))
        elif flag == "-G":
            self.ring[rest[0]] = rest[1]
        elif flag == "-K":
            self.features[rest[0]] = rest[1]
        elif flag == "--set-priv-flags":
            self.flags[rest[0]] = rest[1]
        elif rest[0] == "delete":
            del self.rules[rest[1]]
        else:
            self.rules[str(7423 - len(self.rules))] = rest[3]
        return 0, ""

    def _set_channels(self, count: str) -> tuple[int, str]:
        if self.table_is_set and int(count) <= max(self.table):
            return 1, ""
        if not self.table_is_set and count != self.channels:
            wide = int(count)
            self.table = [index * wide // 16 if self.own_table else index % wide for index in range(16)]
        self.channels = count
        return 0, ""

    def _set_table(self, how: list[str]) -> tuple[int, str]:
        wide = int(self.channels if how[0] == "default" else how[1])
        if wide > int(self.channels):
            return 1, ""
        self.table, self.table_is_set = [index % wide for index in range(16)], how[0] != "default"
        return 0, ""

    def _coalesce(self) -> str:
        lines = [f"Adaptive RX: {self.adaptive['rx']}  TX: {self.adaptive['tx']}", "stats-block-usecs: n/a", ""]
        lines += [f"{name}: {value}" for name, value in self.coalesce.items()]
        return "Coalesce parameters for p0:\n" + "\n".join(
            [*lines, "rx-usecs-irq: n/a", "CQE mode RX: n/a  TX: n/a", ""]
        )

    def _features(self) -> str:
        names = {"gro": "generic-receive-offload", "lro": "large-receive-offload", "tso": "tcp-segmentation-offload",
                 "rx": "rx-checksumming", "tx": "tx-checksumming", "rxvlan": "rx-vlan-offload",
                 "ntuple": "ntuple-filters"}  # fmt: skip
        lines = [f"{names[short]}: {state}" for short, state in self.features.items()]
        return "\n".join(["Features for p0:", *lines, "\ttx-checksum-ipv4: off [fixed]", "highdma: on [fixed]", ""])

    def _rule(self, rule: str) -> str:
        return f"Filter: {rule}\n\tRule Type: UDP over IPv4\n\tAction: Direct to queue {self.rules[rule]}\n\n"

    def _table(self) -> str:
        rows = [self.table[start : start + 8] for start in range(0, 16, 8)]
        return "".join(f"{8 * i:5d}: " + " ".join(f"{q:5d}" for q in row) + "\n" for i, row in enumerate(rows))
