"""The images as tensors on the device, in batches."""

import math
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import tee
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from trainkit import distributed
from trainkit import sharding as shards
from trainkit.archives import read_zipped
from trainkit.epochs import Shares
from trainkit.errors import Refusal, reason
from trainkit.run import Run

DIGITS = Path(__file__).parent / "digits"
SIDE = 28
"""Side of the models' input images, in pixels; smaller images are resized."""
SIDES = {"mnist": 28, "digits": 8}
COUNTS = {"mnist": (60_000, 10_000), "digits": (1_438, 359)}
NORMALISE = {"mnist": (0.1307, 0.3081), "digits": (0.3053, 0.3248)}
"""Mean and standard deviation of the training pixels, scaled to 0..1."""
EVAL_BATCH = 1_000


@dataclass(frozen=True)
class Samples:
    """Images [N, 28, 28], uint8, with labels [N], int64."""

    pixels: Tensor
    labels: Tensor
    mean: float
    std: float

    def __len__(self) -> int:
        """Return N."""
        return len(self.labels)


@dataclass(frozen=True)
class Data:
    """A training set and a test set, and the SHA-256 of their raw tensors."""

    train: Samples
    test: Samples
    sha256: str


@dataclass(frozen=True)
class Batch(shards.Batch):
    """A rank's part of one global batch."""

    images: Tensor
    """[n, 1, 28, 28], normalised."""


def load(args: Namespace, run: Run) -> Data:
    """Load the data set that `args` names onto the device; Refusal if a file is missing or invalid.

    Raises RuntimeError if the data differs between ranks.
    """
    folder = DIGITS if args.dataset == "digits" else Path(args.data_dir) / args.dataset
    side, train_count, test_count = SIDES[args.dataset], *COUNTS[args.dataset]
    try:
        raw = [
            read_idx(folder, "train-images-idx3-ubyte", train_count, side, side),
            read_idx(folder, "train-labels-idx1-ubyte", train_count),
            read_idx(folder, "t10k-images-idx3-ubyte", test_count, side, side),
            read_idx(folder, "t10k-labels-idx1-ubyte", test_count),
        ]
    except (OSError, ValueError) as error:
        way_out = "run `runner prepare mnist`" if args.dataset == "mnist" else "restore its files"
        raise Refusal(f"no valid {args.dataset} data in {folder} ({reason(error)}): {way_out}") from error
    sha256 = distributed.fingerprint(raw)
    distributed.require_equal("the data", sha256)
    device = torch.device("cpu") if args.loader == "torchvision" else run.device
    mean, std = NORMALISE[args.dataset]
    train, test = (
        Samples(as_images(images).to(device), labels.long().to(device), mean, std)
        for images, labels in (raw[:2], raw[2:])
    )
    return Data(train, test, sha256)


def read_idx(folder: Path, name: str, *shape: int) -> Tensor:
    """Read an IDX file of bytes, gzipped or not, as a uint8 tensor of this shape.

    The format is two zeros, 8 for bytes, the number of dimensions, the dimensions (four bytes each, big-endian), and
    the values. Raises OSError or ValueError if the file is missing or invalid.
    """
    header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    length = len(header) + math.prod(shape)
    content = read_zipped(folder, name, length)
    if not content.startswith(header) or len(content) != length:
        expected = " x ".join(map(str, shape))
        raise ValueError(f"{name} is truncated or does not hold {expected} bytes")
    values = bytearray(content[len(header) :])
    return torch.frombuffer(values, dtype=torch.uint8).view(shape)


