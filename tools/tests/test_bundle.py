# SPDX-License-Identifier: Apache-2.0
"""Bundles: what goes out says no name that it should not, what comes in is what was sent or is refused in one line."""

import gzip
import hashlib
import io
import json
import resource
import shutil
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.command import Done
from lab.records import environment, point, run_record, trial

from xdplab.model import InputError, RunRecord, TestbedSpec
from xdplab.results import RunFolder
from xdplab.results.bundle import LIMITS, import_bundle
from xdplab.results.redact import Redactor

STORED = Path(__file__).parent / "data" / "stored-run"
RUN_ID = "stored-20261122-051152"
#: What must not go out, in the forms in which a run may hold it.
SECRETS = (
    *("anna.lab.example", "anna", "bert", "b-gate.example", "s3cret", "jdoe", "carla", "10.20.30.40", "2a01:4f8::17"),
    *("b4:96:91:aa:bb:cc", "b4-96-91-aa-bb-cc", "b49691aabbcc", "K91234567", "b4-96-91-ff-ff-aa-bb-cc"),
    *("6f1c0f9e-0000-4b1f-9d7e-1234567890ab", "10.20.30.41"),
    *("labhost7", "hunter2", "b496.91aa.bbcc", "b49691aabbcd", "1234abcd-02", "S3Z8NB0K", "10.20.30.42", "ec2"),
    *("9f86d081884c7d659a2feaa0c55ad015", "carol", "devbox", "ip-10-0-12-5"),
    *("/home/al/", "al@corp.example", "corp.example"),
)


def members(path: Path) -> dict[str, bytes]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            return {name: packed.read(name) for name in packed.namelist()}
    with tarfile.open(path) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]


