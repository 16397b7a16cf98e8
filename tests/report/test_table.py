"""The table on a terminal: 100 columns hold it for every definition of the project, and nothing of it is lost."""

from functools import cache
from typing import Any

import pytest
from rich.cells import cell_len

from runner.cli.terminal import print_table
from runner.definitions.choices import Selection
from runner.definitions.experiment import Experiment, files, load
from runner.definitions.plan import Run, make_plan
from runner.report.compare import compare
from runner.report.rows import Block
from runner.report.run_summary import RunSummary
from runner.report.table import Grid, Table, fit, to_table
from tests.support.projects import ROOT
from tests.support.summaries import base, block, pair
from tests.support.summaries import run as summary

PATHS = {path.stem: path for path in files(ROOT)}
NAMES = list(PATHS)
HARDWARE = {"cpu": "Intel(R) Xeon(R) Platinum 8480+ Processor, 112 cores", "cuda": "NVIDIA A100-SXM4-80GB"}
SECONDS = {"network": 0.000284, "collectives": 0.0817, "bert": 5_559.67}
"""What a run of one process takes, of the experiments that do not take some minutes."""


@cache
def block_of(name: str, device: str) -> Block:
    """What three repeats of every cell of a definition may come to; a repeat in every third cell has failed."""
    experiment = load(PATHS[name], ROOT)
    runs = [
        _summary(experiment, run, number)
        for number, run in enumerate(make_plan(experiment, Selection(device=device)).runs)
    ]
    (block,) = compare(runs, lambda _: experiment.resolved())
    return block


def _summary(experiment: Experiment, run: Run, number: int) -> RunSummary:
    processes = run.cell.layout.world_size * run.cell.devices_per_process
    seconds = SECONDS.get(experiment.name, 361.87) / processes**0.8 * (1 + run.repeat**2 / 60)
    axes = run.cell.axes
    own = {key for keys in experiment.program_args.values() for key in keys}
    trains = experiment.name not in {"network", "collectives", "toy", "resnet50"}
    failed = run.repeat == 2 and processes == 2 and experiment.name == "mnist"
    return summary(
        seconds,
        str(run.cell.layout),
        processes,
        path=f"{experiment.name}/20261121T000000Z-local-{number:08x}",
        experiment=experiment.name,
        status="failed" if failed else "completed",
        reason="node 1: rank 3 exited with code 1" if failed else None,
        axes=axes,
        program=run.cell.program.name,
        args={key: value for key, value in run.cell.args.items() if key not in {*axes, *own}},
        scaling=experiment.scaling,
        measure=experiment.measure,
        device=run.device,
        repeat=run.repeat,
        hardware=HARDWARE[run.device],
        cores=112,
        accuracy=0.9914 if trains else None,
        global_batch_size=512 * processes,
        torch="2.3.1+cu121",
        mfu=0.412 / processes**0.2,
        load={"cpu_percent": 91.2, "memory_bytes": 3.2e9},
    )


def lines_of(table: Table, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table(table)
    return capsys.readouterr().out.split("\n")


@pytest.mark.parametrize("name", NAMES)
def test_the_table_of_every_definition_fits_100_columns_and_at_80_columns_names_what_it_leaves_out(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for device in HARDWARE:
        table = to_table(block_of(name, device))
        for columns, may_lack in ((100, set()), (80, {"serial", "MFU", "efficiency"})):
            printed = lines_of(table, columns, capsys, monkeypatch)
            assert columns == 80 or max(map(cell_len, printed)) <= columns
            for grid in (table, table.published):
                fitted = fit(grid, columns)
                assert set(fitted.left_out) <= may_lack
                assert len(fitted.head) + len(fitted.left_out) + len(fitted.equal) == len(grid.head)
                assert len(fitted.lines) == len(grid.lines)
                for cells in fitted.lines:
                    assert columns == 80 or any(line.split() == " ".join(cells).split() for line in printed), cells
                for equal in fitted.equal:
                    assert any(line.startswith("in every row: ") and equal in line for line in printed)
                for left_out in fitted.left_out:
                    assert any(line.startswith("a wider terminal") and left_out in line for line in printed)


def test_there_are_definitions_with_published_rows_and_their_hardware_has_a_column_of_its_own() -> None:
    tables = [to_table(block_of(name, "cuda")) for name in NAMES]
    published = [table.published for table in tables if table.published.lines]
    assert len(published) >= 5
    for grid in published:
        hardware = [line[grid.head.index("hardware")] for line in grid.lines]
        assert all(hardware)
        assert grid.title.startswith("published: ")


def test_work_that_grows_with_the_processes_is_not_said_to_be_the_same_in_all_rows() -> None:
    weak: dict[str, Any] = {"scaling": "weak"}
    more: dict[str, Any] = {"trained_samples": 2_000, "global_batch_size": 200, "torch": "2.4.0"}
    common = to_table(block(base(**weak) + pair(**weak, **more))).common
    assert common[0].endswith(
        "weak scaling; global batch 100, 200; 1,000 or 2,000 samples trained in 10 steps; torch 2.3.1, 2.4.0"
    )
    assert "; 1,000 samples trained in 10 steps; torch 2.3.1" in to_table(block(base() + pair())).common[0]


def test_a_column_with_one_value_is_said_once_before_another_is_left_out() -> None:
    lines = [["1x1", "3", "41%", "98%", "the baseline"], ["1x2", "3", "31%", "98%", "yes"]]
    grid = Grid("", ["layout", "n", "MFU", "accuracy", "claimed"], lines)
    assert fit(grid, 40).equal == ()
    fitted = fit(grid, 30)
    assert (fitted.equal, fitted.left_out) == (("n 3", "accuracy 98%"), ())
    assert fitted.lines == [["1x1", "41%", "the baseline"], ["1x2", "31%", "yes"]]


def test_a_long_reason_becomes_a_footnote_and_equal_reasons_share_one() -> None:
    reason = "no one-process run on the same hardware to compare with"
    lines = [["1x1", "the baseline"], ["1x2", "yes"], ["1x4", reason], ["1x8", reason], ["2x8", f"{reason}, either"]]
    grid = Grid("", ["layout", "claimed"], lines)
    assert [cells[-1] for cells in fit(grid, 100).lines] == [line[-1] for line in lines]
    fitted = fit(grid, 40)
    assert [cells[-1] for cells in fitted.lines] == ["the baseline", "yes", "no (1)", "no (1)", "no (2)"]
    assert fitted.footnotes == (f"(1) {reason}", f"(2) {reason}, either")


def test_wide_letters_count_as_wide_and_a_table_that_cannot_fit_is_folded_without_a_loss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = "分散学習" * 12
    table = Table("t", ["layout", "claimed"], [["1x1", letters]])
    printed = lines_of(table, 60, capsys, monkeypatch)
    assert max(map(cell_len, printed)) <= 60
    assert letters in "".join("".join(printed).split()).replace("layoutclaimed", "")
    assert fit(table, 60, cell_len).footnotes == (f"(1) {letters}",)
