"""Trainings in many styles, none of which knows that it is observed; each returns its model and what it counted itself.

A figure of None is one that the observer has to leave open.
"""

import copy
import itertools
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed.tensor.parallel
import torch.nn.functional as F
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

Truth = dict[str, Any]
Done = tuple[nn.Module | None, Truth]
SCRIPTS: dict[str, Callable[[], Done]] = {}
INPUTS = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(INPUTS, INPUTS.sum(1, keepdim=True))


def script(function: Callable[[], Done]) -> Callable[[], Done]:
    SCRIPTS[function.__name__] = function
    return function


def made(rate: float = 0.01, kind: Any = torch.optim.SGD) -> tuple[nn.Module, Any]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    return model, kind(model.parameters(), lr=rate)


def loader(size: int = 16, data: Dataset[Any] = DATA, **words: Any) -> DataLoader[Any]:
    return DataLoader(data, size, **words)


def step(model: nn.Module, optimizer: Any, batch: Any) -> int:
    optimizer.zero_grad()
    F.mse_loss(model(batch[0]), batch[1]).backward()
    optimizer.step()
    return len(batch[0])


@script
def plain() -> Done:
    model, optimizer = made()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(3):
        for batch in loader(15, shuffle=True):
            step(model, optimizer, batch)
        schedule.step()
    counted = {"samples_per_pass": 90, "dataset_samples": 90, "batches": 18, "batch_size": 15, "accumulation": 1}
    rates = {"lr_first": 0.01, "lr_last": 0.0025}
    return model, {"steps": 18, "samples": 270, "passes": 3, "samples_without_gradient": 0, **counted, **rates}


@script
def accumulation() -> Done:
    model, optimizer = made()
    steps = 0
    for number, batch in enumerate(loader(8)):
        F.mse_loss(model(batch[0]), batch[1]).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    return model, {"steps": steps, "samples": 90, "batches": 12, "accumulation": 4, "passes": 1}


@script
def accumulation_and_steps_after_the_last() -> Done:
    model, optimizer = made()
    for _ in range(2):
        for number, batch in enumerate(loader(9)):
            F.mse_loss(model(batch[0]), batch[1]).backward()
            if number % 4 == 3 or number == 9:
                optimizer.step()
                optimizer.zero_grad()
    return model, {"steps": 6, "samples": 180, "accumulation": 4, "passes": 2}


@script
def uneven_batches() -> Done:
    model, optimizer = made(kind=torch.optim.Adam)
    samples = sum(step(model, optimizer, batch) for _ in range(2) for batch in loader(16))
    return model, {"steps": 12, "samples": samples, "samples_per_pass": 90, "batch_size": 16}


@script
def drop_last() -> Done:
    model, optimizer = made()
    samples = sum(
        step(model, optimizer, batch) for _ in range(2) for batch in loader(16, drop_last=True, num_workers=1)
    )
    return model, {"steps": 10, "samples": samples, "samples_per_pass": 80, "dataset_samples": 90}


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        numbers = range(50) if worker is None else range(worker.id, 50, worker.num_workers)
        return ((INPUTS[at], INPUTS[at].sum()[None]) for at in numbers)


@script
def iterable_data_with_workers() -> Done:
    model, optimizer = made()
    samples = sum(step(model, optimizer, batch) for batch in loader(8, Stream(), num_workers=2))
    return model, {"steps": 8, "samples": samples, "dataset_samples": None, "passes": 1}


@script
def lists_of_a_detector() -> Done:
    model, optimizer = made()
    words: dict[str, Any] = {"collate_fn": lambda samples: [list(part) for part in zip(*samples, strict=True)]}
    samples = 0
    for images, targets in loader(16, **words):
        samples += step(model, optimizer, (torch.stack(images), torch.stack(targets)))
    return model, {"steps": 6, "samples": samples}


@script
def a_thread_that_prefetches() -> Done:
    model, optimizer = made()
    ready: queue.Queue[Any] = queue.Queue(2)
    thread = threading.Thread(target=lambda: [ready.put(batch) for batch in itertools.chain(loader(15), [None])])
    thread.start()
    for batch in iter(ready.get, None):
        step(model, optimizer, batch)
    thread.join()
    return model, {"steps": 6, "samples": None}


@script
def steps_that_amp_skips() -> Done:
    model, optimizer = made()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)  # type: ignore[attr-defined]
    for number, (inputs, targets) in enumerate(loader(15)):
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(inputs), targets)).backward()
        if number in (0, 1, 4):
            next(model.parameters()).grad.fill_(float("inf"))  # type: ignore[union-attr]
        scaler.step(optimizer)
        scaler.update()
    return model, {"steps": 3, "skipped_steps": 3, "samples": 90, "accumulation": 1}


