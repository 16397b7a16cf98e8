"""On the engine too, a secret reaches the process and stands in no file that the runner writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.containers.engine import run

if TYPE_CHECKING:
    from tests.support.projects import Project

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]


def test_a_container_gets_the_secret_that_its_kept_request_masks(project: Project) -> None:
    url = "s3://ada" + ":hunter2@store.example.org/x"  # the digits need no folder, and the program reports its args
    words = ["--layout", "1x1", "--set", "epochs=1", "--set", f"data_dir={url}", "--device", "cpu"]
    done, record = run(project, "quickstart", *words)
    assert done.code == 0, done.stderr
    folder = project.results / "quickstart" / record["launch"]["id"]
    assert url in (folder / "raw" / "node0-rank0.stdout").read_text("utf-8")
    assert "s3://ada:<masked>@store.example.org/x" in (folder / "request" / "compose.yaml").read_text("utf-8")
    assert record["launch"]["masked"] == ["args.data_dir"]
    holding = [path for path in folder.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert {path.parent.name for path in holding} == {"raw"}
