"""BERT trained as in the script of `a100-ddp`, with its mistakes, to measure their effect on time and accuracy.

By hand:  torchrun --standalone --nproc-per-node 2 -m experiments.bert.split_per_rank --epochs 1

Do not train like this. Differences from `experiments.bert.ddp`:

- every process draws its own split, so that the ranks train on each other's test sentences;
- the tokenizer is loaded again for every batch, and sentences are tokenised again in every epoch;
- batches are of random sentences, so that half of the computation is padding;
- `DistributedSampler` repeats sentences until the number of ranks divides their count;
- the loss is a mean of means.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from transformers import BertTokenizer

from experiments.bert.arguments import bert_parser
from experiments.bert.model import autocast, build_model, build_optimizer, files, find, refusing
from experiments.bert.model_files import of_files
from experiments.bert.sentences import Sentences, read, split
from trainkit import distributed
from trainkit import process_facts as facts
from trainkit.arguments import add_backend
from trainkit.epochs import global_batch_size
from trainkit.run import Run, running

Loader = DataLoader[Any]


@record
def main() -> None:
    """Parse the arguments and train."""
    parser = bert_parser(__doc__)
    add_backend(parser)
    args = parser.parse_args()
    with running("bert.split_per_rank", args) as run:
        train(run, args)


def train(run: Run, args: Namespace) -> None:
    """Train, and test after each epoch."""
    batch_size = global_batch_size(args, run.world_size)
    run.join()
    with run.phase("data"):
        folder, sentences = find(args), read(args.data_dir)
        # The script sets no seed. Here a rank's split is drawn from seed and rank, to make the mistake repeatable.
        train_index, test_index = split(len(sentences.texts), args.seed, "of rank", run.rank)
        own_batch = batch_size // run.world_size
        train_loader = build_loader(train_index, sentences, folder, run, own_batch)
        test_loader = build_loader(test_index, sentences, folder, run, own_batch)
    with run.phase("setup"):
        model = build_model(folder, args, run)
        devices = [run.device] if run.device.type == "cuda" else None
        ddp = DistributedDataParallel(model, device_ids=devices)
        optimizer = build_optimizer(args, model, run.world_size, plain=True)
    if run.first:
        run.log.point("seed", args.seed)
        run.log.point("global_batch_size", batch_size)
        run.log.point("train_samples", len(train_index))
        run.log.point("eval_samples", len(test_index))
        run.log.point("dataset", sentences.source, data_sha256=of_files({**sentences.files, **files(folder)}))
    run.log.point("split", distributed.fingerprint([train_index, test_index]))
    stats: dict[str, float] = {"leaked_share": leaked_share(train_index, test_index), "train_seconds": 0.0}

    accuracies = []
    for epoch in range(1, args.epochs + 1):
        train_loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        with run.phase("epoch", epoch_num=epoch, epochs=args.epochs) as phase:
            samples, loss_sum = 0, 0.0
            for inputs, labels in train_loader:
                with autocast(args, run):
                    logits = ddp(**inputs.to(run.device)).logits
                loss = cross_entropy(logits.float(), labels.to(run.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                loss_sum += loss.item()
                samples += len(labels)
            seconds, steps = phase.stop_clock(), len(train_loader)
            phase.metadata |= {"train_seconds": seconds, "samples": samples, "steps": steps, "loss": loss_sum / steps}
            phase.metadata["trained_samples"] = int(distributed.total(samples)[0])
        stats["train_seconds"] += seconds
        with run.phase("eval", epoch_num=epoch):
            correct, tested = distributed.total(*test(model, test_loader, run, args))
        accuracies.append(correct / tested)
        if run.first:
            run.log.point("eval_accuracy", accuracies[-1], epoch_num=epoch, correct=int(correct), samples=int(tested))
    trained = phase.metadata["trained_samples"] * args.epochs
    stats |= {"samples_per_second": trained / stats["train_seconds"], **facts.peak_memory(run.device)}
    stats |= {"final_accuracy": accuracies[-1], "best_accuracy": max(accuracies)}
    run.log.point("tracked_stats", stats)


def build_loader(index: Tensor, sentences: Sentences, folder: Path, run: Run, batch_size: int) -> Loader:
    """Return a loader of this rank's share of the sentences at the positions `index`."""

    def collate(chosen: list[int]) -> tuple[Any, Tensor]:
        tokenizer = BertTokenizer.from_pretrained(folder)  # reads 30,000 words for every batch
        inputs = tokenizer([sentences.texts[position] for position in chosen], padding=True, return_tensors="pt")
        return inputs, sentences.labels[chosen]

    with refusing(folder):
        collate([0])
    positions: Any = index.tolist()
    sampler: Any = DistributedSampler(positions, run.world_size, run.rank)
    return DataLoader(positions, batch_size, sampler=sampler, collate_fn=collate)


def test(model: nn.Module, loader: Loader, run: Run, args: Namespace) -> tuple[int, int]:
    """Return the numbers of correctly classified and of all sentences in this rank's test set."""
    correct = tested = 0
    model.eval()
    with torch.no_grad(), autocast(args, run):
        for inputs, labels in loader:
            predicted = model(**inputs.to(run.device)).logits.argmax(dim=1).cpu()
            correct += int((predicted == labels).sum())
            tested += len(labels)
    model.train()
    return correct, tested


def leaked_share(train_index: Tensor, test_index: Tensor) -> float:
    """Return the share of this rank's test sentences that other ranks train on."""
    mine = torch.zeros(len(train_index) + len(test_index), dtype=torch.float64)
    mine[train_index] = 1
    others = torch.tensor(distributed.total(*mine)) - mine
    return float((others[test_index] > 0).double().mean())


if __name__ == "__main__":
    main()
