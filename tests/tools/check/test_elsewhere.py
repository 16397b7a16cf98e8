"""What is sent of the kit to where a check runs."""

import subprocess
import sys
from pathlib import Path

from runner.tools.check import elsewhere


def test_what_is_sent_of_the_kit_needs_no_other_module_of_it(tmp_path: Path) -> None:
    for name, data in elsewhere._of_kit():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    words = "import sys; sys.path.insert(0, sys.argv[1]); from runner.tools.check import checking, remote"
    command = [sys.executable, "-S", "-E", "-c", words, str(tmp_path / "kit")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
