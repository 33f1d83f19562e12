#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's picture and its table, of a stored run of the main job.

    picture.py keep RUN     stores a run folder, reduced and without the machine's names, as tools/tests/data/main-job
    picture.py draw         draws its report and writes the top of it as docs/report.png
    picture.py table        prints what README.md has of it

`draw` needs a headless Chromium (`WITH_BROWSER=1 ci/setup`). The picture carries the words that it shows, so that a
test sees without a browser whether it is of the stored run. Without three forwarders, and without what the first page
does not need, the run is half a megabyte.
"""

import base64
import json
import lzma
import re
import socket
import struct
import sys
import tempfile
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.browser import browser
from xdplab.analysis import answer, summarise
from xdplab.analysis.run import Run
from xdplab.cli.tables import markdown_table
from xdplab.measure import make_method
from xdplab.model import RunRecord, TrialRecord
from xdplab.report import write_report
from xdplab.results import find_run

ROOT = Path(__file__).resolve().parents[3]
STORED = ROOT / "tools" / "tests" / "data" / "main-job"
PICTURE = ROOT / "docs" / "report.png"
WIDTH, HEIGHT = 1300, 900
#: Left out, for the size of the file alone.
_LEFT_OUT = {"linux-bridge", "ovs-dpdk:port=af_packet", "ovs-kernel"}
_KEYWORD = b"Description"


def keep(name: str) -> None:
    """A run folder; its machine is called `machine`."""
    folder = find_run(name, Path("results"))
    record, trials = folder.load(), folder.trials()
    left = {key: point for key, point in record.points.items() if point.forwarder.title not in _LEFT_OUT}
    study = record.study.model_copy(
        update={"forwarders": tuple(each for each in record.study.forwarders if each.title not in _LEFT_OUT)}
    )
    head = json.loads(record.model_copy(update={"points": left, "study": study}).model_dump_json(by_alias=True))
    lines = [_reduced(trial) for trial in trials if trial.point_id in left]
    STORED.mkdir(exist_ok=True)
    (STORED / "run.json").write_text(_unnamed(json.dumps(head, indent=1)) + "\n", encoding="utf-8")
    journal = "".join(f"{TrialRecord.model_validate(line).model_dump_json(exclude_defaults=True)}\n" for line in lines)
    (STORED / "trials.jsonl.xz").write_bytes(lzma.compress(_unnamed(journal).encode(), preset=9))


def _unnamed(text: str) -> str:
    """Without what tells which machine it was: host name, boot, MAC addresses, folders of the user."""
    text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "machine", text)
    text = re.sub(
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "00000000-0000-4000-8000-000000000001", text
    )
    text = re.sub(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", "02:00:00:00:00:00", text)
    return re.sub(r"/(?:home/[^/\"]+|root|work)/", "/somewhere/", text)


def _reduced(trial: TrialRecord) -> dict[str, object]:
    update = {
        "counters": {},
        "increments": {},
        "mode": {key: value for key, value in trial.mode.items() if key != "ovs"},
    }
    if trial.result is not None:
        streams = tuple(each.model_copy(update={"lateness": None}) for each in trial.result.streams)
        update["result"] = trial.result.model_copy(update={"detail": {}, "streams": streams})  # type: ignore[assignment]
    return dict(json.loads(trial.model_copy(update=update).model_dump_json()))


def stored() -> tuple[RunRecord, list[TrialRecord]]:
    record = RunRecord.model_validate_json((STORED / "run.json").read_text(encoding="utf-8"))
    journal = lzma.decompress((STORED / "trials.jsonl.xz").read_bytes()).decode()
    return record, [TrialRecord.model_validate_json(line) for line in journal.splitlines()]


def words() -> str:
    """What `xdplab show --markdown` says of it: the answer and the table."""
    record, trials = stored()
    summaries = summarise(record, trials)
    found = answer(record, summaries, trials)
    return f"{found.text()}\n\n{markdown_table(make_method(record.study.method), summaries, found)}"


def draw() -> None:
    """The top of the report, with the words in a chunk of their own (PNG, iTXt)."""
    record, trials = stored()
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        report = Path(folder) / "report.html"
        write_report(Run(report.parent, record, trials), report)
        page.open(report, WIDTH)
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
        PICTURE.write_bytes(base64.b64decode(page.ask("Page.captureScreenshot", clip=clip)["data"]))
    data = PICTURE.read_bytes()
    chunk = b"iTXt" + _KEYWORD + b"\0\0\0\0\0" + words().encode()
    end = data.index(b"IEND") - 4
    framed = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    PICTURE.write_bytes(data[:end] + framed + data[end:])


def words_of_picture() -> str:
    """Those that `draw` put into it; empty where it has none."""
    data, at = PICTURE.read_bytes(), 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"iTXt":
            return data[at + 8 : at + 8 + length].partition(b"\0\0\0\0\0")[2].decode()
        at += length + 12
    return ""


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keep", run]:
            keep(run)
        case ["draw"]:
            draw()
        case ["table"]:
            print(words())
        case _:
            sys.exit(__doc__)
