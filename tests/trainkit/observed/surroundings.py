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
from torch.utils.data import Dataset

from tests.trainkit.observed.base import INPUTS, evaluate, loader, made, script, step, train


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


class Rows(Dataset):
    def __len__(self):
        return 90

    def __getitem__(self, at):
        return {"inputs": INPUTS[at], "labels": INPUTS[at].sum()[None]}


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = made()[0]

    def forward(self, inputs, labels):
        outputs = self.model(inputs)
        return {"loss": F.mse_loss(outputs, labels), "logits": outputs}


@script
def trainer_of_huggingface(*_):
    from transformers import Trainer, TrainingArguments

    words = {"per_device_train_batch_size": 8, "per_device_eval_batch_size": 8, "num_train_epochs": 2}
    words |= {"gradient_accumulation_steps": 3, "eval_strategy": "epoch", "save_strategy": "no", "report_to": "none"}
    words |= {"use_cpu": True, "disable_tqdm": True, "output_dir": "."}
    trainer = Trainer(Loss(), TrainingArguments(**words), train_dataset=Rows(), eval_dataset=Rows())
    trainer.train()
    truth = {"steps": 8, "samples": 180, "passes": 2, "samples_without_gradient": 180, "accumulation": 3}
    return trainer.model, truth


@script
def trainer_of_lightning(*_):
    import pytorch_lightning as lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = made()[0]

        def training_step(self, batch, _):
            return F.mse_loss(self.model(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.model(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    words = {"max_epochs": 2, "accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    words |= {"enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 2}
    module = Module()
    lightning.Trainer(**words).fit(module, loader(16), loader(16))
    return module, {"steps": 12, "samples": 180, "passes": 2, "samples_without_gradient": 32 + 180, "accumulation": 1}
