# SPDX-License-Identifier: Apache-2.0
"""apt of another Debian suite, from the mirror this machine already uses.

apt itself finds, downloads and checks the files, with folders of its own: the machine's configuration is read (mirror,
proxy) and never changed, and nothing is installed. Standard library only: `ovs/build` runs before .venv exists.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: No packages are installed as far as this apt knows: what a download pulls in does not depend on the machine.
APT_CONF = """
Dir::State "{work}/state";
Dir::State::status "{work}/state/status";
Dir::State::Lists "{work}/lists";
Dir::Cache "{work}/cache";
Dir::Etc::SourceList "{work}/sources.list";
Dir::Etc::SourceParts "{work}/none";
Acquire::Retries "2";
Acquire::http::Timeout "60";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
"""
#: For one command; the largest package that is fetched has 160 MB.
TIMEOUT_S = 900


class AptError(Exception):
    """What apt could not do, in one line."""


@dataclass(frozen=True)
class PrivateApt:
    """apt with the indexes of some suites.

    Attributes:
        work: Folder that all of it is in; files are downloaded to it.
        suites: Debian suites, as in a line of sources.list.
        kind: `deb` for binary packages, `deb-src` for sources.
        any_age: Take indexes that are older than they should be, of a mirror that lags behind or keeps a day; for who
            knows what is wanted by its checksum.
    """

    work: Path
    suites: tuple[str, ...]
    kind: str = "deb"
    any_age: bool = False

    def update(self) -> None:
        """Fetches the indexes.

        Raises:
            AptError: No mirror, or no network.
        """
        mirror = apt_mirror()
        for name in ("state", "lists/partial", "cache/archives/partial", "none"):
            (self.work / name).mkdir(parents=True)
        (self.work / "state/status").touch()
        lines = [f"{self.kind} [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in self.suites]
        (self.work / "sources.list").write_text("".join(lines))
        age = 'Acquire::Check-Valid-Until "false";\n' if self.any_age else ""
        (self.work / "apt.conf").write_text(APT_CONF.format(work=self.work) + age)
        self.run("apt-get", "update")

    def run(self, program: str, *arguments: str) -> str:
        """Runs `apt-get` or `apt-cache`; returns what it printed.

        Raises:
            AptError: It complains or fails, or does not end.
        """
        argv = [program, "--config-file", str(self.work / "apt.conf"), "--quiet", *arguments]
        try:
            done = subprocess.run(
                argv,
                cwd=self.work,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
                timeout=TIMEOUT_S,
            )
        except FileNotFoundError:
            raise AptError(f"{program} is not here: this needs Debian or one of its descendants") from None
        except subprocess.TimeoutExpired:
            raise AptError(f"{program} {' '.join(arguments)}: timed out after {TIMEOUT_S} s") from None
        # `apt-get update` succeeds without a network; the lines with E: and W: tell.
        failed = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W: Failed", "Err:"))]
        if done.returncode or failed:
            raise AptError(" ".join(failed) or done.stderr.strip() or f"exit code {done.returncode}")
        return done.stdout


def apt_mirror() -> str:
    """Address of the Debian mirror in the machine's apt configuration.

    Raises:
        AptError: There is none, or its index was never downloaded.
    """
    if not KEYRING.exists():
        raise AptError(f"{KEYRING} is missing; install the package debian-archive-keyring")
    argv = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"]
    try:
        lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError) as error:
        raise AptError(f"apt-get indextargets failed ({error})") from None
    for line in lines:
        origin, label, uri = line.split("|", 2)
        if origin == label == "Debian":
            return uri
    others = sorted({line.partition("|")[0] for line in lines} - {"", "Debian"})
    if others:
        raise AptError(f"apt of this machine has mirrors of {', '.join(others)}, and none of Debian")
    raise AptError("apt knows no Debian mirror: no source names one, or its index was never fetched (apt-get update)")