class Fused(torch.optim.Optimizer):
    """Looks for infinite gradients by itself, as fused optimizers do."""

    _step_supports_amp_scaling = True
    found_inf: torch.Tensor
    grad_scale: torch.Tensor

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for parameter in [] if self.found_inf.item() else self.param_groups[0]["params"]:
            parameter -= self.param_groups[0]["lr"] * parameter.grad / self.grad_scale


@script
def steps_that_a_fused_optimizer_skips() -> Done:
    model, optimizer = made(kind=Fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)  # type: ignore[attr-defined]
    for number, (inputs, targets) in enumerate(loader(15)):
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(inputs), targets)).backward()
        if number in (0, 4):
            next(model.parameters()).grad.fill_(float("inf"))  # type: ignore[union-attr]
        scaler.step(optimizer)
        scaler.update()
    return model, {"steps": 4, "skipped_steps": 2, "samples": 90}


@script
def closures_of_lbfgs() -> Done:
    model, _ = made()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    model.eval()
    for batch in loader(15):

        def closure(inputs: Any = batch[0], targets: Any = batch[1]) -> Any:
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        optimizer.step(closure)  # type: ignore[no-untyped-call]
    return model, {"steps": 6, "samples": 90, "accumulation": None}


@script
def two_optimizers_of_a_gan() -> Done:
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
def five_folds_one_after_another() -> Done:
    samples = 0
    for _ in range(5):
        model, optimizer = made()
        samples += sum(step(model, optimizer, batch) for batch in loader(15))
    return model, {"steps": 30, "samples": samples, "passes": 5}


def evaluate(model: nn.Module, batches: Any) -> int:
    model.eval()
    with torch.no_grad():
        samples = sum(len(model(inputs)) for inputs, _ in batches)
    model.train()
    return samples


@script
def evaluation_every_five_steps() -> Done:
    model, optimizer = made()
    test, samples, tested = loader(7), 0, 0
    for _ in range(2):
        for number, batch in enumerate(loader(9)):
            samples += step(model, optimizer, batch)
            if number % 5 == 4:
                tested += evaluate(model, test)
    return model, {"steps": 20, "samples": samples, "samples_without_gradient": tested, "passes": 2}


@script
def evaluation_of_three_batches_with_workers_that_stay() -> Done:
    model, optimizer = made()
    test = loader(9, num_workers=1, persistent_workers=True)
    for number, batch in enumerate(loader(9)):
        step(model, optimizer, batch)
        if number in (4, 9):
            evaluate(model, itertools.islice(test, 3))
    return model, {"steps": 10, "samples": 90}


@script
def an_iterator_of_the_test_set_that_lives_on() -> Done:
    model, optimizer = made()
    test = iter(loader(9))
    for batch in loader(9):
        step(model, optimizer, batch)
        model(next(test)[0])
    return model, {"steps": 10, "samples": None}


@script
def a_first_look_at_a_batch() -> Done:
    model, optimizer = made()
    train = loader(9)
    look = iter(train)
    next(look)
    samples = sum(step(model, optimizer, batch) for batch in train)
    return model, {"steps": 10, "samples": samples}


@script
def batches_of_two_loaders() -> Done:
    model, optimizer = made()
    for labelled, unlabelled in zip(loader(9), loader(9, shuffle=True), strict=True):
        optimizer.zero_grad()
        (F.mse_loss(model(labelled[0]), labelled[1]) + model(unlabelled[0]).mean()).backward()
        optimizer.step()
    return model, {"steps": 10, "samples": None}


@script
def resumed_in_the_middle_of_an_epoch() -> Done:
    model, optimizer = made()
    samples = 0
    for epoch in range(2):
        for number, batch in enumerate(loader(16)):
            if epoch == 0 and number < 3:
                continue
            samples += step(model, optimizer, batch)
    return model, {"steps": 9, "samples": samples, "passes": 1, "samples_per_pass": 90}


@script
def batches_passed_over() -> Done:
    model, optimizer = made()
    for number, batch in enumerate(loader(9)):
        if number not in (3, 6):
            step(model, optimizer, batch)
    return model, {"steps": 8, "samples": None}


@script
def stopped_early() -> Done:
    model, optimizer = made()
    samples = 0
    for number, batch in enumerate(loader(16, num_workers=1)):
        if number == 4:
            break
        samples += step(model, optimizer, batch)
    return model, {"steps": 4, "samples": samples, "passes": 0}


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
    samples = sum(step(model, optimizer, batch) for batch in loader(9))
    return model, {"steps": 10, "samples": samples}


