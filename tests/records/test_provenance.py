"""What a record says of the machine that the runner is on."""

import hashlib
from pathlib import Path

import pytest

from runner.records import provenance


def test_gpus_are_those_that_may_be_used_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_all_gpus", lambda: ["first", "second"])
    for visible, names in {"1,0": ["second", "first"], "2,GPU-7": ["2", "GPU-7"], "-1": [], "": []}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert provenance.gpus() == names
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert provenance.gpus() == ["first", "second"]


def test_the_lock_of_a_project_is_the_first_of_those_that_are_there(tmp_path: Path) -> None:
    def lock_of_the_project() -> str | None:
        code, _ = provenance.describe_code(tmp_path, {})
        found: str | None = code["lock_sha256"]
        return found

    assert lock_of_the_project() is None
    for name in reversed(provenance.LOCKS):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
        assert lock_of_the_project() == hashlib.sha256(name.encode()).hexdigest()
