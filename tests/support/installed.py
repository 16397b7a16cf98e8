"""The kit's wheel, installed into an environment outside this checkout."""

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.support.projects import ROOT, Ended, complete

NOT_INHERITED = ("PYTHON", "KIT_", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel."""

    folder: Path
    wheel: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def environment(self, cache: Path) -> dict[str, str]:
        """Return the variables of an activated environment."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
        path = f"{self.folder / 'bin'}:{own['PATH']}"
        return {**own, "PATH": path, "XDG_CACHE_HOME": str(cache), "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "120"}

    def run(self, folder: Path, *words: str) -> Ended:
        """Run a command of the environment."""
        return complete([self.folder / "bin" / words[0], *words[1:]], folder, self.environment(self.folder / "cache"))


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout, offline."""
    words = [sys.executable, *"-m hatchling build -t wheel -d".split(), folder]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(folder: Path, wheel: Path) -> Installed:
    """Install a wheel into a fresh environment.

    A .pth file adds the tests' packages, without this checkout, which is installed there as editable.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    installed = Installed(folder, wheel)
    words = [Path(sys.executable).with_name("uv"), *"pip install --quiet --offline --no-deps --python".split()]
    subprocess.run([*words, installed.python, wheel], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return installed