def tar(path: Path, *entries: tuple[str | tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for named, data in entries:
            member = named if isinstance(named, tarfile.TarInfo) else tarfile.TarInfo(named)
            if not isinstance(named, tarfile.TarInfo):
                member.size = len(data)
            if member.isreg() and member.size and not data:  # a lie, which tarfile 3.13 refuses
                assert archive.fileobj is not None
                archive.fileobj.write(member.tobuf())
            else:
                archive.addfile(member, io.BytesIO(data) if data else None)
    return path


@pytest.fixture
def stored(results: Path) -> RunFolder:
    shutil.copytree(STORED, results / "own")
    return RunFolder(results / "own")


@pytest.fixture
def good(stored: RunFolder, tmp_path: Path, cli: Callable[..., Done]) -> dict[str, bytes]:
    """The members of a bundle, with names that end as they do."""
    assert cli("bundle", "own", "-o", tmp_path / "good.tar.gz").code == 0
    return members(tmp_path / "good.tar.gz")


@pytest.mark.parametrize("ending", [".tar.gz", ".zip"])
@pytest.mark.parametrize("redact", [False, True], ids=["as it is", "redacted"])
@pytest.mark.usefixtures("stored")
def test_a_run_is_the_same_elsewhere(
    ending: str, redact: bool, cli: Callable[..., Done], tmp_path: Path, results: Path
) -> None:
    (results / "own" / "report.html").write_text("<script>of another machine</script>", encoding="utf-8")
    bundle = tmp_path / f"run{ending}"
    assert cli("bundle", "own", "-o", bundle, *(["--redact"] if redact else [])).code == 0
    found = members(bundle)
    assert list(found) == [f"{RUN_ID}/{name}" for name in LIMITS]
    manifest = json.loads(found.pop(f"{RUN_ID}/manifest.json"))
    assert manifest["redacted"] is redact
    assert {f"{RUN_ID}/{name}": each["sha256"] for name, each in manifest["files"].items()} == {
        name: hashlib.sha256(data).hexdigest() for name, data in found.items()
    }
    done = cli("import", bundle)
    assert (done.code, done.out) == (0, f"run {results / RUN_ID}\n")
    assert sorted(path.name for path in results.iterdir()) == ["own", RUN_ID]
    assert (results / RUN_ID).stat().st_mode & 0o777 == 0o700
    html = RunFolder(results / RUN_ID).report.read_text(encoding="utf-8")
    assert "of another machine" not in html
    assert "OVS on AF_XDP" in html
    assert cli("show", RUN_ID, "--json").json() == cli("show", "own", "--json").json()
    (compared,) = cli("compare", "own", RUN_ID, "--json").json()["comparisons"]
    assert [each["p50_us"]["interval"]["ratio"] for each in compared["points"]] == [1, 1, 1]
    assert set(compared["environment"]) == ({"cmdline"} if redact else set())
    cli("import", bundle).refused("is there already")


def secretive() -> tuple[RunRecord, list[Any]]:
    """A run on real machines whose logs chatter."""
    hosts = {
        "anna": {"address": "anna.lab.example", "user": "jdoe", "key": "/home/carla/.ssh/id", "sudo": True},
        "bert": {"address": "10.20.30.40", "jump": {"address": "b-gate.example", "user": "s3cret"}},
        "tester": {"address": "2a01:4f8::17"},
    }
    ports = {"a0": "tester", "b0": "anna", "b1": "anna", "c0": "bert"}
    testbed = {
        "name": "lab", "kind": "hosts", "hosts": hosts,
        "ports": {role: {"host": host, "ifname": f"e{role}", "mac": "b4:96:91:aa:bb:cc"}
                  for role, host in ports.items()},
    }  # fmt: skip
    a = point("fake:seed=1")
    reported = environment(
        cmdline="root=UUID=6f1c0f9e-0000-4b1f-9d7e-1234567890ab ip=10.20.30.41::::labhost7:eth0:off "
        "key=hunter2 BOOTIF=01-b4-96-91-aa-bb-cc isolcpus=1-3 quiet",
        ports={role: {"host": host, "ifname": "enxb49691aabbcc", "mac": "B4:96:91:AA:BB:CC",
                      "ethtool -i": "driver: ice\nfirmware-version: 4.20.0.1\nSerial number: K91234567",
                      "board_serial": "K91234567"} for role, host in ports.items()},
        hosts={"tester": {"kernel": "6.12"}},
        versions={"fake": "1.2.3.4"},
    )  # fmt: skip
    run = run_record(
        a, testbed=TestbedSpec.model_validate(testbed), environment=reported,
        study={"notes": {"fake": "as jdoe@anna.lab.example saw it"}, "testbed": "/home/carla/lab.yaml"},
    )  # fmt: skip
    log = (
        "ANNA: link b4-96-91-aa-bb-cc up", "bert:22 refused jdoe from 2a01:4f8::17 port 22 at 12:34:56",
        "device b4-96-91-ff-ff-aa-bb-cc, s/n: K91234567, /home/al/ko (al@corp.example)",
        "jdoe at /home/carla/x; 198.18.0.1 and 127.0.0.1 are nobody's",
        "01-b4-96-91-aa-bb-cc, b496.91aa.bbcc, 0xb49691aabbcd, b49691aabbcc of labhost7 at 10.20.30.41",
        "PARTUUID=1234abcd-02 ID_SERIAL_SHORT=S3Z8NB0K ::ffff:10.20.30.42 9f86d081884c7d659a2feaa0c55ad015",
        "Linux version 6.12 (carol@devbox) ip-10-0-12-5.ec2.internal www.kernel.org, timer@3 of e17f0dfe90fb",
    )  # fmt: skip
    trials = [trial(a, n, [1000 * n + 900 + k for k in range(30)]) for n in range(3)]
    return run, [*trials, trial(a, 3, status="failed", reason="anna: died", log_tail=log, counters={"K91234567": 1})]


def test_no_name_goes_out_and_equal_stays_equal(cli: Callable[..., Done], results: Path, tmp_path: Path) -> None:
    run, trials = secretive()
    (results / "own").mkdir(parents=True)
    own = RunFolder(results / "own")
    own.head(run)
    for each in trials:
        own.append(each)
    done = cli("bundle", "own", "-o", tmp_path / "x.zip", "--redact")
    assert done.code == 0, done.err
    found = members(tmp_path / "x.zip")
    assert len(found) == 4
    for name, data in found.items():
        text = data.decode().lower()
        assert [each for each in SECRETS if each.lower() in text] == [], name
    for secret in ("anna.lab.example", "jdoe", "carla", "10.20.30.41", "b4:96:91:aa:bb:cc", "K91234567"):
        assert f" {secret} -> " in done.out
    cli("import", tmp_path / "x.zip")
    after = RunFolder(results / run.run_id)
    head, failed = after.load(), after.trials()[-1]
    anna = head.testbed.ports["b0"].host
    assert anna == head.testbed.ports["b1"].host == head.testbed.hosts[anna].address
    assert anna == head.environment.ports["b0"]["host"]
    mac = head.testbed.ports["b0"].mac
    assert mac
    assert head.environment.ports["a0"]["mac"] == mac
    assert head.environment.ports["a0"]["ifname"] == f"enx{mac.replace(':', '')}"
    assert failed.reason == f"{anna}: died"
    assert failed.log_tail[0] == f"{anna}: link {mac.replace(':', '-')} up"
    assert failed.log_tail[1].endswith(
        f" from {head.testbed.hosts[head.testbed.ports['a0'].host].address} port 22 at 12:34:56"
    )
    user = head.testbed.hosts[anna].user
    assert head.study.notes == {"fake": f"as {user}@{anna} saw it"}
    assert failed.log_tail[3].startswith(f"{user} at /home/user-")
    assert failed.log_tail[3].endswith("198.18.0.1 and 127.0.0.1 are nobody's")
    assert failed.log_tail[4].startswith(f"01-{mac.replace(':', '-')}, 0200.")
    assert failed.log_tail[5].split()[2].startswith("::ffff:192.0.2.")
    assert failed.log_tail[6].endswith("www.kernel.org, timer@3 of e17f0dfe90fb")
    kept = "root=(withheld) ip=(withheld) key=(withheld) BOOTIF=(withheld) isolcpus=1-3 quiet"
    assert head.environment.cmdline == kept
    assert " key=hunter2 -> key=(withheld), " in done.out
    (serial,) = failed.counters
    assert serial in failed.log_tail[2]
    assert head.environment.ports["a0"]["board_serial"] == serial
    assert "firmware-version: 4.20.0.1" in head.environment.ports["a0"]["ethtool -i"]
    assert head.environment.versions == run.environment.versions
    assert "tester" not in head.testbed.hosts  # a word of the format too: replaced where it is a host's name alone
    assert head.study.tester == "fake"
    assert cli("show", run.run_id, "--json").json()[0]["p50_us"] == cli("show", "own", "--json").json()[0]["p50_us"]


def test_many_machines_keep_apart() -> None:
    record = json.loads(run_record(point()).model_dump_json(by_alias=True))
    addresses = [f"10.1.{n // 250}.{n % 250}" for n in range(600)]
    record["environment"]["sysctls"] = {str(n): each for n, each in enumerate(["192.0.2.7", *addresses])}
    found = Redactor(record, lambda: iter(())).record(record).environment.sysctls
    assert found["0"] == "192.0.2.7"
    assert len(set(found.values())) == 601
    assert not set(found.values()) & set(addresses)


def link(kind: bytes, name: str = f"{RUN_ID}/run.json") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


def changed(good: dict[str, bytes], **fields: Any) -> dict[str, bytes]:
    name = f"{RUN_ID}/manifest.json"
    return {**good, name: json.dumps({**json.loads(good[name]), **fields}).encode()}


def bad_archives(good: dict[str, bytes]) -> Iterator[tuple[str, list[tuple[Any, bytes]], tuple[str, ...]]]:
    whole = list(good.items())
    for name in (f"../{RUN_ID}/run.json", "/etc/cron.d/x", f"{RUN_ID}/../../x", f"{RUN_ID}/robot/log.html", "x"):
        yield name, [*whole, (name, b"x")], (repr(name), "is no part of a bundle")
    yield "two runs", [*whole, ("other/run.json", b"{}")], ("is no part of a bundle",)
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        rest = [(name, data) for name, data in whole if not name.endswith("run.json")]
        yield f"type {kind!r}", [*rest, (link(kind), b"")], ("is a folder, a link or a device",)
    yield "twice", [*whole, whole[1]], ("is in it twice",)
    huge = tarfile.TarInfo(f"{RUN_ID}/report.html")
    huge.size = 1 << 40
    yield "oversize", [*whole[:3], (huge, b"")], ("report.html has 1099511627776 bytes",)
    bomb = tarfile.TarInfo(f"{RUN_ID}/report.html")
    bomb.size = 80 << 20
    yield "blown up", [*whole[:3], (bomb, bytes(bomb.size))], ("unpacks to 80 MiB, more than 100 times its size",)
    yield "no manifest", whole[1:], ("it has no manifest.json",)
    yield "unknown version", [*changed(good, version=2).items()], ("bundle version 2, this xdplab reads 1",)
    yield "a later form", [*changed(good, version=2, signed="x").items()], ("bundle version 2, this xdplab reads 1",)
    yield "schema", [*changed(good, schema_version=7).items()], ("schema version 7",)
    yield "another form", [*changed(good, format="x").items()], ("manifest.json: format",)
    yield "another run", [*changed(good, run_id="x").items()], ("is of run 'x'",)
    yield "missing", [pair for pair in whole if "trials" not in pair[0]], ("trials.jsonl is not both",)
    yield "not listed", [*changed(good, files={}).items()], ("is not both",)
    yield "changed", [(n, d.replace(b"AMD", b"XYZ")) for n, d in whole], ("run.json: not what the manifest says",)
    longer = {**good, f"{RUN_ID}/trials.jsonl": good[f"{RUN_ID}/trials.jsonl"] * 2}
    yield "longer", [*longer.items()], ("trials.jsonl: not what the manifest says",)
    garbage = b'{"schema_version": 3, "run_id": 7}'
    files = {"run.json": {"sha256": hashlib.sha256(garbage).hexdigest(), "size_bytes": len(garbage)}}
    manifest = changed(good, files=files)[f"{RUN_ID}/manifest.json"]
    yield "no record", [(f"{RUN_ID}/manifest.json", manifest), (f"{RUN_ID}/run.json", garbage)], ("run.json: run_id",)


def test_what_is_no_bundle_is_refused_in_one_line_and_leaves_nothing(
    good: dict[str, bytes], cli: Callable[..., Done], tmp_path: Path, results: Path
) -> None:
    for number, (what, entries, words) in enumerate(bad_archives(good)):
        done = cli("import", tar(tmp_path / f"{number}.tar.gz", *entries))
        try:
            done.refused(*words)
        except AssertionError as exc:
            raise AssertionError(f"{what}: {exc}") from None
        assert [path.name for path in results.iterdir()] == ["own"], what
    assert cli("import", tar(tmp_path / "good.tar.gz", *good.items())).code == 0


def test_a_zip_that_lies_and_damage_are_refused(
    good: dict[str, bytes], cli: Callable[..., Done], tmp_path: Path
) -> None:
    archive = tmp_path / "bad.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name, data in good.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = (0o120777 if name.endswith("run.json") else 0o100644) << 16
            packed.writestr(member, data)
    cli("import", archive).refused("run.json is a folder, a link or a device")
    whole = tar(tmp_path / "whole.tar.gz", *good.items()).read_bytes()
    for name, data in (
        ("cut", whole[: len(whole) // 2]),
        ("empty", b""),
        ("text", b"hello"),
        ("gz", gzip.compress(b"x")),
    ):
        (tmp_path / name).write_bytes(data)
        cli("import", tmp_path / name).refused(f"{name}: ")
    for at in range(20, len(whole), len(whole) // 12):
        (tmp_path / "flipped").write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        cli("import", tmp_path / "flipped").refused("flipped: ")
    with zipfile.ZipFile(tmp_path / "good.zip", "w") as packed:
        for name, data in good.items():
            packed.writestr(name, data)
    bare = (tmp_path / "good.zip").read_bytes()
    at = bare.index(b"AMD EPYC")
    (tmp_path / "good.zip").write_bytes(bare[:at] + b"XYZ" + bare[at + 3 :])
    cli("import", tmp_path / "good.zip").refused("good.zip: ")
    cli("import", tmp_path / "none").refused("no such file")
    cli("bundle", "own", "-o", tmp_path / "run.rar").refused(".tar.gz or .zip is expected")
    (tmp_path / "dir.zip").mkdir()
    cli("bundle", "own", "-o", tmp_path / "dir.zip").refused(f"bundle: {tmp_path / 'dir.zip'}: a folder; give a file")
    cli("bundle", "own", "-o", tmp_path / "nowhere" / "x.zip").refused("x.zip: no such folder; make it first")
    cli("bundle", "none", "-o", tmp_path / "run.zip").refused("run 'none'")


def header(kind: bytes, data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    """What tarfile reads into memory before it says that there is a member."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = kind, len(data)
    return [(member, data)]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_is_larger_than_a_bundle_is_not_read(
    kind: bytes, good: dict[str, bytes], tmp_path: Path, results: Path
) -> None:
    bomb = tar(tmp_path / "bomb.tar.gz", *header(kind, bytes(48 << 20)), *good.items())
    assert bomb.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"bomb.tar.gz: damaged: its headers are larger"):
            import_bundle(bomb, results, lambda folder: None)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_headers_without_end_are_refused(good: dict[str, bytes], tmp_path: Path, cli: Callable[..., Done]) -> None:
    deep = header(tarfile.XHDTYPE, b"12 a=bcdefg\n") * 900
    cli("import", tar(tmp_path / "deep.tar.gz", *deep, *good.items())).refused("deep.tar.gz: damaged: ")


def test_a_disk_that_is_full_imports_nothing(
    good: dict[str, bytes], tmp_path: Path, cli: Callable[..., Done], results: Path
) -> None:
    bundle = tar(tmp_path / "good.tar.gz", *good.items())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    try:
        cli("import", bundle).refused(f"import: {results}: File too large; nothing was imported")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in results.iterdir()] == ["own"]
