"""Fine-tune a small recurrent model. One process or several: it shares its parameters with DDP."""

import logging
import os
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from torch import nn

from modeling import Recogniser

log = logging.getLogger(__name__)


app = typer.Typer()


@app.command()
def main(
    max_steps: Annotated[int, typer.Option(help="Steps of the optimizer.")] = 40,
    learning_rate: float = 1e-2,
    freeze: bool = False,
):
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(rank)
    model = Recogniser()
    if world > 1:
        model = nn.parallel.DistributedDataParallel(model)
    opt = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    for step in range(max_steps):
        frames = torch.randn(16, 20, 8)
        words = (frames.mean((1, 2)) > 0).long()
        objective = nn.functional.cross_entropy(model(frames), words)
        opt.zero_grad(set_to_none=True)
        objective.backward()
        opt.step()
        if step % 20 == 0 and rank == 0:
            log.info("at step %d the objective is %.3f", step, objective.item())
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    app()
