"""What a record says of the machine that the runner is on."""

import pytest

from runner.records import provenance


def test_gpus_are_those_that_may_be_used_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_all_gpus", lambda: ["first", "second"])
    for visible, names in {"1,0": ["second", "first"], "2,GPU-7": ["2", "GPU-7"], "-1": [], "": []}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert provenance.gpus() == names
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert provenance.gpus() == ["first", "second"]
