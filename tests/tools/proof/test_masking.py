"""What is private is masked in an archive, and what a run is started with means the same as before."""

import json
from pathlib import Path

import pytest

from runner.tools.proof.bundle import write_bundle
from runner.tools.proof.kit import opened
from runner.tools.proof.masking import Mask, mask_json
from tests.support.projects import OK, Project
from tests.support.records import Make
from tests.tools.proof.conftest import change_launch, committed, one_run, ran, refused

READS = OK.replace('"--verbose", action="store_true"', '"--data-dir", default="data"')
HOME = "/home/alice/imagenet"


def test_a_host_with_the_name_of_an_experiment_an_optimizer_or_a_key_changes_nothing_that_was_started(
    make: Make, tmp_path: Path
) -> None:
    for host in ("tiny", "adam", "launch", "epochs"):
        machine = {"name": host, "cpu": "Toy CPU", "cores": 2, "gpus": [], "os": "Linux"}
        folder = make.run(
            tmp_path / "results",
            host=machine,
            runner={"version": "0.1.0", "host": host, "pid": 1, "pid_started": 0.0},
            start={"host": host, "optimizer": "adam", "tokenizer": "tiny"},
            args={"epochs": 1, "seed": 1, "host": host},
        )
        with (folder.raw / "node0-rank0.stdout").open("ab") as file:
            file.write(b"on adam: loss 0.5\n")
        folder.seal()
    write_bundle(tmp_path / "results", tmp_path, tmp_path / "kit.tar", lambda _: None)
    with opened(tmp_path / "kit.tar") as kit:
        runs = sorted(kit.results.glob("tiny/*"))
        assert len(runs) == 4
        for run, host in zip(runs, ("tiny", "adam", "launch", "epochs"), strict=True):
            record = json.loads((run / "run.json").read_bytes())
            launch = record["launch"]
            assert (launch["experiment"], launch["program"], launch["args"]["host"]) == ("tiny", "toys.ok", host)
            facts = record["ranks"][0]["facts"]
            assert (facts["optimizer"], facts["tokenizer"]) == ("adam", "tiny")
            assert {launch["host"]["name"], launch["runner"]["host"], facts["host"]} <= {f"host-{n}" for n in range(5)}
            raw = (run / "raw" / "node0-rank0.stdout").read_bytes()
            assert f'"host": "{facts["host"]}"'.encode() in raw
            assert (b'"optimizer": "adam"' in raw, b'"tokenizer": "tiny"' in raw) == (True, True)


def test_a_host_is_masked_in_what_was_printed_and_said_of_it(make: Make, tmp_path: Path) -> None:
    record = make.run(tmp_path).read()
    record.launch.host["name"] = "gpu01"
    mask = Mask([record], {})
    said = {
        "reason": "gpu01 was lost",
        "facts": {"dataset": "gpu01", "host": "gpu01"},
        "failure": {"cause": "on gpu01"},
    }
    assert json.loads(mask_json(json.dumps(said).encode(), mask)) == {
        "reason": "host-1 was lost",
        "facts": {"dataset": "gpu01", "host": "host-1"},
        "failure": {"cause": "on host-1"},
    }
    printed = b'gpu01: hello\n0: :::MLLOG {"key": "gpu01", "metadata": {"host": "gpu01"}}\nfrom gpu01'
    assert mask.printed(printed) == (
        b'host-1: hello\n0: :::MLLOG {"key": "gpu01", "metadata": {"host": "host-1"}}\nfrom host-1'
    )
    assert mask_json(b"no JSON of gpu01", mask) == b"no JSON of host-1"


@pytest.mark.slow
def test_an_arg_in_which_a_folder_was_masked_is_named_and_not_run_with_another_one(project: Project) -> None:
    project.program("toys.reads", READS)
    project.define(program="toys.reads", matrix={"layout": ["1x1"], "data_dir": [HOME, "data/here"]})
    committed(project)
    assert project.runner("run", "tiny").code == 0
    assert project.runner("bundle", "results").code == 0
    ended = ran(project, "verify", "kit.tar")
    words = "args.data_dir, definition.matrix.data_dir: runner bundle has masked a folder in it"
    assert f"  args: not checked: {words}" in ended.stdout
    ended = ran(project, "reproduce", "kit.tar", "--json", code=1)
    verdicts = {verdict["level"] >= 2: verdict for verdict in json.loads(ended.stdout)["runs"]}
    assert sorted(verdicts) == [False, True]
    (why,) = verdicts[False]["stopped"]
    assert "args.data_dir: a folder, masked in the archive; runner run tiny --set data_dir=..." in why
    (again,) = (project.root / "reproduced" / "tiny").iterdir()
    assert project.record(again)["launch"]["args"]["data_dir"] == "data/here"


def test_nothing_is_run_from_a_definition_that_is_not_the_one_its_hash_names(project: Project) -> None:
    committed(project)
    run = one_run(project)
    change_launch(project, run, lambda launch: launch["definition"].update(summary="Another"))
    why = "level 0: definition: the one in the record is not the one that its hash names; nothing is run"
    refused(project, why, "reproduce", run)
