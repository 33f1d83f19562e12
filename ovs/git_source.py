# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch as a git checkout of the user's has it: at a commit, or as its files are now. Standard library only."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path


class GitError(Exception):
    """What git said, in one line."""


@dataclass(frozen=True)
class GitSource:
    """One state of a checkout.

    Attributes:
        path: The checkout.
        tree: Its git tree, which names the contents whatever commit they belong to.
        title: As `git describe` has it, with `-changed-TREE` where files differ from the commit.
        objects: Where git keeps what was made of changed files; nothing is written into the checkout.
    """

    path: Path
    tree: str
    title: str
    objects: Path

    def text(self, name: str) -> str:
        """A file of it; "" where it has none."""
        try:
            return self._git("show", f"{self.tree}:{name}")
        except GitError:
            return ""

    def export(self, archive: Path) -> None:
        """Write it as a tar file."""
        self._git("archive", "--format=tar", "--prefix=openvswitch/", f"--output={archive}", self.tree)

    def _git(self, *argv: str) -> str:
        return git(self.path, *argv, objects=self.objects)


def git(path: Path, *argv: str, objects: Path | None = None, index: Path | None = None) -> str:
    """What a git command prints.

    Args:
        path: The checkout.
        argv: Command and arguments.
        objects: Where new objects go, instead of the checkout.
        index: Used instead of the checkout's.

    Raises:
        GitError: it failed.
    """
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    if objects is not None:
        kept = subprocess.run(
            ["git", "-C", str(path), "rev-parse", "--git-path", "objects"], capture_output=True, text=True, check=False
        )
        objects.mkdir(parents=True, exist_ok=True)
        env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str((path / kept.stdout.strip()).resolve())
        env["GIT_OBJECT_DIRECTORY"] = str(objects)
    if index is not None:
        env["GIT_INDEX_FILE"] = str(index)
    # root may build another user's checkout: that it may be run as root has been allowed by its path
    command = ["git", "-c", f"safe.directory={path.resolve()}", "-c", "core.fsmonitor=false", "-C", str(path), *argv]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        raise GitError("git is not installed; apt-get install git") from None
    if done.returncode:
        raise GitError(f"{path}: git {argv[0]}: {' '.join((done.stderr or done.stdout).split())}")
    return done.stdout


def split(text: str) -> tuple[Path, str]:
    """`PATH@REF` -> both; a path that is there as it stands has no ref."""
    path, at, ref = text.rpartition("@")
    return (Path(path), ref) if at and not Path(text).exists() else (Path(text), "")


def is_checkout(path: Path) -> bool:
    """Whether a folder is one."""
    return (path / ".git").exists()


def at_commit(path: Path, ref: str, objects: Path) -> GitSource:
    """A commit by any name that git knows.

    Raises:
        GitError: there is none of that name.
    """
    try:
        commit = git(path, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").split()[-1]
    except GitError:
        raise GitError(f"{path}: git knows no commit {ref}") from None
    tree = git(path, "rev-parse", f"{commit}^{{tree}}").strip()
    return GitSource(path, tree, _describe(path, commit), objects)


def as_it_is(path: Path, objects: Path) -> GitSource:
    """The files as they are now, without those that git ignores.

    Raises:
        GitError: it is no checkout that git takes.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        git(path, "read-tree", "HEAD", objects=objects, index=index)
        git(path, "add", "--all", objects=objects, index=index)
        tree = git(path, "write-tree", objects=objects, index=index).strip()
    head = git(path, "rev-parse", "HEAD").strip()
    changed = "" if git(path, "rev-parse", "HEAD^{tree}").strip() == tree else f"-changed-{tree[:7]}"
    return GitSource(path, tree, _describe(path, head) + changed, objects)


def _describe(path: Path, commit: str) -> str:
    return git(path, "describe", "--tags", "--always", commit).strip()
