# SPDX-License-Identifier: Apache-2.0
"""What docs/own-programs.md has is measured; what is wrong with others is said."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lab.compiling import compiled
from lab.rooted import Lab

from xdplab.analysis.summary import summarise
from xdplab.tools import project_root

pytestmark = pytest.mark.root

PAGE = project_root() / "docs" / "own-programs.md"
#: Two programs that know their ports in the other two ways.
_OTHERS = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
const volatile __u32 ifindex_a, ifindex_b;
struct { __uint(type, BPF_MAP_TYPE_DEVMAP); __uint(max_entries, 2); __type(key, __u32); __type(value, __u32); }
ports SEC(".maps");
SEC("xdp") int by_array(struct xdp_md *ctx) { return bpf_redirect_map(&ports, ctx->ingress_ifindex == ifindex_a, 0); }
SEC("xdp.frags") int by_constants(struct xdp_md *ctx)
{ return bpf_redirect(ctx->ingress_ifindex == ifindex_a ? ifindex_b : ifindex_a, 0); }
char LICENSE[] SEC("license") = "GPL";
"""
_WRONG = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("xdp") int reads_too_far(struct xdp_md *ctx) { return *(char *)(long)ctx->data ? XDP_DROP : XDP_PASS; }
char LICENSE[] SEC("license") = "GPL";
"""
#: hop.c of the page, made to lose track of frames in three ways that its third argument names.
_UNTRUE = """
#include <string.h>
static const char *how, *file;
static void *area;
static unsigned seen;

/* One of many batches has a frame with a flipped bit, or the one that was kept before the program was started. */
static void spoil(struct port *in, __u32 from, __u32 n)
{
	const struct xdp_desc *last = xsk_ring_cons__rx_desc(&in->rx, from + n - 1);
	char *data = n ? xsk_umem__get_data(area, last->addr) : NULL;
	FILE *kept;

	if (!n || last->len != 60 || ++seen % 64)
		return;
	if (!strcmp(how, "flips"))
		data[55] ^= 4;
	if (strcmp(how, "keeps"))
		return;
	kept = fopen(file, seen == 64 ? "r" : "w");
	if (!kept)
		return;
	if (seen == 64 ? fread(data, 60, 1, kept) : fwrite(data, 60, 1, kept))
		fclose(kept);
}

static __u32 publish(struct port *out, __u32 to, __u32 n)
{
	__u32 more;

	if (!n || strcmp(how, "copies") || ++seen % 64 || !xsk_ring_prod__reserve(&out->tx, 1, &more))
		return n;
	*xsk_ring_prod__tx_desc(&out->tx, more) = *xsk_ring_prod__tx_desc(&out->tx, to + n - 1);
	return n + 1;
}

