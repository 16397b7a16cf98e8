"""Who printed a line, from the prefixes of launchers and loggers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.logs.origin import split

# Rank, name, and a line in which ^ ends the prefixes.
LINES = """\
7;;[default7]: ^Done!
0;;[rank0]:^Done!
0;;[1,0]<stdout>:^Done!
3;;[3]<stderr>:^Done!
2;;[2] ^Done!
;mnist-worker-1/pytorch;[pod/mnist-worker-1/pytorch] ^Done!
;bert-master-0;[Pod bert-master-0]: ^Done!
;worker-1;worker-1  | ^Done!
12;;12: ^Done!
;3560620;[PID 3560620]\t^Done!
;;2024-10-08T13:25:15Z INFO     ^Done!
;;[2024-10-08 13:25:08,740] ^Done!
3;worker-1;worker-1  | [rank3]: 2024-10-08 13:25:08,740 INFO ^Done!
;master;master    | ^Done!
;4711;(RayTrainWorker pid=4711, ip=10.0.0.1) ^Done!
3;;[prterun-node17-4711@1,3]<stdout>:^Done!
;;[INFO|trainer.py:1145] 2021-05-25 06:38:26,285 >>   ^Num Epochs = 1
;;04/01/2022 12:00:00 - INFO - __main__ -   ^Num Epochs = 1
0;;2023-08-02 00:41:17.936 | INFO     | __main__:log:54 - [Rank 0] ^Loss: 1
;;2025-01-10 08:12:01,222 - root - INFO - ^step: 1
;; [2025-02-01 10:00:05] ^iteration
;trainer-1/71;trainer-1  | [PID 71]\t^loss
;;[2024-05-01 10:00:00,123][train][INFO] - ^Done!
;;I0501 10:00:00.123456 140 train.py:160] ^Done!
1;;[rank1]:W0501 10:00:00.123000 140/MainProcess torch/_dynamo/x.py:7] ^Done!
1;;2024-05-01T10:00:00.123456789+02:00 stderr F [rank1]: ^Done!
;123;May 01 10:00:00 node17 python[123]: ^Done!
;123;2024-05-01T10:00:00+0200 node17 python[123]: ^Done!
;;10:00:00 INFO ^Done!
;;10:00:00,123 - INFO - ^Done!
;;[10:00:06] ^Done!
;;[NeMo I 2024-05-01 10:00:00 exp_manager:396] ^Done!
;;[05/01 10:00:00 d2.utils.events]:  ^eta: 9:21:11
;;[05/01 10:00:00] d2.utils.events INFO:  ^eta: 9:21:11
;;2023-05-01 10:01:00 | INFO | train_inner | ^Done!
;;05/01 10:01:00 - mmengine - INFO - ^Done!
;mnist-worker-0;mnist-worker-0 pytorch ^Done!
3;bert-node-0-1-x7k2p;bert-node-0-1-x7k2p node [rank3]: ^Done!
;;^my-worker-0 pytorched Done!
;;^10:00:00 it is
;;^May 01 was a day
;;^Inception v3 [INFO] - x
;;^Epoch 0 | Training snapshot saved
;;^loss: 2.3  [    0/60000]
;;^[...]
;;^step:1/2 train_loss:3
;;^10/10 [==] - loss: 1
;;^{'loss': 1}
"""


@pytest.mark.parametrize("row", LINES.splitlines())
def test_prefixes_of_launchers_and_loggers_are_recognised(row: str) -> None:
    rank, name, line = row.split(";", 2)
    origin, rest = split(line.replace("^", ""))
    assert (origin.rank, origin.name, rest) == (int(rank) if rank else None, name, line.partition("^")[2])


def test_time_stamps_count_with_their_zone() -> None:
    moments = [split(f"2024-10-08T{text} x")[0].time for text in ("13:25:15Z", "15:25:15+02:00", "13:25:15.000")]
    assert len(set(moments)) == 1
    assert split("2024-99-99T13:25:15Z x")[0].time is None


@given(st.text(max_size=200))
def test_the_rest_is_always_the_end_of_the_line(line: str) -> None:
    assert line.endswith(split(line)[1])
