"""What changes the numbers of a training, and by how much, measured on this machine.

By hand:  python -m bench.numbers [--epochs 8] [--python OTHER/bin/python]

About a minute. `--python` names a Python with another torch and what `trainkit` needs; without it that row is missing.
All of the trainings run on the CPU.
"""

import argparse
import subprocess

from bench.numbers.measure import Change, train
from bench.numbers.page import DOCUMENT, write
from runner.records.provenance import describe_host

CHANGES = (
    Change("nothing: the same run again"),
    Change("threads: 2 for 1", args={"threads": "2"}),
    Change("world size: 2 for 1, the same global batch", processes=2),
    Change("world size: 4 for 1, the same global batch", processes=4),
    Change("memory format: contiguous for channels last", how="contiguous"),
    Change("precision: bf16 (autocast) for fp32", how="bf16"),
    Change("order of the samples: drawn from another seed", how="order"),
    Change("seed: all random numbers", args={"seed": "2"}),
)


def main() -> None:
    """Train the base and each change, and write the table."""
    parser = argparse.ArgumentParser(prog="bench.numbers", description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--python", help="a Python with another torch")
    args = parser.parse_args()
    base = train(Change("the base"), args.epochs)
    changes = list(CHANGES)
    if args.python:
        asked = subprocess.run(
            [args.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True
        )
        changes.append(Change(f"torch: {asked.stdout.strip()} for {base.torch}", python=args.python))
    host = describe_host()
    found = [(change, train(change, args.epochs)) for change in changes]
    document = DOCUMENT.read_text("utf-8")
    DOCUMENT.write_text(write(document, base, found, args.epochs, f"{host['cpu']}, {host['cores']} cores"), "utf-8")


if __name__ == "__main__":
    main()
