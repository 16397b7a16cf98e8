"""Who printed a line, from what launchers and loggers write before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.logs.origin import split

UNPREFIXED = ("loss: 2.3  [    0/60000]", "[...]", "step:1/2 train_loss:3", "10/10 [==] - loss: 1", "{'loss': 1}")


def test_time_stamps_count_with_their_zone() -> None:
    moments = [split(f"2024-10-08T{text} x")[0].time for text in ("13:25:15Z", "15:25:15+02:00", "13:25:15.000")]
    assert len(set(moments)) == 1
    assert split("2024-99-99T13:25:15Z x")[0].time is None


@given(st.text(max_size=200))
def test_what_is_left_is_always_the_end_of_the_line(line: str) -> None:
    _, rest = split(line)
    assert line.endswith(rest)


@pytest.mark.parametrize(
    ("line", "name", "rank", "rest"),
    [
        ("[default7]: Done!", "", 7, "Done!"),
        ("[rank0]:Done!", "", 0, "Done!"),
        ("[1,0]<stdout>:Done!", "", 0, "Done!"),
        ("[3]<stderr>:Done!", "", 3, "Done!"),
        ("[2] Done!", "", 2, "Done!"),
        ("[pod/mnist-worker-1/pytorch] Done!", "mnist-worker-1/pytorch", None, "Done!"),
        ("[Pod bert-master-0]: Done!", "bert-master-0", None, "Done!"),
        ("worker-1  | Done!", "worker-1", None, "Done!"),
        ("12: Done!", "", 12, "Done!"),
        ("[PID 3560620]\tDone!", "3560620", None, "Done!"),
        ("2024-10-08T13:25:15Z INFO     Done!", "", None, "Done!"),
        ("[2024-10-08 13:25:08,740] Done!", "", None, "Done!"),
        ("worker-1  | [rank3]: 2024-10-08 13:25:08,740 INFO Done!", "worker-1", 3, "Done!"),
        ("master    | Done!", "master", None, "Done!"),
        ("(RayTrainWorker pid=4711, ip=10.0.0.1) Done!", "4711", None, "Done!"),
        ("[prterun-node17-4711@1,3]<stdout>:Done!", "", 3, "Done!"),
        ("[INFO|trainer.py:1145] 2021-05-25 06:38:26,285 >>   Num Epochs = 1", "", None, "Num Epochs = 1"),
        ("04/01/2022 12:00:00 - INFO - __main__ -   Num Epochs = 1", "", None, "Num Epochs = 1"),
        ("2023-08-02 00:41:17.936 | INFO     | __main__:log:54 - [Rank 0] Loss: 1", "", 0, "Loss: 1"),
        ("2025-01-10 08:12:01,222 - root - INFO - step: 1", "", None, "step: 1"),
        (" [2025-02-01 10:00:05] iteration", "", None, "iteration"),
        ("trainer-1  | [PID 71]\tloss", "trainer-1/71", None, "loss"),
        ("[2024-05-01 10:00:00,123][train][INFO] - Done!", "", None, "Done!"),
        ("I0501 10:00:00.123456 140 train.py:160] Done!", "", None, "Done!"),
        ("[rank1]:W0501 10:00:00.123000 140/MainProcess torch/_dynamo/x.py:7] Done!", "", 1, "Done!"),
        ("2024-05-01T10:00:00.123456789+02:00 stderr F [rank1]: Done!", "", 1, "Done!"),
        ("May 01 10:00:00 node17 python[123]: Done!", "123", None, "Done!"),
        ("2024-05-01T10:00:00+0200 node17 python[123]: Done!", "123", None, "Done!"),
        ("10:00:00 INFO Done!", "", None, "Done!"),
        ("10:00:00,123 - INFO - Done!", "", None, "Done!"),
        ("[10:00:06] Done!", "", None, "Done!"),
        ("[NeMo I 2024-05-01 10:00:00 exp_manager:396] Done!", "", None, "Done!"),
        ("[05/01 10:00:00 d2.utils.events]:  eta: 9:21:11", "", None, "eta: 9:21:11"),
        ("[05/01 10:00:00] d2.utils.events INFO:  eta: 9:21:11", "", None, "eta: 9:21:11"),
        ("2023-05-01 10:01:00 | INFO | train_inner | Done!", "", None, "Done!"),
        ("05/01 10:01:00 - mmengine - INFO - Done!", "", None, "Done!"),
        ("mnist-worker-0 pytorch Done!", "mnist-worker-0", None, "Done!"),
        ("bert-node-0-1-x7k2p node [rank3]: Done!", "bert-node-0-1-x7k2p", 3, "Done!"),
        ("my-worker-0 pytorched Done!", "", None, "my-worker-0 pytorched Done!"),
        *((line, "", None, line) for line in UNPREFIXED),
        ("10:00:00 it is", "", None, "10:00:00 it is"),
        ("May 01 was a day", "", None, "May 01 was a day"),
        ("Inception v3 [INFO] - x", "", None, "Inception v3 [INFO] - x"),
        ("Epoch 0 | Training snapshot saved", "", None, "Epoch 0 | Training snapshot saved"),
    ],
)
def test_launchers_and_loggers_of_many_projects_are_known(line: str, name: str, rank: int, rest: str) -> None:
    origin, left = split(line)
    assert (origin.name, origin.rank, left) == (name, rank, rest)
