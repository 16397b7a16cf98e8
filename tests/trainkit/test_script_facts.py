"""The GPU that a script's process uses."""

import pytest
import torch

from trainkit.distributed import Place
from trainkit.script_facts import choose_device


@pytest.mark.parametrize(("chosen", "local_rank", "gpu"), [(0, 1, 1), (3, 1, 3), (0, 5, 1)])
def test_the_gpu_is_the_scripts_choice_or_that_of_the_local_rank(
    monkeypatch: pytest.MonkeyPatch, chosen: int, local_rank: int, gpu: int
) -> None:
    of_cuda = {"is_available": True, "is_initialized": True, "device_count": 4, "current_device": chosen}
    for name, value in of_cuda.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    place = Place(local_rank, 8, local_rank, 8)
    assert choose_device(None, place) == torch.device("cuda", gpu)
    assert choose_device("cuda:2", place) == torch.device("cuda:2")