static void forward("""
_DEAF = _WRONG.replace("*(char *)(long)ctx->data ? XDP_DROP : XDP_PASS", "XDP_DROP")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Those of the page, and compiled ones of others: name -> path."""
    folder = tmp_path_factory.mktemp("own")
    blocks = dict(
        re.findall(r"^`([\w.]+)`.*?:\n\n```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    )
    assert list(blocks) == ["forward.bpf.c", "hop.c", "hop.yaml", "sink.yaml", "dns.yaml"]
    assert blocks["forward.bpf.c"].count("\n") <= 20
    hop = folder / "hop.c"
    hop.write_text(blocks["hop.c"], encoding="utf-8")
    subprocess.run(
        ["cc", "-O2", "-Wall", "-Wextra", "-Werror", hop, "-o", folder / "hop", "-lxdp", "-lbpf"], check=True
    )
    untrue = blocks["hop.c"].replace("static void forward(", _UNTRUE.rstrip())
    for old, new in (
        (
            "&from);\n\txsk_ring_prod__reserve(&out->tx",
            "&from);\n\tspoil(in, from, n);\n\txsk_ring_prod__reserve(&out->tx",
        ),
        ("xsk_ring_prod__submit(&out->tx, n);\n", "i = publish(out, to, n);\n\txsk_ring_prod__submit(&out->tx, i);\n"),
        ("out->sending += n;", "out->sending += i;"),
        ("void *area = mmap(", "area = mmap("),
        ("\tif (argc != 3 ||", "\thow = argv[3], file = argv[4];\n\tif (argc != 5 ||"),
    ):
        assert untrue.count(old) == 1, old
        untrue = untrue.replace(old, new)
    (folder / "untrue.c").write_text(untrue, encoding="utf-8")
    subprocess.run(["cc", "-O2", "-w", folder / "untrue.c", "-o", folder / "untrue", "-lxdp", "-lbpf"], check=True)
    assert blocks["hop.yaml"].count("./hop") == 1
    (folder / "hop.yaml").write_text(blocks["hop.yaml"].replace("./hop", str(hop.with_suffix(""))), encoding="utf-8")
    made = {
        name: str(compiled(folder, name, text))
        for name, text in (("page", blocks["forward.bpf.c"]), ("others", _OTHERS), ("wrong", _WRONG), ("deaf", _DEAF))
    }
    return {**made, "hop": str(folder / "hop"), "untrue": str(folder / "untrue"), "study": str(folder / "hop.yaml")}


def measured(
    lab: Lab, files: dict[str, str], *, ok: bool, study: dict[str, Any] | None = None, **forwarders: Any
) -> dict[str, dict[str, Any]]:
    """The row of each, by its label; the tester's figures are those of any run."""
    given = [{"label": label, **each} for label, each in forwarders.items()]
    allow = [part for path in (*files.values(), "false") for part in ("--allow-program", path)]
    done = lab.run(**(study or {}), forwarders=given, options=allow)
    assert done.code == (0 if ok else 1), done.err
    lab.assert_nothing_left()
    return {row["forwarder"]: row for row in lab.rows()}


def xdp(path: str, **options: Any) -> dict[str, Any]:
    return {"name": "xdp", "options": {"object": path, **options}}


def command(*argv: str, **options: Any) -> dict[str, Any]:
    return {"name": "command", "options": {"argv": [*argv], **options}}


def test_those_of_the_page_and_all_ways_to_know_ports(lab: Lab, files: dict[str, str]) -> None:
    rows = measured(
        lab,
        files,
        ok=True,
        page=xdp(files["page"]),
        generic=xdp(files["page"], mode="generic"),
        array=xdp(f"{files['others']}:by_array"),
        constants=xdp(files["others"], section="xdp.frags"),
        hop=command(files["hop"], "{port_a}", "{port_b}"),
    )
    assert {label: (row["status"], row["reason"]) for label, row in rows.items()} == dict.fromkeys(rows, ("ok", ""))
    assert {label: row["mode"] for label, row in rows.items()} == {
        "page": "native", "generic": "generic", "array": "native", "constants": "native", "hop": "native copy",
    }  # fmt: skip


def test_the_page_s_program_turns_frames_round(lab: Lab, files: dict[str, str]) -> None:
    done = lab.run(path="hairpin", forwarders=[xdp(files["page"])], options=["--allow-program", files["page"]])
    assert done.code == 0, done.err
    assert [row["status"] for row in lab.rows()] == ["ok"]


def test_what_is_wrong_with_a_program_is_said(lab: Lab, files: dict[str, str]) -> None:
    rows = measured(
        lab,
        files,
        ok=False,
        verifier=xdp(files["wrong"]),
        deaf=xdp(files["deaf"]),
        which=xdp(files["others"]),
        unknown=xdp(f"{files['others']}:slow"),
        ends=command("false"),
        good=xdp(files["page"]),
    )
    for label, words in {
        "verifier": "reads_too_far: the verifier says: .*outside of the packet",
        "deaf": "got XDP_DROP at b0.*it has neither a devmap nor a constant ifindex_a",
        "which": "several programs: .* has by_array, by_constants: name one",
        "unknown": "no program slow: .* has by_array, by_constants",
        "ends": "false ended with exit code 1",
    }.items():
        assert rows[label]["status"] == "failed", label
        assert re.search(words, rows[label]["reason"]), rows[label]["reason"]
    assert rows["good"]["status"] == "ok"


def test_who_loses_track_of_a_frame_is_named(lab: Lab, files: dict[str, str], tmp_path: Path) -> None:
    """A flipped bit, a buffer sent twice, and a frame of the repetition before, from before it was started.

    On a busy machine that frame may come in a proof, which says nothing of it: there are several repetitions.
    """
    rows = measured(
        lab,
        files,
        ok=False,
        study={"repetitions": 4},
        flips=command(files["untrue"], "{port_a}", "{port_b}", "flips", "-"),
        copies=command(files["untrue"], "{port_a}", "{port_b}", "copies", "-"),
        keeps=command(files["untrue"], "{port_a}", "{port_b}", "keeps", str(tmp_path / "kept")),
        good=command(files["hop"], "{port_a}", "{port_b}"),
    )
    assert {label: row["status"] for label, row in rows.items()} == dict.fromkeys(rows, "ok")
    said = {point.forwarder: point.faults for point in summarise(lab.newest().load(), lab.trials())}
    assert said["good"] == ()
    for label, words in {
        "flips": r"delivered [\d,]+ frames? damaged", "copies": r"delivered [\d,]+ frames? twice",
        "keeps": r"delivered \d frames? of earlier trials, from before it was started",
    }.items():  # fmt: skip
        assert [bool(re.fullmatch(words, fault)) for fault in said[label]] == [True], (label, said[label])


def test_the_page_s_study_can_be_run(files: dict[str, str], lab: Lab) -> None:
    done = lab.xdplab("run", files["study"], "--dry-run", "--allow-program", files["hop"], "--testbed", lab.testbed)
    assert done.code == 0, done.err
    assert "hop" in done.out


def test_what_is_named_and_not_there_is_bad_input(lab: Lab) -> None:
    for wanted, said in (
        (command("/nowhere/app"), "argv=/nowhere/app: no such program on "),
        (xdp("/nowhere/mine.o"), "object=/nowhere/mine.o: there is no such file"),
        ("ovs-afxdp:build=/nowhere", "has no /nowhere/ovs-vswitchd"),
        ("vpp-afxdp:vpp=/nowhere/vpp", "option vpp=/nowhere/vpp: "),
    ):
        for more in ((), ("--dry-run",)):
            allow = ("--allow-program", "/nowhere/app", "--allow-program", "/nowhere/mine.o")
            allow += ("--allow-program", "/nowhere", "--allow-program", "/nowhere/vpp")
            done = lab.run(forwarders=[wanted, "linux-bridge"], options=[*allow, *more])
            assert (done.code, said in done.err) == (2, True), done.err
            lab.assert_nothing_left()
    for variable, forwarder, tester in (("XDPLAB_VPP", "vpp-afxdp", "quick"), ("XDPLAB_TREX", "xdp", "trex")):
        for more in ((), ("--dry-run",)):
            done = lab.run(forwarders=[forwarder], tester=tester, options=more, env={variable: "/nowhere/there"})
            assert (done.code, f"{variable}=/nowhere/there: " in done.err) == (2, True), done.err
        done = lab.xdplab("doctor", **{variable: "/nowhere/there"})
        assert (done.code, f"{variable}=/nowhere/there: " in done.out + done.err) == (2, True)


def test_the_page_s_sink_is_a_study(files: dict[str, str], lab: Lab, tmp_path: Path) -> None:
    text = re.findall(
        r"^`sink.yaml`:\n\n```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )[0]
    path = tmp_path / "sink.yaml"
    path.write_text(text.replace("./capture", files["hop"]), encoding="utf-8")
    allow = ["--allow-program", files["hop"], "--allow-program", "cat"]
    done = lab.xdplab("run", path, "--dry-run", *allow, "--testbed", lab.testbed)
    assert done.code == 0, done.err
    assert "capture" in done.out
    refused = lab.xdplab("run", path, "--dry-run", *allow[:2], "--testbed", lab.testbed)
    assert refused.code == 2
    assert "counter=cat would be started as root" in refused.err


def test_the_page_s_server_answers_other_bytes_than_it_was_asked_with(lab: Lab, tmp_path: Path) -> None:
    """One that sends nothing back has its reason, and a tester that sends no requests is refused."""
    page = PAGE.read_text(encoding="utf-8")
    (text,) = re.findall(r"^`dns.yaml`:\n\n```yaml\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    source, program, path = PAGE.parent / "samples" / "dns.c", tmp_path / "dns", tmp_path / "dns.yaml"
    subprocess.run(["cc", "-O2", source, "-o", program, "-lxdp", "-lbpf"], check=True)
    path.write_text(text.replace("./dns", str(program)), encoding="utf-8")
    few = ["--set", "repetitions=1", "--set", "method.duration_s=0.1", "--testbed", lab.testbed]
    done = lab.xdplab("run", path, "--allow-program", program, *few)
    assert done.code == 0, done.err
    rows = {row["forwarder"]: row for row in lab.rows()}
    assert [rows[name]["status"] for name in ("dns", "xsk")] == ["ok", "ok"]
    assert {row["frame_bytes"] for row in rows.values()} == {90}
    assert rows["dns"]["samples"] > 100

    path.write_text(text.replace("./dns", str(program)).replace("}}", ", ready_s: 1}}"), encoding="utf-8")
    done = lab.xdplab("run", path, "--allow-program", program, *few, "--set", "traffic.udp_port=54")
    rows = {row["forwarder"]: row for row in lab.rows()}
    assert (done.code, rows["dns"]["status"], rows["xsk"]["status"]) == (1, "failed", "ok"), done.err
    assert "no frame came through" in rows["dns"]["reason"]

    done = lab.xdplab("run", path, "--allow-program", program, *few, "--set", "tester=xsk")
    assert (done.code, "traffic.request: tester xsk sends none; xdpgen does" in done.err) == (2, True), done.err
    lab.assert_nothing_left()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("language", "compiler"), [("rust", "cargo"), ("go", "go")])
def test_the_samples_in_other_languages_forward(lab: Lab, language: str, compiler: str, tmp_path: Path) -> None:
    """They are built as the page has it, in a copy."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not on PATH")
    shutil.copytree(PAGE.parent / "samples", tmp_path / "docs" / "samples", ignore=shutil.ignore_patterns("target"))
    (line,) = re.findall(rf"^.*\b{compiler} build.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
    made = {"rust": "hop-rust/target/release/hop", "go": "hop-go/hop"}[language]
    program = str(tmp_path / "docs" / "samples" / made)
    done = lab.run(forwarders=[command(program, "{port_a}", "{port_b}")], options=["--allow-program", program])
    assert done.code == 0, done.err
    assert [(row["status"], row["mode"]) for row in lab.rows()] == [("ok", "native copy")]
    lab.assert_nothing_left()
