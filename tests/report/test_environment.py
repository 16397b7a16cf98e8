"""Which variables of the environment keep runs from being compared."""

from __future__ import annotations

import pytest

from runner.report.environment import speed_variables


@pytest.mark.parametrize(
    ("name", "compared"),
    {
        "NCCL_ALGO": "cuda",
        "NCCL_P2P_DISABLE": "cuda",
        "NCCL_IB_DISABLE": "cuda",
        "NCCL_MIN_NCHANNELS": "cuda",
        "TORCH_NCCL_BLOCKING_WAIT": "cuda",
        "TORCH_DISTRIBUTED_DEBUG": "cpu cuda",
        "OMP_PROC_BIND": "cpu cuda",
        "PYTORCH_CUDA_ALLOC_CONF": "cpu cuda",
        "GLOO_DEVICE_TRANSPORT": "cpu cuda",
        "OMP_NUM_THREADS": "",
        "NCCL_DEBUG": "",
        "NCCL_DEBUG_SUBSYS": "",
        "NCCL_DEBUG_FILE": "",
        "NCCL_SOCKET_IFNAME": "",
        "GLOO_SOCKET_IFNAME": "",
        "NCCL_COMM_ID": "",
        "NCCL_TOPO_FILE": "",
        "TORCH_HOME": "",
        "TORCH_EXTENSIONS_DIR": "",
        "TORCH_LOGS": "",
        "TORCH_CPP_LOG_LEVEL": "",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "",
        "PET_MASTER_PORT": "",
        "CUDA_VISIBLE_DEVICES": "",
    }.items(),
)
def test_variables_that_change_the_speed_are_compared_and_places_are_not(name: str, compared: str) -> None:
    found = [device for device in ("cpu", "cuda") if speed_variables([{"env": {name: "1"}}], device)]
    assert found == compared.split()


def test_ranks_that_differ_show_both_values_and_what_is_no_mapping_is_nothing() -> None:
    facts = [{"env": {"NCCL_ALGO": "Ring"}}, {"env": {"NCCL_ALGO": "Tree"}}, {"env": ["x"]}, {}]
    assert speed_variables(facts, "cuda") == {"NCCL_ALGO": "Ring, Tree"}
