"""Create git repositories, without the machine's configuration of git."""

import os
import subprocess
from pathlib import Path

WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
ALONE = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(folder: Path, *words: str) -> str:
    """Run git in a folder and return its stdout."""
    done = subprocess.run(["git", *WHO, *words], cwd=folder, env=os.environ | ALONE, capture_output=True, check=True)
    return os.fsdecode(done.stdout)


def commit_all(folder: Path) -> None:
    """Make a folder a repository, and commit all files that are not ignored."""
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "All")
