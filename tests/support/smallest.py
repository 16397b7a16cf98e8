"""Every experiment of this project at its smallest."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Smallest:
    """Options with which an experiment takes seconds."""

    layouts: str
    """Layouts that this machine runs: with one process and with several."""
    changes: tuple[str, ...]
    """Arguments of the programs, as `--set` names them."""
    only: tuple[str, ...] = ()
    """Further values of `--only` on this machine."""

    def words(self, *cells: str) -> list[str]:
        """Return the options that choose these cells and the small arguments."""
        return [
            *(word for cell in cells for word in ("--only", cell)),
            *(word for change in self.changes for word in ("--set", change)),
        ]


_DIGITS = ("dataset=digits", "epochs=1", "peak_milliseconds=20")
_RESNET50 = ("batch_size=4", "image_size=32", "batches=1", "warmup_batches=0", "peak_milliseconds=0")
_BERT = ("epochs=1", "peak_milliseconds=20")
IMAGES = {
    **dict.fromkeys(
        ("quickstart", "mnist-backends", "mnist-cpu", "mnist-strategies"),
        Smallest("1x1,1x2", _DIGITS),
    ),
    "mnist": Smallest("1x1,2+3", _DIGITS),
    "mnist-communication": Smallest("1x1,1x2", _DIGITS, ("communication=ddp,bf16",)),
    "mnist-balance": Smallest("1x1,2x1", _DIGITS),
}
"""Experiments that train on images, here on the digits."""
OTHERS = {
    "collectives": Smallest("1x2,2x1", ("max_bytes=4096", "rounds=1", "calls=2")),
    "network": Smallest("2x1", ("round_trips=9", "messages=2", "message_bytes=65536")),
    "resnet50": Smallest("1x1", _RESNET50, ("program=resnet50.split,resnet50.pipelined", "micro_batches=1,2")),
    "script-mnist": Smallest("1x1,1x2", ("epochs=2",)),
    "script-tutorial": Smallest("1x1", ()),
    "toy": Smallest("2x1,2+3", ("steps=5",)),
}
"""Experiments that need no data."""
BERT = {
    "bert": Smallest("1x2", _BERT),
    "bert-slow-link": Smallest("2x1", _BERT, ("communication=local-sgd",)),
    "bert-leak": Smallest("1x2", ("epochs=1",)),
}
"""Experiments that need the sentences and the model of tests/experiments/tiny_bert.py."""
SMALLEST = IMAGES | OTHERS | BERT
