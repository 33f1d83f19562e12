# SPDX-License-Identifier: Apache-2.0
"""What pyproject.toml cannot say: the wheel has the folders beside the package too, and a man page."""

import shutil
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
#: What the package reads or runs, and no test of it.
SHARED = (
    "bpf/Makefile",
    *(
        f"bpf/{folder}/*.[ch]"
        for folder in ("app", "common", "cost", "ends", "io", "nf", "ovsprobe", "xdpfwd", "xdpgen", "xsk")
    ),
    "ci/nic/*.py",  # boots the guests of xdplab cost
    "ci/nic/packages.txt",
    "ci/packages",
    "ci/packages.txt",
    "ci/private_apt.py",  # of ovs/build, and of ci/nic
    "ovs/build",
    "ovs/debian_source.py",
    "ovs/files/*/*",
    "ovs/git_source.py",
    "ovs/patches/*",
    "suites/*.robot",
    "suites/pytest/*.py",
    "suites/studies/*.yaml",
    "suites/openflow/*",
    "suites/testbeds/*",
    "trex/bridge/*.py",
    "trex/profiles/*.py",
    "trex/trex_cfg.yaml.j2",
    "vpp/*.j2",
)


class BuildWithFolders(build_py):
    """Copies them, unless the package is installed to be edited: then they are where they are."""

    def run(self) -> None:
        """What an earlier build left would come along, so it goes first."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        for path in (each for pattern in SHARED for each in sorted(ROOT.glob(pattern))):
            copy = Path(self.build_lib, "xdplab", "_share", path.relative_to(ROOT))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)  # with its mode: ovs/build is a program


class InstallManPage(Distribution().get_command_class("install_data")):
    """Makes it of what the commands say of themselves."""

    def run(self) -> None:
        """Into `share/man/man1` of the environment."""
        sys.path.insert(0, str(ROOT / "tools"))
        from dev.commands import man_page

        page = Path(self.install_dir, "share", "man", "man1", "xdplab.1")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(man_page(), encoding="utf-8")
        self.outfiles.append(str(page))


# distutils asks for no data where there is none
setup(cmdclass={"build_py": BuildWithFolders, "install_data": InstallManPage}, data_files=[("share/man/man1", [])])
