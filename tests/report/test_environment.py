"""Which variables of the environment keep runs from being compared."""

import pytest

from runner.report.run_summary import speed_variables


@pytest.mark.parametrize(
    ("name", "compared"),
    {
        "NCCL_ALGO": True,
        "NCCL_P2P_DISABLE": True,
        "NCCL_IB_DISABLE": True,
        "NCCL_MIN_NCHANNELS": True,
        "TORCH_NCCL_BLOCKING_WAIT": True,
        "TORCH_DISTRIBUTED_DEBUG": True,
        "OMP_PROC_BIND": True,
        "PYTORCH_CUDA_ALLOC_CONF": True,
        "GLOO_DEVICE_TRANSPORT": True,
        "OMP_NUM_THREADS": False,
        "NCCL_DEBUG": False,
        "NCCL_DEBUG_SUBSYS": False,
        "NCCL_DEBUG_FILE": False,
        "NCCL_SOCKET_IFNAME": False,
        "GLOO_SOCKET_IFNAME": False,
        "NCCL_COMM_ID": False,
        "NCCL_TOPO_FILE": False,
        "TORCH_HOME": False,
        "TORCH_EXTENSIONS_DIR": False,
        "TORCH_LOGS": False,
        "TORCH_CPP_LOG_LEVEL": False,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": False,
        "PET_MASTER_PORT": False,
        "CUDA_VISIBLE_DEVICES": False,
    }.items(),
)
def test_variables_that_change_the_speed_are_compared_and_places_are_not(name: str, compared: object) -> None:
    assert bool(speed_variables([{"env": {name: "1"}}])) is compared


def test_ranks_that_differ_show_both_values_and_what_is_no_mapping_is_nothing() -> None:
    facts = [{"env": {"NCCL_ALGO": "Ring"}}, {"env": {"NCCL_ALGO": "Tree"}}, {"env": ["x"]}, {}]
    assert speed_variables(facts) == {"NCCL_ALGO": "Ring, Tree"}
