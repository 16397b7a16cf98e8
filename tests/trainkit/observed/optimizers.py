"""Trainings with steps of their own kind, and without a loader."""

from contextlib import suppress
from typing import Any

import torch
import torch.distributed.tensor.parallel
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.trainkit.observed.base import INPUTS, Done, evaluate, loader, made, script, step, train


@script
def patched_from_the_fourth_step_on() -> Done:
    model, optimizer = made()
    for number, batch in enumerate(loader(9)):
        if number == 3:

            def own(closure: Any = None, parameters: Any = tuple(model.parameters())) -> None:
                with torch.no_grad():
                    for parameter in parameters:
                        parameter -= 0.01 * parameter.grad

            optimizer.step = own
        step(model, optimizer, batch)
    return model, {"steps": None, "samples": None}


@script
def wrapped_and_still_calling_the_original() -> Done:
    model, optimizer = made()
    original = optimizer.step
    optimizer.step = lambda *args: original(*args)
    samples = train(model, optimizer, loader(9))
    return model, {"steps": 10, "samples": samples}


class Parent(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


@script
def a_step_within_a_step() -> Done:
    model, optimizer = made(kind=Parent)
    samples = train(model, optimizer, loader(9))
    return model, {"steps": 10, "samples": samples}


@script
def a_step_that_raised() -> Done:
    model, optimizer = made(kind=torch.optim.Adam)
    samples = 0
    for number, batch in enumerate(loader(9)):
        with suppress(ZeroDivisionError):
            if number == 2:
                optimizer.step(lambda: 1 // 0)
        samples += step(model, optimizer, batch)
    return model, {"steps": 10, "samples": samples}


@script
def without_an_optimizer() -> Done:
    model, _ = made()
    for inputs, targets in loader(9):
        model.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad  # type: ignore[operator]
    return model, {"steps": None, "samples": None}


@script
def slices_of_tensors() -> Done:
    model, optimizer = made()
    for at in range(0, 90, 9):
        step(model, optimizer, (INPUTS[at : at + 9], INPUTS[at : at + 9].sum(1, keepdim=True)))
    return model, {"steps": 10, "samples": 90, "samples_from": "model", "accumulation": 1, "batches": None}


@script
def one_batch_again_and_again() -> Done:
    model, optimizer = made()
    batch = next(iter(loader(9)))
    for _ in range(10):
        step(model, optimizer, batch)
    return model, {"steps": 10, "samples": 90, "batch_size": 9, "samples_from": "model", "passes": None}


class Named(nn.Module):
    """Takes words, a dict or a tuple, and has parts of its own class."""

    def __init__(self, depth: int = 1) -> None:
        super().__init__()
        self.model = made()[0] if not depth else Named(depth - 1)

    def forward(self, given: Any = None, **words: Any) -> Any:
        if isinstance(given, dict):
            given = given["inputs"]
        return self.model(words["inputs"] if given is None else given[0] if isinstance(given, tuple) else given)


def named() -> tuple[nn.Module, Any]:
    model = Named()
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


@script
def tensors_in_words_dicts_and_tuples_with_evaluations() -> Done:
    model, optimizer = named()
    loss = nn.MSELoss()
    with torch.no_grad():
        model(INPUTS)
    for number in range(12):
        inputs = INPUTS[: 5 if number == 11 else 16]
        given: Any = ({"scale": INPUTS.sum(), "inputs": inputs}, (inputs, INPUTS), inputs)[number % 3]
        outputs = model(inputs=inputs) if number == 0 else model(given)
        optimizer.zero_grad()
        loss(outputs, inputs.sum(1, keepdim=True)).backward()
        optimizer.step()
        if number % 5 == 4:
            evaluate(model, [(INPUTS[:7], None)])
    model(INPUTS[:3])
    truth = {"steps": 12, "samples": 11 * 16 + 5, "samples_without_gradient": 90 + 14 + 3, "samples_from": "model"}
    return model, truth


@script
def tensors_in_micro_batches_with_checkpoints() -> Done:
    model, optimizer = made()
    whole = nn.Sequential(nn.Linear(4, 4), Checkpointed(model))
    for number in range(12):
        F.mse_loss(whole(INPUTS[:6]), INPUTS[:6].sum(1, keepdim=True)).backward()
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    return model, {"steps": 4, "samples": 72, "backwards": 12, "accumulation": 3, "samples_without_gradient": 0}


class Checkpointed(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Any) -> Any:
        return checkpoint(self.model, inputs, use_reentrant=True)


@script
def two_calls_of_the_model_a_step() -> Done:
    model, optimizer = made()
    for _ in range(10):
        optimizer.zero_grad()
        (model(INPUTS[:9]) - model(INPUTS[9:18])).square().mean().backward()
        optimizer.step()
    return model, {"steps": 10, "samples": None}


@script
def tensors_of_two_modules() -> Done:
    model, optimizer = made()
    head = nn.Linear(1, 1)
    for _ in range(6):
        optimizer.zero_grad()
        head(model(INPUTS[:9])).mean().backward()
        optimizer.step()
    return model, {"steps": 6, "samples": None}


@script
def closures_of_lbfgs_without_a_loader() -> Done:
    model, _ = made()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    model.eval()

    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(INPUTS), INPUTS.sum(1, keepdim=True))
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    return model, {"steps": 5, "samples": None}


@script
def sequences_whose_first_dimension_is_time() -> Done:
    made()
    model = nn.LSTM(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        optimizer.zero_grad()
        model(INPUTS.view(9, 10, 4))[0].mean().backward()
        optimizer.step()
    return model, {"steps": 6, "samples": None}


@script
def compiled_without_a_loader() -> Done:
    model, optimizer = made()
    model.eval()
    fast = torch.compile(model, backend="eager")
    for _ in range(6):
        step(fast, optimizer, (INPUTS[:9], INPUTS[:9].sum(1, keepdim=True)))  # type: ignore[arg-type]
    return model, {"steps": 6, "samples": None}
