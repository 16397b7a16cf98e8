"""A script is observed in an image without the kit."""

from pathlib import Path

import pytest

from tests.containers.engine import built, run
from tests.execution.test_observed import SCRIPT
from tests.support.containers import base_image
from tests.support.projects import Project

pytestmark = pytest.mark.engine
DOCKERFILE = """FROM {base}
WORKDIR /workspace
ENV PYTHONPATH=/own
COPY sitecustomize.py /own/
"""


def test_the_path_of_an_image_and_its_sitecustomize_stay(project: Project, tmp_path: Path) -> None:
    (project.root / "observed.py").write_text(SCRIPT)
    (tmp_path / "sitecustomize.py").write_text("import os\n'RANK' in os.environ and print('own')\n")
    with built(DOCKERFILE.format(base=base_image()), "observed", tmp_path) as image:
        done, record = run(project, "observed.py", "--layout", "1x1", "--device", "cpu", "--with", f"image={image}")
    assert done.code == 0, done.snapshot
    assert record["ranks"][0]["observed"]["samples"] == 80
    output = project.runs("observed")[-1] / "raw" / "node0-rank0.stdout"
    assert output.read_text().startswith("own\n")
