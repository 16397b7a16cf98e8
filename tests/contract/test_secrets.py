"""In containers and pods too, a secret reaches the process and stands in no file that the runner writes."""

from tests.contract.harness import Harness
from tests.contract.targets import on

REQUESTS = {"compose.yaml", "job.yaml", "job.sbatch", "request.json"}


@on("compose", "pytorchjob", "ssh", "slurm")
def test_a_process_gets_the_secret_that_its_kept_request_masks(harness: Harness) -> None:
    url = "s3://ada" + ":hunter2@store.example.org/x"  # the digits need no folder, and the program reports its args
    words = ["--set", "epochs=1", "--set", "peak_milliseconds=20", "--set", f"data_dir={url}"]
    done, record = harness.run("quickstart", "--layout", "1x1", *words)
    assert done.code == 0, done.snapshot
    folder = harness.project.results / "quickstart" / record["launch"]["id"]
    assert any(url.encode() in path.read_bytes() for path in (folder / "raw").iterdir() if path.is_file())
    (request,) = (path for path in (folder / "request").iterdir() if path.name in REQUESTS)
    assert "s3://ada:<masked>@store.example.org/x" in request.read_text("utf-8")
    assert record["launch"]["masked"] == ["args.data_dir"]
    holding = [path for path in folder.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert {path.parent.name for path in holding} == {"raw"}
