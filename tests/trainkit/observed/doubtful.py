"""Trainings on something other than each batch once; unknown figures have to be left open."""

import threading

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset

from tests.trainkit.observed.base import INPUTS, loader, made, open_count, script, step, train


@script
def batches_kept_in_a_list(model, optimizer):
    batches = list(loader(16))
    samples = sum(step(model, optimizer, batch) for _ in range(2) for batch in batches)
    return {"steps": 12, "samples": samples, "samples_from": "model", "samples_without_gradient": 0}


@script
def half_of_each_batch_for_this_rank(model, optimizer):
    for inputs, targets in loader(10):
        step(model, optimizer, (inputs[::2], targets[::2]))
    return open_count(9)


@script
def features_kept_and_trained_on_in_slices(model, optimizer):
    kept = torch.cat([inputs for inputs, _ in iter(loader(9))])
    for _ in range(10):
        at = torch.randint(90, (32,))
        step(model, optimizer, (kept[at], kept[at].sum(1, keepdim=True)))
    return {"steps": 10, "samples": 320, "samples_from": "model"}


@script
def attacks_on_the_test_set_between_epochs(model, optimizer):
    for _ in range(2):
        train(model, optimizer, loader(9))
        for inputs, targets in loader(30):
            F.mse_loss(model(inputs.requires_grad_()), targets).backward()
    return open_count(20)


@script
def samples_without_a_batch(model, optimizer):
    for inputs, targets in loader(None):
        step(model, optimizer, (inputs[None], targets[None]))
    return open_count(90)


class Ragged(IterableDataset):
    def __iter__(self):
        return iter([INPUTS[: 1 + at % 5] for at in range(40)])


@script
def a_stream_of_lists_of_tensors(model, optimizer):
    for batch in DataLoader(Ragged(), 8, collate_fn=list):
        step(model, optimizer, (torch.cat(batch), torch.cat(batch).sum(1, keepdim=True)))
    return open_count(5)


@script
def tensors_that_enter_the_model_twice(model, optimizer):
    for _ in range(12):
        at = torch.randint(90, (8,))
        inputs = INPUTS[at]
        for _ in range(2):
            F.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return open_count(12)


@script
def one_sample_a_step_without_a_batch(model, optimizer):
    for inputs in INPUTS[:12]:
        step(model, optimizer, (inputs, inputs.sum(0, keepdim=True)))
    return open_count(12)


@script
def two_models_each_an_epoch_in_turn(*_):
    pairs, samples = [made(), made(kind=torch.optim.Adam)], 0
    for _ in range(2):
        for model, optimizer in pairs:
            samples += train(model, optimizer, loader(9))
    return pairs[0][0], {"steps": 40, "samples": samples}


@script
def three_threads_that_train(model, optimizer):
    step(model, optimizer, (INPUTS, INPUTS.sum(1, keepdim=True)))
    threads = [threading.Thread(target=lambda: step(model, *made()[1:], (INPUTS, INPUTS[:, :1]))) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    return open_count(None)
