"""The files of the kit that a check sends to its host."""

import subprocess
import sys
from pathlib import Path

from runner.tools.check import elsewhere


def test_the_modules_sent_need_no_other_module_of_the_kit(tmp_path: Path) -> None:
    for name, data in elsewhere._of_kit():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    words = "import sys; sys.path.insert(0, sys.argv[1]); from runner.tools.check import checking, remote"
    command = [sys.executable, "-S", "-E", "-c", words, str(tmp_path / "kit")]
    subprocess.run(command, cwd=tmp_path, check=True)
