"""Trainings in threads, children and several ranks, and by frameworks."""

import copy
import os
import threading
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import distributed as dist
from torch import multiprocessing, nn

from tests.trainkit.observed.base import evaluate, loader, made, script, step, train


@script
def steps_in_a_thread(model, optimizer):
    thread = threading.Thread(target=lambda: train(model, optimizer, loader(9)))
    thread.start()
    thread.join()
    return {"steps": 10, "samples": 90}


def as_rank(rank, world, slow):
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo", init_method=f"file://{Path.cwd()}/store", rank=rank, world_size=world)
    model, optimizer = made()
    model = nn.parallel.DistributedDataParallel(model)
    for batch in loader(5):
        time.sleep(0.03 * (rank == slow))
        step(model, optimizer, batch)


@script
def two_ranks_of_which_one_is_slow(*_):
    multiprocessing.start_processes(as_rank, (2, 1), 2, start_method="fork")
    return {"steps": 18, "samples": 90}


@script
def a_model_in_parts(*_):
    dist.init_process_group("gloo", init_method=f"file://{Path.cwd()}/store", rank=0, world_size=1)
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    model, optimizer = made()
    dist.tensor.parallel.parallelize_module(model, mesh, {})
    train(model, optimizer, loader(9))
    return model, {"steps": 10, "samples": None}


@script
def inference_only(model, optimizer):
    copied = copy.deepcopy(model)
    return {"steps": 0, "samples": None, "samples_without_gradient": evaluate(copied, loader(9))}


@script
def compiled(model, optimizer):
    model.eval()
    fast = torch.compile(model, backend="eager")
    samples = train(fast, optimizer, loader(9))
    return {"steps": 10, "samples": samples}


@script
def accelerate_with_an_early_break(*_):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer, batches = accelerator.prepare(*made(), loader(16))
    samples = 0
    for epoch in range(2):
        for number, (inputs, targets) in enumerate(batches):
            if epoch == 1 and number == 3:
                break
            optimizer.zero_grad()
            accelerator.backward(F.mse_loss(model(inputs), targets))
            optimizer.step()
            samples += len(inputs)
    return model, {"steps": 9, "samples": samples, "passes": 1, "samples_per_pass": 90}
