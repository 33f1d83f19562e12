# SPDX-License-Identifier: Apache-2.0
"""Every test has its own state and results folders; tests marked `root` are skipped elsewhere."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from lab.command import TESTS, Done, environment, inline
from lab.outsider import distribution
from lab.rooted import Lab

settings.register_profile("lab", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("lab")


#: With `-n` the tests of a group stay on one worker, one after another. `testbed`: runs on a testbed, which holds the
#: CPUs of the machine, and whatever else is timed or changes settings of the machine. Beside it may run `frames`: sends
#: frames through namespaces of its own and counts them, however late they are; and `hosts`: programs on hosts that are
#: namespaces, each with a /sys of its own: a CPU that is held there is held by nobody else (hosts/agent/cpus.py).
#: Tests that need no root belong to no group.
BESIDE = {
    "test_root_ansible.py": "hosts",
    "test_root_doctor.py": "hosts",
    "test_root_harm.py": "hosts",
    "test_root_lab_init.py": "hosts",
    "test_root_privileges.py": "frames",
    "test_root_setup.py": "hosts",
    "test_root_ssh.py": "hosts",
    "test_root_ssh_access.py": "hosts",
    "test_xsk_silent.py": "frames",
}


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs root, with the reason, and tell xdist which tests must not run next to each other."""
    for item in items:
        if item.path.name in SHARED:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.xdist_group(BESIDE.get(item.path.name, "testbed")))
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root: it makes namespaces and attaches XDP programs"))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks and state files of this test."""
    monkeypatch.setenv("XDPLAB_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDPLAB_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


#: A worker of its own for each of these: what their tests share takes seconds to make.
SHARED = ("test_pages.py", "test_sweep_output.py", "test_sweep_planted.py", "test_wheel.py")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that any user may enter; pytest's own is closed again by each pytest that starts meanwhile."""
    with tempfile.TemporaryDirectory(prefix="lab-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """`cli("run", path)`: the command line in this process."""
    return lambda *args: inline(capsys, *args)


@pytest.fixture(scope="session")
def saboteur_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution that has the testers of `lab.saboteur`."""
    classes = {"slow-fake": "SlowFake", "biased-fake": "BiasedFake", "quick": "QuickXdpgen", "untidy": "UntidyXdpgen"}
    testers = {name: f"lab.saboteur:{cls}" for name, cls in classes.items()}
    return distribution(tmp_path_factory.mktemp("saboteur"), "saboteur", {"xdplab.testers": testers})


@pytest.fixture(scope="session")
def saboteur(saboteur_folder: Path) -> Callable[..., dict[str, str]]:
    """`saboteur(LAB_...="...")`: an environment in which that distribution is installed, and its runs are short."""
    direct = saboteur_folder / "direct"
    direct.mkdir(exist_ok=True)
    short = {"LAB_DIRECT": str(direct)}
    return lambda **extra: environment({**short, **extra}, (saboteur_folder, TESTS))


@pytest.fixture
def in_process(saboteur_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is installed in this process."""
    monkeypatch.syspath_prepend(saboteur_folder)


@pytest.fixture
def lab(tmp_path: Path, saboteur: Callable[..., dict[str, str]]) -> Iterator[Lab]:
    """A real testbed of this test alone."""
    made = Lab(tmp_path, saboteur)
    yield made
    made.sweep()


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory, saboteur: Callable[..., dict[str, str]]) -> Iterator[Lab]:
    """A real testbed that the tests of a module share."""
    made = Lab(tmp_path_factory.mktemp("lab"), saboteur)
    yield made
    made.sweep()
