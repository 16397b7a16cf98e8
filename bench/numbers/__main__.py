"""What changes the numbers of a training, and by how much, measured on this machine.

By hand:  python -m bench.numbers -o docs/numbers.md [--epochs 8] [--python OTHER/bin/python]

About a minute. `--python` names a Python with another torch and what `trainkit` needs.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from bench.numbers.measure import Change, train
from bench.numbers.page import page
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
    """Train the base and each change, and write the page."""
    parser = argparse.ArgumentParser(prog="bench.numbers", description=__doc__)
    parser.add_argument("-o", dest="output", type=Path, default=Path("docs/numbers.md"), help="the page")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--python", help="a Python with another torch")
    args = parser.parse_args()
    base = train(Change("the base"), args.epochs)
    changes, left_out = list(CHANGES), []
    if args.python:
        asked = subprocess.run(
            [args.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True
        )
        changes.append(Change(f"torch: {asked.stdout.strip()} for {base.torch}", python=args.python))
    else:
        left_out.append("another version of torch, which `--python` names.")
    host = describe_host()
    if host["gpus"]:
        left_out.append("GPUs; all of these run on the CPU.")
    found = [(change, train(change, args.epochs)) for change in changes]
    args.output.write_text(page(base, found, args.epochs, left_out, f"{host['cpu']}, {host['cores']} cores"), "utf-8")


if __name__ == "__main__":
    main()
