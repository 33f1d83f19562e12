# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What includes or calls what: never in a circle, and no header needs something defined before it."""

import re
import shlex
import subprocess
from graphlib import CycleError, TopologicalSorter

import pytest
from conftest import BPF

FILES = sorted(path for path in BPF.glob("*/*.[ch]") if path.parts[-2] not in ("tests", "build"))
HEADERS = [path for path in FILES if path.suffix == ".h"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
#: Written by bpftool from an object of this project.
MADE = re.compile(r"\.skel\.h$")


def make(*argv):
    return subprocess.run(
        ["make", "-s", "--no-print-directory", "-C", BPF, *argv], check=True, capture_output=True, text=True
    ).stdout


KERNEL_CC, USER_CC = (shlex.split(line) for line in make("flags").splitlines())
PLACES = [BPF / word[2:] for word in USER_CC if word.startswith("-I")]


def includes(path):
    """The files of this project that a file includes, looked for where the compiler does."""
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        found = [place / name for place in (path.parent, *PLACES) if (place / name) in FILES]
        assert found or MADE.search(name), f"{path}: no {name}"
        yield from found[:1]


GRAPH = {path: set(includes(path)) for path in FILES}


def circle(graph):
    """A way from a node back to itself, or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as exc:
        return exc.args[1]
    return None


def seen(compiler, sources):
    """The headers of this project that a compiler opens for sources."""
    reported = subprocess.run(
        [*compiler, "-MM", "-MG", *sources], cwd=BPF, check=True, capture_output=True, text=True
    ).stdout
    return {BPF / word for word in reported.split()} & set(HEADERS)


def test_the_checker_sees_a_circle():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) is None
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_no_file_includes_itself_by_way_of_others():
    assert circle(GRAPH) is None


def test_nor_does_a_folder():
    folders = {path.parent.name: set() for path in FILES}
    for path, found in GRAPH.items():
        folders[path.parent.name] |= {other.parent.name for other in found} - {path.parent.name}
    assert circle(folders) is None


#: Program -> the source that has its main().
PROGRAMS = {
    "xdpgen": "xdpgen/main",
    "xsk": "xsk/main",
    "xdpapp": "app/main",
    "xdpfwd": "xdpfwd/xdpfwd",
    "ovsprobe": "ovsprobe/ovsprobe",
    "xdpends": "ends/xdpends",
}
#: A function that a header declares, and no `static inline` one.
DECLARED = re.compile(r"^(?!static\b|typedef\b|extern const\b)\w[\w\s*]*?\b(\w+)\([^;{}]*\)[^;{}]*;", re.MULTILINE)


@pytest.fixture(scope="module", params=PROGRAMS)
def symbols(request, programs):
    """Of a program: source -> the functions and variables that it defines, and those that it uses of others."""
    main = PROGRAMS[request.param]
    link = make("-n", "-W", f"build/obj/{main}.o", f"build/{request.param}").splitlines()[-1]
    gives, needs = {}, {}
    for name in (word for word in shlex.split(link) if word.endswith(".o")):
        source = BPF / name.removeprefix("build/obj/").replace(".o", ".c")
        out = subprocess.run(["nm", "-g", BPF / name], check=True, capture_output=True, text=True).stdout
        found = [line.split() for line in out.splitlines()]
        gives[source] = {words[-1] for words in found if words[-2] in "BCDRT"}
        needs[source] = {words[-1] for words in found if words[-2] == "U"}
    assert len(needs) > 10 and BPF / f"{main}.c" in needs
    return gives, needs


def test_no_source_calls_itself_by_way_of_others(symbols):
    """By the symbols of their objects: a declaration may stand in any header."""
    gives, needs = symbols
    of = {name: source for source, names in gives.items() for name in names}
    assert circle({source: {of[name] for name in used & of.keys()} for source, used in needs.items()}) is None


def test_the_checker_sees_what_a_header_declares():
    text = """/* Says what: one (with words); and others. */
int one(const struct stream *s,
	int (*each)(void));
struct choice two(void);
void three(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline int four(void)
{
	return five();
}
#define SIX(a) (seven(a);
extern const struct ops eight;
"""
    assert set(DECLARED.findall(text)) == {"one", "two", "three"}


def test_no_source_could_call_itself_by_way_of_the_headers_that_it_includes(symbols):
    """Two that have a header in common, which declares functions of both, have no direction."""
    gives, _ = symbols
    of = {name: source for source, names in gives.items() for name in names}
    declared = {
        path: {of[name] for name in DECLARED.findall(path.read_text(encoding="utf-8")) if name in of}
        for path in HEADERS
    }
    graph = {source: set().union(*(declared.get(path, ()) for path in GRAPH[source])) - {source} for source in gives}
    assert sum(map(len, graph.values())) > 5
    assert circle(graph) is None


@pytest.fixture(scope="session")
def sides():
    """Compiler -> the headers that its sources include: for the kernel, for user space."""
    kernel = set(BPF.glob("*/*.bpf.c"))
    user = {path for path in FILES if path.suffix == ".c"} - kernel
    return [(compiler, seen(compiler, sources)) for compiler, sources in ((KERNEL_CC, kernel), (USER_CC, user))]


@pytest.mark.slow
def test_each_header_is_of_some_program(sides):
    assert set(HEADERS) == set.union(*(headers for _, headers in sides))


@pytest.mark.slow
def test_a_header_compiles_alone(sides, tmp_path):
    """For each of the sides, kernel and user space, whose sources include it."""
    for compiler, headers in sides:
        sources = []
        for number, header in enumerate(sorted(headers)):
            sources.append(tmp_path / f"alone{number}.c")
            sources[-1].write_text(f'#include "{header}"\n#include "{header}"\n', encoding="ascii")
        argv = [*compiler, "-Wno-unused-function", "-fsyntax-only", *sources]
        done = subprocess.run(argv, cwd=BPF, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_no_header_for_the_kernel_calls_what_its_includer_defines(sides, tmp_path):
    """There is no other source that could: a program is one object."""
    (compiler, headers), _ = sides
    flags = ["-Xclang", "-disable-llvm-passes", "-femit-all-decls", "-S", "-emit-llvm", "-o", "-"]
    for header in headers:
        source = tmp_path / "alone.c"
        source.write_text(f'#include "{header}"\n', encoding="ascii")
        code = subprocess.run([*compiler, *flags, source], cwd=BPF, check=True, capture_output=True, text=True).stdout
        called = re.findall(r"^declare .*@(?!llvm\.)(\w+)\(", code, re.MULTILINE)
        assert not called, header