def as_images(raw: Tensor) -> Tensor:
    """Return images [N, 28, 28], uint8; the 8 x 8 digits, with pixels 0..16, are scaled and resized."""
    if raw.shape[1] == SIDE:
        return raw
    scaled = raw.float().div(16).unsqueeze(1)
    resized: Tensor = interpolate(scaled, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
    return resized.squeeze(1).mul(255).round().byte()


class Batches:
    """A rank's batches of an epoch, sharded by `trainkit.sharding` with the current shares."""

    def __init__(
        self, samples: Samples, args: Namespace, run: Run, batch_size: int, shares: Shares = shards.even
    ) -> None:
        self.samples = samples
        self.args = args
        self.device = run.device
        self.parts = partial(shards.rank_slices, len(samples), batch_size, run.rank, run.world_size, shares)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of an epoch in its random order."""
        seed, count = self.args.seed, len(self.samples)
        order = shards.epoch_order(count, seed, epoch)
        draws = None
        if self.args.augment == "affine":
            draws = torch.rand(count, 3, generator=shards.generator(seed, "augment", epoch))
        for batch, chosen in self._dealt(order):
            if draws is None:
                yield batch
                continue
            # Distortion depends on a sample's position in the order, and not on its rank.
            images = distort(batch.images, draws[chosen].to(self.device), self.background)
            yield replace(batch, images=images)

    def in_order(self) -> Iterator[Batch]:
        """Yield the batches in the order of the files."""
        for batch, _ in self._dealt(torch.arange(len(self.samples))):
            yield batch

    @property
    def background(self) -> float:
        """The value of a black pixel after normalisation."""
        return -self.samples.mean / self.samples.std

    def _dealt(self, order: Tensor) -> Iterator[tuple[Batch, slice]]:
        gather = by_sample if self.args.loader == "torchvision" else by_batch
        # Cut each part when its batch is requested, because shares may change between batches.
        ours, theirs = tee(self.parts())
        loaded = gather(self.samples, order, (_with_stand_in(part) for part, _ in theirs))
        for images, labels in loaded:
            part, size = next(ours)
            yield Batch(labels.to(self.device), len(part), size, images.to(self.device)), _with_stand_in(part)


def _with_stand_in(part: range) -> slice:
    return slice(part.start, max(part.stop, part.start + 1))


def by_batch(samples: Samples, order: Tensor, chosen: Iterable[slice]) -> Iterator[tuple[Tensor, Tensor]]:
    """Gather and normalise batches on the device that holds the samples."""
    order = order.to(samples.pixels.device)
    for where in chosen:
        index = order[where]
        images = samples.pixels[index].unsqueeze(1).float()
        yield images.div_(255).sub_(samples.mean).div_(samples.std), samples.labels[index]


def by_sample(samples: Samples, order: Tensor, chosen: Iterable[slice]) -> Iterator[tuple[Tensor, Tensor]]:
    """Gather samples one by one through PIL and torchvision, as the published experiments do."""
    from PIL import Image  # slow imports, needed only here
    from torchvision import transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((samples.mean,), (samples.std,))])

    class Pictures(torch.utils.data.Dataset[tuple[Tensor, int]]):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            picture = Image.fromarray(samples.pixels[index].numpy())
            return transform(picture), int(samples.labels[index])

    indices = (order[where].tolist() for where in chosen)
    own = torch.Generator()  # otherwise the loader would draw from dropout's generator
    yield from torch.utils.data.DataLoader(Pictures(), batch_sampler=indices, generator=own)


def distort(images: Tensor, draws: Tensor, background: float) -> Tensor:
    """Rotate by up to 10 degrees and shift by up to a tenth of the side, from random numbers [n, 3] in 0..1."""
    angle = torch.deg2rad((draws[:, 0] * 2 - 1) * 10)
    shift = (draws[:, 1:] * 2 - 1) * 0.2  # sides of the grid are 2 long, so a tenth is 0.2
    cosine, sine = angle.cos(), angle.sin()
    across = torch.stack([cosine, -sine, shift[:, 0]], dim=1)
    down = torch.stack([sine, cosine, shift[:, 1]], dim=1)
    grid = affine_grid(torch.stack([across, down], dim=1), list(images.shape), align_corners=False)
    return grid_sample(images - background, grid, align_corners=False) + background
