"""What of a record the table compares: the code that a run really was, its variables, and the options of its target."""

from pathlib import Path

import pytest

from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE, Record
from runner.report.run_summary import speed_variables, summary_of
from runner.report.summarize import summarize
from runner.report.table import to_table
from tests.support.records import Make, make_launch

CHECKOUT = {"sources_sha256": "c" * 64}


@pytest.mark.parametrize(
    ("reported", "code"),
    [
        ({}, "c" * 64),
        ({"sources_sha256": "a" * 64}, "a" * 64),
        ({"program_sha256": "b" * 64}, f"{'b' * 64} {'c' * 64}"),
        ({"program_sha256": None}, "c" * 64),
    ],
)
def test_the_code_of_a_run_is_what_its_processes_report_and_else_that_of_the_checkout(
    tmp_path: Path, make: Make, reported: dict[str, str | None], code: str
) -> None:
    folder = make.run(tmp_path, start=reported, code=CHECKOUT)
    assert summary_of(folder.read()).same["code"] == code


COMPARED = """NCCL_ALGO NCCL_P2P_DISABLE NCCL_IB_DISABLE NCCL_MIN_NCHANNELS TORCH_NCCL_BLOCKING_WAIT
TORCH_DISTRIBUTED_DEBUG OMP_PROC_BIND PYTORCH_CUDA_ALLOC_CONF GLOO_DEVICE_TRANSPORT""".split()
PLACES = """OMP_NUM_THREADS NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME
NCCL_COMM_ID NCCL_TOPO_FILE TORCH_HOME TORCH_EXTENSIONS_DIR TORCH_LOGS TORCH_CPP_LOG_LEVEL
TORCH_NCCL_ASYNC_ERROR_HANDLING PET_MASTER_PORT CUDA_VISIBLE_DEVICES""".split()


def test_variables_that_change_the_speed_are_compared_with_the_values_of_all_ranks_and_places_are_not() -> None:
    assert [*speed_variables([{"env": dict.fromkeys([*COMPARED, *PLACES], "1")}])] == sorted(COMPARED)
    facts = [{"env": {"NCCL_ALGO": "Ring"}}, {"env": {"NCCL_ALGO": "Tree"}}, {}]
    assert speed_variables(facts) == {"NCCL_ALGO": "Ring, Tree"}


@pytest.mark.parametrize(
    ("device", "gpus", "hardware"),
    [
        ("cuda", ["A GPU", "Another"], "A GPU"),
        ("cuda", [], "A CPU"),
        ("cpu", ["A GPU"], "A CPU, 8 cores"),
    ],
)
def test_the_device_of_a_run_that_named_none_is_that_of_the_machine(
    device: str, gpus: list[str], hardware: str
) -> None:
    launch = make_launch(device=device, host={"name": "here", "cpu": "A CPU", "cores": 8, "gpus": gpus})
    assert summary_of(Record(launch=launch, status="failed")).hardware == hardware


@pytest.mark.parametrize("seconds", [-1.0, 0.0])
def test_a_time_of_zero_or_less_is_none(seconds: float) -> None:
    record = Record(launch=make_launch(), status="completed", metrics={"train_seconds": seconds})
    assert summary_of(record).seconds is None


@pytest.mark.parametrize(
    ("option", "kind", "runs", "found"),
    [
        (
            "link",
            BETWEEN_NODES,
            {"2x1 ": 6.0, "2x1 1gbit": 8.0, "2x1 100mbit": 12.0, "1x1 ": 10.0, "1x1 1gbit": 10.0},  # one node has none
            {"1x1 ": "1.00", "2x1 ": "1.66", "2x1 1gbit": "1.25", "2x1 100mbit": "0.83"},
        ),
        (
            "cpus",
            OF_EACH_NODE,
            {"1x1 1,0.5": 10.0, "2x1 1,0.5": 8.0, "2x1 1": 5.0},
            {"1x1 1": "1.00", "2x1 1+0.5": "1.25", "2x1 1": "2.00"},
        ),
    ],
)
def test_each_value_of_an_option_has_a_row_and_its_baseline_is_one_process_as_on_the_first_node(
    make: Make, results: Path, option: str, kind: str, runs: dict[str, float], found: dict[str, str]
) -> None:
    for repeat in (1, 2, 3):
        for cell, seconds in runs.items():
            layout, value = cell.split(" ")
            options = {"options": {option: value}, "option_axes": {option: kind}} if value else {}
            make.run(results, seconds + repeat / 100, layout=layout, target="compose", **options)
    (block,) = summarize(results)[0]
    table = to_table(block)
    assert table.head[:3] == ["layout", option, "n"]
    assert {f"{line[0]} {line[1]}": line[4].partition(" ")[0] for line in table.lines} == found
