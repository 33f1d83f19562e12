# SPDX-License-Identifier: Apache-2.0
"""ci/setup ended in the middle of apt-get: services can be started again. It runs on a /usr/sbin of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from xdplab.tools import project_root

pytestmark = pytest.mark.root

#: Everything is missing; apt-get tells whether services are kept from starting, and ends who called it.
_APT = """#!/bin/sh
/usr/sbin/policy-rc.d; echo "policy says $?"
kill -{signal} $PPID
sleep 0.3
"""
#: Knows each package, and the number of those with one.
_APT_CACHE = """#!/bin/sh
test $1 = pkgnames && echo ${2}25 && exit
shift; for name; do echo "$name | 1 | somewhere"; done
"""
#: Installs what it is asked for, except together with memcached.
_APT_REFUSES = """#!/bin/sh
case "$*" in *install*memcached*) exit 100 ;; esac
echo "$*" | sed -n 's/.*--no-install-recommends //p' | tr ' ' '\\n' | sed 's/^/ii  /' >>{installed}
"""
_SCRIPT = """
mount -t tmpfs none {place}
mkdir {place}/own {place}/work
mount -t overlay none -o lowerdir=/usr/sbin,upperdir={place}/own,workdir={place}/work /usr/sbin
rm -f /usr/sbin/policy-rc.d
{before}
PATH={programs}:$PATH {root}/ci/setup || true
{again}
echo "left: $(cat /usr/sbin/policy-rc.d 2>/dev/null)"
"""


class Machine:
    """Where ci/setup runs: this machine, with another /usr/sbin and an apt-get that installs nothing."""

    def __init__(self, folder: Path) -> None:
        self.root, self.programs, self.place = folder / "root", folder / "programs", folder / "place"
        for path in (self.root / "ci", self.programs, self.place):
            path.mkdir(parents=True)
        for name in ("setup", "packages", "packages.txt"):
            shutil.copy(project_root() / "ci" / name, self.root / "ci" / name)
        (self.root / "build").mkdir()
        self.program("dpkg-query", "#!/bin/sh\n")
        self.program("apt-cache", _APT_CACHE)

    def program(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text, encoding="ascii")
        (self.programs / name).chmod(0o755)

    def setup(self, signal: str, before: str = "", again: str = "") -> str:
        """What is left in /usr/sbin/policy-rc.d after ci/setup got a signal from its apt-get."""
        return self.run(_APT.format(signal=signal), before, again).rpartition("left: ")[2].strip()

    def run(self, apt_get: str, before: str = "", again: str = "") -> str:
        """What ci/setup prints, and after "left: " what is then in /usr/sbin/policy-rc.d."""
        self.program("apt-get", apt_get)
        given = {"place": self.place, "programs": self.programs, "root": self.root}
        script = _SCRIPT.format(before=before, again=again.format(**given), **given)
        argv = ["unshare", "--mount", "sh", "-ec", script]
        env = {key: value for key, value in os.environ.items() if not key.startswith("WITH_")}  # what `make test` asks
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False, env=env)
        assert done.returncode == 0, done.stderr
        return done.stderr + done.stdout

    def log(self) -> str:
        return (self.root / "build" / "setup-apt.log").read_text(encoding="utf-8")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("signal", ["TERM", "HUP"])
def test_services_start_again_after_a_signal(machine: Machine, signal: str) -> None:
    assert machine.setup(signal) == ""
    assert machine.log() == "policy says 101\n"


def test_what_kill_9_left_goes_with_the_next_call(machine: Machine) -> None:
    assert "ci/setup" in machine.setup("KILL")
    installed = r"{root}/ci/packages | sed 's/^/ii  /'"  # the next call finds nothing to install
    then = f'printf "#!/bin/sh\\n%s\\n" "{installed}" > {{programs}}/dpkg-query; PATH={{programs}}:$PATH PYTHON=false '
    assert machine.setup("KILL", again=then + "{root}/ci/setup || true") == ""


def test_a_policy_of_somebody_else_stays(machine: Machine) -> None:
    theirs = "#!/bin/sh\nexit 101"
    before = f"printf '{theirs}\\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d"
    assert machine.setup("TERM", before) == theirs


def test_a_group_that_apt_refuses_costs_no_other(machine: Machine) -> None:
    installed = machine.place.parent / "installed"
    machine.program("dpkg-query", f"#!/bin/sh\ncat {installed}\n")
    installed.write_text("", encoding="ascii")
    reported = machine.run(
        _APT_REFUSES.format(installed=installed), "export PYTHON=false", "PATH={programs}:$PATH {root}/ci/setup || true"
    )
    missing = "not installed: iperf3 memcached nginx-light wrk."
    assert reported.count(missing) == 1  # and the second call tries nothing
    assert reported.rpartition("left: ")[2].strip() == ""
    names = installed.read_text(encoding="ascii")
    assert "librte-net-af-xdp25" in names
    assert "autoconf" in names
    assert "memcached" not in names


def test_a_core_package_that_is_not_to_be_had_ends_it(machine: Machine) -> None:
    machine.program("apt-cache", _APT_CACHE.replace("do echo", "do test $name = clang || echo"))
    assert "apt has no package clang;" in machine.run("#!/bin/sh\n")