class Parent(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


@script
def a_step_within_a_step() -> Done:
    model, optimizer = made(kind=Parent)
    samples = sum(step(model, optimizer, batch) for batch in loader(9))
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
def batches_and_checkpoints() -> Done:
    model, optimizer = made()
    whole = nn.Sequential(nn.Linear(4, 4), Checkpointed(model))
    samples = sum(step(whole, optimizer, batch) for batch in loader(16))
    return model, {"steps": 6, "samples": samples, "backwards": 6, "samples_from": "loader", "accumulation": 1}


@script
def two_calls_of_the_model_a_step() -> Done:
    model, optimizer = made()
    for _ in range(10):
        optimizer.zero_grad()
        (model(INPUTS[:9]) - model(INPUTS[9:18])).square().mean().backward()
        optimizer.step()
    return model, {"steps": 10, "samples": None}


@script
def a_gan_of_noise() -> Done:
    maker, of_maker = made()
    judge, of_judge = made()
    for _ in range(6):
        made_up = maker(INPUTS[:9]).expand(-1, 4)
        of_judge.zero_grad()
        (judge(INPUTS[:9]).mean() + judge(made_up.detach()).mean()).backward()
        of_judge.step()
        of_maker.zero_grad()
        judge(made_up).mean().backward()
        of_maker.step()
    return maker, {"steps": 6, "samples": None}


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


@script
def batches_kept_in_a_list() -> Done:
    model, optimizer = made()
    batches = list(loader(16))
    samples = sum(step(model, optimizer, batch) for _ in range(2) for batch in batches)
    return model, {"steps": 12, "samples": samples, "samples_from": "model", "samples_without_gradient": 0}


@script
def batches_kept_by_cycle() -> Done:
    model, optimizer = made()
    for batch in itertools.islice(itertools.cycle(loader(9)), 25):
        step(model, optimizer, batch)
    return model, {"steps": 25, "samples": 225, "samples_from": "model"}


def open_count(steps: int | None) -> Truth:
    return {"steps": steps, "samples": None}


@script
def half_of_each_batch_for_this_rank() -> Done:
    model, optimizer = made()
    for inputs, targets in loader(10):
        step(model, optimizer, (inputs[::2], targets[::2]))
    return model, open_count(9)


@script
def samples_that_a_collate_drops() -> Done:
    model, optimizer = made()
    words: dict[str, Any] = {"collate_fn": lambda rows: [torch.stack(part) for part in zip(*rows[1:], strict=True)]}
    for batch in loader(9, **words):
        step(model, optimizer, batch)
    return model, open_count(10)


@script
def features_kept_and_trained_on_in_slices() -> Done:
    model, optimizer = made()
    kept = torch.cat([inputs for inputs, _ in iter(loader(9))])
    for _ in range(10):
        at = torch.randint(90, (32,))
        step(model, optimizer, (kept[at], kept[at].sum(1, keepdim=True)))
    return model, {"steps": 10, "samples": 320, "samples_from": "model"}


@script
def attacks_on_the_test_set_between_epochs() -> Done:
    model, optimizer = made()
    for _ in range(2):
        for batch in loader(9):
            step(model, optimizer, batch)
        for inputs, targets in loader(30):
            F.mse_loss(model(inputs.requires_grad_()), targets).backward()
    return model, open_count(20)


@script
def a_probe_of_the_gradient() -> Done:
    model, optimizer = made()
    for _ in range(2):
        probe = iter(loader(30))
        inputs, targets = next(probe)
        F.mse_loss(model(inputs), targets).backward()
        for batch in loader(9):
            step(model, optimizer, batch)
    return model, open_count(20)


@script
def samples_without_a_batch() -> Done:
    model, optimizer = made()
    for inputs, targets in loader(None):  # type: ignore[arg-type]
        step(model, optimizer, (inputs[None], targets[None]))
    return model, open_count(90)


class Ragged(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([INPUTS[: 1 + at % 5] for at in range(40)])


@script
def a_stream_of_lists_of_tensors() -> Done:
    model, optimizer = made()
    for batch in DataLoader(Ragged(), 8, collate_fn=list):
        step(model, optimizer, (torch.cat(batch), torch.cat(batch).sum(1, keepdim=True)))
    return model, open_count(5)


@script
def tensors_that_enter_the_model_twice() -> Done:
    model, optimizer = made()
    for _ in range(12):
        at = torch.randint(90, (8,))
        inputs = INPUTS[at]
        for _ in range(2):
            F.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, open_count(12)


@script
def one_sample_a_step_without_a_batch() -> Done:
    model, optimizer = made()
    for inputs in INPUTS[:12]:
        step(model, optimizer, (inputs, inputs.sum(0, keepdim=True)))
    return model, open_count(12)


@script
def two_models_each_an_epoch_in_turn() -> Done:
    pairs, samples = [made(), made(kind=torch.optim.Adam)], 0
    for _ in range(2):
        for model, optimizer in pairs:
            samples += sum(step(model, optimizer, batch) for batch in loader(9))
    return pairs[0][0], {"steps": 40, "samples": samples}


@script
def three_threads_that_train() -> Done:
    model, optimizer = made()
    step(model, optimizer, (INPUTS, INPUTS.sum(1, keepdim=True)))
    threads = [threading.Thread(target=lambda: step(model, *made()[1:], (INPUTS, INPUTS[:, :1]))) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    return None, open_count(None)


@script
def steps_in_a_thread() -> Done:
    model, optimizer = made()
    thread = threading.Thread(target=lambda: [step(model, optimizer, batch) for batch in loader(9)])
    thread.start()
    thread.join()
    return model, {"steps": 10, "samples": 90}


def in_a_child(method: str) -> Done:
    child = multiprocessing.get_context(method).Process(target=plain)
    child.start()
    child.join()
    return None, {"steps": 18, "samples": 270, "passes": 3}


@script
def steps_in_a_forked_child() -> Done:
    return in_a_child("fork")


def as_rank(rank: int, world: int, slow: int) -> None:
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo", init_method=f"file://{Path.cwd()}/store", rank=rank, world_size=world)
    model, optimizer = made()
    model = nn.parallel.DistributedDataParallel(model)
    for batch in loader(5):
        time.sleep(0.03 * (rank == slow))
        step(model, optimizer, batch)


@script
def two_ranks_of_which_one_is_slow() -> Done:
    multiprocessing.start_processes(as_rank, (2, 1), 2, start_method="fork")
    return None, {"steps": 18, "samples": 90}


@script
def a_model_in_parts() -> Done:
    dist.init_process_group("gloo", init_method=f"file://{Path.cwd()}/store", rank=0, world_size=1)
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    model, optimizer = made()
    dist.tensor.parallel.parallelize_module(model, mesh, {})
    for batch in loader(9):
        step(model, optimizer, batch)
    return model, {"steps": 10, "samples": None}


@script
def inference_only() -> Done:
    model, _ = made()
    copied = copy.deepcopy(model)
    return model, {"steps": 0, "samples": None, "samples_without_gradient": evaluate(copied, loader(9))}


@script
def compiled() -> Done:
    model, optimizer = made()
    model.eval()
    fast = torch.compile(model, backend="eager")
    samples = sum(step(fast, optimizer, batch) for batch in loader(9))
    return model, {"steps": 10, "samples": samples}


@script
def accelerate_with_an_early_break() -> Done:
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


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return 90

    def __getitem__(self, at: int) -> Any:
        return {"inputs": INPUTS[at], "labels": INPUTS[at].sum()[None]}


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = made()[0]

    def forward(self, inputs: Any, labels: Any) -> Any:
        outputs = self.model(inputs)
        return {"loss": F.mse_loss(outputs, labels), "logits": outputs}


@script
def trainer_of_huggingface() -> Done:
    from transformers import Trainer, TrainingArguments

    words: dict[str, Any] = {"per_device_train_batch_size": 8, "per_device_eval_batch_size": 8, "num_train_epochs": 2}
    words |= {"gradient_accumulation_steps": 3, "eval_strategy": "epoch", "save_strategy": "no", "report_to": "none"}
    words |= {"use_cpu": True, "disable_tqdm": True, "output_dir": "."}
    trainer = Trainer(Loss(), TrainingArguments(**words), train_dataset=Rows(), eval_dataset=Rows())
    trainer.train()
    truth = {"steps": 8, "samples": 180, "passes": 2, "samples_without_gradient": 180, "accumulation": 3}
    return trainer.model, truth


@script
def trainer_of_lightning() -> Done:
    import pytorch_lightning as lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = made()[0]

        def training_step(self, batch: Any, _: int) -> Any:
            return F.mse_loss(self.model(batch[0]), batch[1])

        def validation_step(self, batch: Any, _: int) -> None:
            self.model(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    words: dict[str, Any] = {"max_epochs": 2, "accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    words |= {"enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 2}
    module = Module()
    lightning.Trainer(**words).fit(module, loader(16), loader(16))
    truth = {"steps": 12, "samples": 180, "passes": 2, "samples_without_gradient": 32 + 180, "accumulation": 1}
    return module, truth


@script
def left_by_os_exit() -> Done:
    model, optimizer = made()
    for batch in loader(9):
        step(model, optimizer, batch)
    return model, {"steps": 10, "samples": 90, "_exit": True}


@script
def stdout_closed() -> Done:
    sys.stdout.flush()
    os.close(1)
    model, optimizer = made()
    for batch in loader(9):
        step(model, optimizer, batch)
    return model, {"steps": 10, "samples": 90}
