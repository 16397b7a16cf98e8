"""A tagger in steps rather than epochs: bfloat16, tqdm and logging only, hooks and a print of its own."""

import builtins
import itertools
import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, DistributedSampler
from tqdm import tqdm

log = logging.getLogger("tagger")
PAD = -100


def make_sentences(count):
    generator = torch.Generator().manual_seed(2)
    sentences = []
    for _ in range(count):
        words = torch.randint(1, 30, (int(torch.randint(3, 18, (), generator=generator)),), generator=generator)
        sentences.append((words, (words + words.roll(1)) % 5))
    return sentences


def collate(pairs):
    words, tags = zip(*pairs)
    return pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=PAD)


def silence(rank):
    original = builtins.print
    builtins.print = lambda *args, **kwargs: (
        original(*args, **kwargs) if rank == 0 or kwargs.pop("force", False) else None
    )


def forever(loader, sampler):
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        yield from loader


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    silence(rank)
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.ERROR, format="%(asctime)s %(message)s")
    torch.manual_seed(0)
    sentences = make_sentences(256)
    sampler = DistributedSampler(sentences)
    loader = DataLoader(sentences, 16 // world, sampler=sampler, collate_fn=collate)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Embedding(30, 32), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5))
    )
    norms = []
    model.module[1].register_forward_hook(
        lambda module, inputs, output: norms.append(output.detach().float().norm().item())
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    optimizer.register_step_post_hook(lambda *_: norms.clear())
    loss_sum = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    batches = forever(loader, sampler)
    for step in tqdm(range(36), disable=rank != 0):
        words, tags = next(batches)
        count = (tags != PAD).sum().float()
        dist.all_reduce(count)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(words)
        loss = loss_sum(logits.float().flatten(0, 1), tags.flatten()) * world / count
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 12 == 11:
            shown = loss.detach().clone()
            dist.all_reduce(shown)
            log.info("step %d loss per tag %.4f", step + 1, shown.item() / world)
    dist.barrier()
    os.environ.pop("OMP_NUM_THREADS", None)


if __name__ == "__main__":
    main()
