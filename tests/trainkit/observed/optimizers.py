"""Trainings with unusual steps, and without a loader."""

from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.trainkit.observed.base import INPUTS, evaluate, loader, made, script, step, train


@script
def patched_from_the_fourth_step_on(model, optimizer):
    for number, batch in enumerate(loader(9)):
        if number == 3:

            def own(closure=None, parameters=tuple(model.parameters())):
                with torch.no_grad():
                    for parameter in parameters:
                        parameter -= 0.01 * parameter.grad

            optimizer.step = own
        step(model, optimizer, batch)
    return {"steps": None, "samples": None}


class Parent(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


@script
def a_step_within_a_step(*_):
    model, optimizer = made(kind=Parent)
    samples = train(model, optimizer, loader(9))
    return model, {"steps": 10, "samples": samples}


@script
def a_step_that_raised(*_):
    model, optimizer = made(kind=torch.optim.Adam)
    samples = 0
    for number, batch in enumerate(loader(9)):
        with suppress(ZeroDivisionError):
            if number == 2:
                optimizer.step(lambda: 1 // 0)
        samples += step(model, optimizer, batch)
    return model, {"steps": 10, "samples": samples}


@script
def without_an_optimizer(model, optimizer):
    for inputs, targets in loader(9):
        model.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
    return {"steps": None, "samples": None}


@script
def slices_of_tensors(model, optimizer):
    for at in range(0, 90, 9):
        step(model, optimizer, (INPUTS[at : at + 9], INPUTS[at : at + 9].sum(1, keepdim=True)))
    return {"steps": 10, "samples": 90, "samples_from": "model", "accumulation": 1, "batches": None}


class Named(nn.Module):
    def __init__(self, depth=1):
        super().__init__()
        self.model = made()[0] if not depth else Named(depth - 1)

    def forward(self, given=None, **words):
        if isinstance(given, dict):
            given = given["inputs"]
        return self.model(words["inputs"] if given is None else given[0] if isinstance(given, tuple) else given)


def named():
    model = Named()
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


@script
def tensors_in_words_dicts_and_tuples_with_evaluations(*_):
    model, optimizer = named()
    loss = nn.MSELoss()
    with torch.no_grad():
        model(INPUTS)
    for number in range(12):
        inputs = INPUTS[: 5 if number == 11 else 16]
        given = ({"scale": INPUTS.sum(), "inputs": inputs}, (inputs, INPUTS), inputs)[number % 3]
        outputs = model(inputs=inputs) if number == 0 else model(given)
        optimizer.zero_grad()
        loss(outputs, inputs.sum(1, keepdim=True)).backward()
        optimizer.step()
        if number % 5 == 4:
            evaluate(model, [(INPUTS[:7], None)])
    model(INPUTS[:3])
    return model, {"steps": 12, "samples": 181, "samples_without_gradient": 90 + 14 + 3, "samples_from": "model"}


@script
def tensors_in_micro_batches_with_checkpoints(model, optimizer):
    whole = nn.Sequential(nn.Linear(4, 4), Checkpointed(model))
    for number in range(12):
        F.mse_loss(whole(INPUTS[:6]), INPUTS[:6].sum(1, keepdim=True)).backward()
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    return {"steps": 4, "samples": 72, "backwards": 12, "accumulation": 3, "samples_without_gradient": 0}


class Checkpointed(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs):
        return checkpoint(self.model, inputs, use_reentrant=True)


@script
def two_calls_of_the_model_a_step(model, optimizer):
    for _ in range(10):
        optimizer.zero_grad()
        (model(INPUTS[:9]) - model(INPUTS[9:18])).square().mean().backward()
        optimizer.step()
    return {"steps": 10, "samples": None}


@script
def tensors_of_two_modules(model, optimizer):
    head = nn.Linear(1, 1)
    for _ in range(6):
        optimizer.zero_grad()
        head(model(INPUTS[:9])).mean().backward()
        optimizer.step()
    return {"steps": 6, "samples": None}


@script
def closures_of_lbfgs_without_a_loader(model, optimizer):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    model.eval()

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(INPUTS), INPUTS.sum(1, keepdim=True))
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    return {"steps": 5, "samples": None}


@script
def sequences_whose_first_dimension_is_time(*_):
    made()
    model = nn.LSTM(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        optimizer.zero_grad()
        model(INPUTS.view(9, 10, 4))[0].mean().backward()
        optimizer.step()
    return model, {"steps": 6, "samples": None}


@script
def compiled_without_a_loader(model, optimizer):
    model.eval()
    fast = torch.compile(model, backend="eager")
    for _ in range(6):
        step(fast, optimizer, (INPUTS[:9], INPUTS[:9].sum(1, keepdim=True)))
    return {"steps": 6, "samples": None}


@script
def closures_of_lbfgs(model, _):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    model.eval()
    for batch in loader(15):

        def closure(inputs=batch[0], targets=batch[1]):
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        optimizer.step(closure)
    return {"steps": 6, "samples": 90, "accumulation": None}
