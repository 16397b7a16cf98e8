"""Trainings on batches of loaders."""

import itertools
import queue
import threading

import torch
import torch.nn.functional as F
from torch.utils.data import IterableDataset, get_worker_info

from tests.trainkit.observed.base import INPUTS, evaluate, loader, made, script, step, train


@script
def plain(model, optimizer):
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(3):
        train(model, optimizer, loader(15, shuffle=True))
        schedule.step()
    counted = {"samples_per_pass": 90, "dataset_samples": 90, "batches": 18, "batch_size": 15, "accumulation": 1}
    rates = {"lr_first": 0.01, "lr_last": 0.0025}
    return {"steps": 18, "samples": 270, "passes": 3, "samples_without_gradient": 0, **counted, **rates}


@script
def accumulation_and_steps_after_the_last(model, optimizer):
    for _ in range(2):
        for number, batch in enumerate(loader(9)):
            F.mse_loss(model(batch[0]), batch[1]).backward()
            if number % 4 == 3 or number == 9:
                optimizer.step()
                optimizer.zero_grad()
    return {"steps": 6, "samples": 180, "accumulation": 4, "passes": 2}


@script
def drop_last(model, optimizer):
    samples = sum(train(model, optimizer, loader(16, drop_last=True, num_workers=1)) for _ in range(2))
    return {"steps": 10, "samples": samples, "samples_per_pass": 80, "dataset_samples": 90}


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        numbers = range(50) if worker is None else range(worker.id, 50, worker.num_workers)
        return ((INPUTS[at], INPUTS[at].sum()[None]) for at in numbers)


@script
def iterable_data_with_workers(model, optimizer):
    samples = train(model, optimizer, loader(8, Stream(), num_workers=2))
    return {"steps": 8, "samples": samples, "dataset_samples": None, "passes": 1}


@script
def a_thread_that_prefetches(model, optimizer):
    ready = queue.Queue(2)
    thread = threading.Thread(target=lambda: [ready.put(batch) for batch in itertools.chain(loader(15), [None])])
    thread.start()
    for batch in iter(ready.get, None):
        step(model, optimizer, batch)
    thread.join()
    return {"steps": 6, "samples": None}


def scaled(kind, *infinite):
    model, optimizer = made(kind=kind)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number, (inputs, targets) in enumerate(loader(15)):
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(inputs), targets)).backward()
        if number in infinite:
            next(model.parameters()).grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
    return model


@script
def steps_that_amp_skips(*_):
    return scaled(torch.optim.SGD, 0, 1, 4), {"steps": 3, "skipped_steps": 3, "samples": 90, "accumulation": 1}


class Fused(torch.optim.Optimizer):
    """Checks for infinite gradients itself, as fused optimizers do."""

    _step_supports_amp_scaling = True
    found_inf: torch.Tensor
    grad_scale: torch.Tensor

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in [] if self.found_inf.item() else self.param_groups[0]["params"]:
            parameter -= self.param_groups[0]["lr"] * parameter.grad / self.grad_scale


@script
def steps_that_a_fused_optimizer_skips(*_):
    return scaled(Fused, 0, 4), {"steps": 4, "skipped_steps": 2, "samples": 90}


@script
def two_optimizers_of_a_gan(*_):
    maker, of_maker = made()
    judge, of_judge = made(kind=torch.optim.Adam)
    for real, _ in loader(15):
        made_up = maker(real).expand(-1, 4)
        of_judge.zero_grad()
        judge(real).mean().backward()
        judge(made_up.detach()).mean().backward()
        of_judge.step()
        of_maker.zero_grad()
        judge(made_up).mean().backward()
        of_maker.step()
    return maker, {"steps": 6, "samples": 90, "accumulation": None}


@script
def evaluation_every_five_steps(model, optimizer):
    test, samples, tested = loader(7), 0, 0
    for _ in range(2):
        for number, batch in enumerate(loader(9)):
            samples += step(model, optimizer, batch)
            if number % 5 == 4:
                tested += evaluate(model, test)
    return {"steps": 20, "samples": samples, "samples_without_gradient": tested, "passes": 2}


@script
def evaluation_of_three_batches_with_workers_that_stay(model, optimizer):
    test = loader(9, num_workers=1, persistent_workers=True)
    for number, batch in enumerate(loader(9)):
        step(model, optimizer, batch)
        if number in (4, 9):
            evaluate(model, itertools.islice(test, 3))
    return {"steps": 10, "samples": 90}


@script
def a_first_look_at_a_batch(model, optimizer):
    batches = loader(9)
    look = iter(batches)
    next(look)
    samples = train(model, optimizer, batches)
    return {"steps": 10, "samples": samples}


@script
def batches_of_two_loaders(model, optimizer):
    for labelled, unlabelled in zip(loader(9), loader(9, shuffle=True), strict=True):
        optimizer.zero_grad()
        (F.mse_loss(model(labelled[0]), labelled[1]) + model(unlabelled[0]).mean()).backward()
        optimizer.step()
    return {"steps": 10, "samples": None}


@script
def resumed_in_the_middle_of_an_epoch(model, optimizer):
    samples = 0
    for epoch in range(2):
        for number, batch in enumerate(loader(16)):
            if epoch == 0 and number < 3:
                continue
            samples += step(model, optimizer, batch)
    return {"steps": 9, "samples": samples, "passes": 1, "samples_per_pass": 90}


@script
def batches_passed_over(model, optimizer):
    for number, batch in enumerate(loader(9)):
        if number not in (3, 6):
            step(model, optimizer, batch)
    return {"steps": 8, "samples": None}
