"""Which variables of the environment keep runs from being compared."""

from runner.report.run_summary import speed_variables

COMPARED = """NCCL_ALGO NCCL_P2P_DISABLE NCCL_IB_DISABLE NCCL_MIN_NCHANNELS TORCH_NCCL_BLOCKING_WAIT
TORCH_DISTRIBUTED_DEBUG OMP_PROC_BIND PYTORCH_CUDA_ALLOC_CONF GLOO_DEVICE_TRANSPORT""".split()
PLACES = """OMP_NUM_THREADS NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME
NCCL_COMM_ID NCCL_TOPO_FILE TORCH_HOME TORCH_EXTENSIONS_DIR TORCH_LOGS TORCH_CPP_LOG_LEVEL
TORCH_NCCL_ASYNC_ERROR_HANDLING PET_MASTER_PORT CUDA_VISIBLE_DEVICES""".split()


def test_variables_that_change_the_speed_are_compared_and_places_are_not() -> None:
    assert [*speed_variables([{"env": dict.fromkeys([*COMPARED, *PLACES], "1")}])] == sorted(COMPARED)


def test_ranks_that_differ_show_both_values_and_what_is_no_mapping_is_nothing() -> None:
    facts = [{"env": {"NCCL_ALGO": "Ring"}}, {"env": {"NCCL_ALGO": "Tree"}}, {"env": ["x"]}, {}]
    assert speed_variables(facts) == {"NCCL_ALGO": "Ring, Tree"}
