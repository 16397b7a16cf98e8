"""The model and its tokenizer, loaded from a folder of this machine; runs never download anything."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from experiments.bert.arguments import PREPARED
from experiments.bert.less_work import keep_first_token, keep_words
from experiments.bert.model_files import MODEL_FILES, PICKLED, missing_part, model_hashes
from trainkit import sharding as shards
from trainkit.blockwise_adam import BlockwiseAdam, pays
from trainkit.errors import Refusal, one_line, reason
from trainkit.run import Run

transformers.logging.set_verbosity_error()  # no warning that the classifier, which will be trained, is new
transformers.logging.disable_progress_bar()


def find(args: Namespace) -> Path:
    """Return the folder of the model that `args` names; Refusal if a part is missing."""
    folder = Path(args.data_dir) / "bert" / "model" if args.model == PREPARED else Path(args.model)
    way_out = "run `runner prepare bert`" if args.model == PREPARED else "--model takes a folder or a name in the cache"
    if args.model != PREPARED and not folder.is_dir():
        try:
            folder = Path(snapshot_download(args.model, local_files_only=True))
        except (OSError, ValueError):
            raise Refusal(f"no model {args.model} on this machine: {way_out}") from None
    if wrong := missing_part([name for name in (*MODEL_FILES, PICKLED) if (folder / name).is_file()]):
        raise Refusal(f"{folder}: {wrong}: {way_out}")
    return folder


def files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a model, by name; Refusal if a prepared file has changed."""
    try:
        return model_hashes(folder)
    except (OSError, ValueError) as error:
        raise Refusal(
            f"the model's folder {folder} is incomplete or changed ({reason(error)}): run `runner prepare bert`"
        ) from error


def load_tokenizer(folder: Path) -> tuple[Any, int, int]:
    """Return the tokenizer, the model's maximum number of tokens per sentence, and its vocabulary size."""
    with refusing(folder):
        config = transformers.AutoConfig.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        most = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", 512))
        return tokenizer, most, config.vocab_size


def build_model(folder: Path, args: Namespace, run: Run, words: Tensor | None = None) -> nn.Module:
    """Return the model with a new classifier of two labels, with equal parameters on every rank.

    Afterwards ranks draw different random numbers, so that their dropout differs. `words` [n] are the vocabulary ids to
    keep (`experiments.bert.data.Data.words`); None keeps all.
    """
    torch.manual_seed(args.seed)
    with refusing(folder):
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=2, use_safetensors=True
        )
    if words is not None:
        keep_words(model, words)
    if getattr(args, "last_layer", "all") == "first-token":
        keep_first_token(model)
    model = model.float().to(run.device).train()
    torch.manual_seed(shards.generator(args.seed, "rank", run.rank).initial_seed())
    return model  # type: ignore[no-any-return]


@contextmanager
def refusing(folder: Path) -> Iterator[None]:
    """Convert any error of transformers about a folder's files to a one-line Refusal."""
    try:
        yield
    except Exception as error:
        raise Refusal(f"transformers cannot load the model in {folder}: {one_line(error)[:300]}") from error


def build_optimizer(args: Namespace, model: nn.Module, workers: int, *, plain: bool = False) -> Optimizer:
    """Return the optimizer that `args` names, with its learning rate scaled by `--lr-rule`.

    It is the fastest for the device, or with `plain` torch's default, which gives the same parameters on a CPU.
    """
    rate = args.lr * (workers if args.lr_rule == "linear" else 1)
    fused = not plain and next(model.parameters()).is_cuda  # torch 2.3 has fused ones only for GPUs
    if not plain and pays(model):
        return BlockwiseAdam(model.parameters(), rate, args.weight_decay if args.optimizer == "adamw" else 0.0)
    if args.optimizer == "adam":
        return Adam(model.parameters(), lr=rate, fused=fused)
    return AdamW(model.parameters(), lr=rate, weight_decay=args.weight_decay, fused=fused)


def autocast(args: Namespace, run: Run) -> torch.autocast:
    """Return the context in which the forward pass computes in `--precision`."""
    return torch.autocast(run.device.type, torch.bfloat16, enabled=args.precision == "bf16")
