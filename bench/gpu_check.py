"""Run the programs at real sizes on all GPUs of this machine, print a table, and save the figures.

By hand:  python -m bench.gpu_check

It needs only this checkout and a Python with torch and transformers. Prepared data are used where the data folder has
them (MNIST, real sentences and a real model); otherwise digits and a BERT with random weights.
"""

import hashlib
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from experiments.mnist.prepare import MNIST
from trainkit.event_log import MARK
from trainkit.process_facts import device_name, nccl_version

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"
LONGEST_SECONDS = 900
"""Limit for one check."""
LAST = 12
"""Lines of output shown for a failed check."""
LAUNCHER = ("PET_", "TORCHELASTIC_", "RANK", "LOCAL_", "WORLD_SIZE", "GROUP_", "MASTER_")
"""Prefixes of launcher variables, which checks must not inherit."""
HEAD = ("check", "processes", "train s", "samples/s", "speed-up", "GPU GB", "GPU %", "result")
SENTENCES, SMALL_SENTENCES = 5331, 40
"""Sentences per label; rt-polarity has 5,331."""
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


@dataclass
class Check:
    """One launch of a program below `experiments`, with its arguments and its outcome."""

    check: str
    program: str
    processes: int
    args: dict[str, Any]
    failed: str | None = None
    """Why the check failed; None if it passed."""
    figures: dict[str, float] = field(default_factory=dict)
    wall_seconds: float = 0.0
    last_lines: list[str] = field(default_factory=list)


def main() -> None:
    """Run the checks; the exit code is 1 if one failed."""
    parser = ArgumentParser(
        prog="gpu-check", description=__doc__, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: try the programs without GPUs")
    parser.add_argument("--small", action="store_true", help="sizes that a CPU completes in a minute")
    parser.add_argument("--only", default="", help="prefixes of the programs to run, separated by commas")
    parser.add_argument(
        "--records", type=Path, default=ROOT / "results" / "records", help="folder for the figures, as JSON"
    )
    args = parser.parse_args()
    processes = torch.cuda.device_count() if args.device == "cuda" else 2
    if not processes:
        refuse("no GPU found: run it on a machine with one, or try the programs with --device cpu --small")
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        chosen = [check for check in checks(args, processes, Path(folder)) if wanted(check, args.only)]
        if not chosen:
            refuse(f"--only {args.only}: no program begins with this")
        say(f"{device_name(torch.device(args.device))}, {processes} processes; torch {torch.__version__}")
        if any(check.program == "bert.ddp" for check in chosen):
            say("making sentences and a BERT of random weights ...")
            write_sentences(Path(folder), SMALL_SENTENCES if args.small else SENTENCES)
            write_model(Path(folder, "model"), small=args.small)
        for check in chosen:
            say(f"{check.check}, {check.processes} {'process' if check.processes == 1 else 'processes'} ...")
            run(check, folder)
            if check.failed:
                say(f"  failed: {check.failed}\n" + "".join(f"  | {line}\n" for line in check.last_lines))
    sys.stdout.write(table(chosen))
    sys.stdout.flush()
    say(f"saved in {write_record(args, chosen)}")
    raise SystemExit(any(check.failed for check in chosen))


def say(text: str) -> None:
    """Print a progress line to stderr."""
    print(text, file=sys.stderr, flush=True)


def refuse(why: str) -> None:
    """Print an error to stderr and exit with code 2."""
    say(f"error: {why}")
    raise SystemExit(2)


def wanted(check: Check, only: str) -> bool:
    """Return whether a check's program has one of the prefixes of `--only`."""
    return check.program.startswith(tuple(only.split(",")))


def checks(args: Namespace, most: int, made: Path) -> list[Check]:
    """Return all checks, short ones first; substitutes for data are in `made`."""
    on, small, numbers = {"device": args.device}, args.small, sorted({1, most})
    collectives = {"max_bytes": 2**16 if small else 2**28, "rounds": 1 if small else 5}
    prepared = all((DATA / "mnist" / name).exists() or (DATA / "mnist" / f"{name}.gz").exists() for name in MNIST)
    images = {"data_dir": DATA} if prepared else {"dataset": "digits"}
    mnist = {**on, **images, "epochs": 1 if small else 5, "batch_size": 512, "model": "conv3-bn"}
    resnet = {**on, **({"batches": 2, "batch_size": 8, "image_size": 32} if small else {"batches": 20})}
    bert = {**on, "data_dir": made, "model": made / "model", "epochs": 1, "batch_size": 64}
    found = []
    for count in numbers:
        found.append(Check("collectives", "collectives.measure", count, on | collectives))
        found.append(Check("MNIST", "mnist.ddp", count, mnist))
    if most > 1 and args.device == "cuda":
        found.append(Check("MNIST, DataParallel", "mnist.data_parallel", 1, mnist | {"devices": most}))
    found.append(Check("ResNet50", "resnet50.whole", 1, resnet))
    if most > 1:
        found.append(Check("ResNet50, split in 2", "resnet50.split", 1, resnet | {"devices": 2}))
        pipelined = resnet | {"devices": 2, "micro_batches": 4}
        found.append(Check("ResNet50, pipelined", "resnet50.pipelined", 1, pipelined))
    for count in numbers:
        found.append(Check("BERT base, fp32", "bert.ddp", count, bert | {"precision": "fp32"}))
        found.append(Check("BERT base, bf16", "bert.ddp", count, bert | {"precision": "bf16"}))
    if (DATA / "bert" / "model" / "prepared.json").exists():
        real = {"data_dir": DATA, "model": "prepared", "epochs": 3, "precision": "bf16", "lr": 5e-5}
        found.append(Check("MiniLM, real, bf16", "bert.ddp", most, bert | real))
    return found


def write_sentences(data_dir: Path, count: int) -> None:
    """Write `count` sentences per label in the format of `runner prepare bert`; some words depend on the label.

    Lengths are uniform from 1 to 41 words, with rt-polarity's mean of 21.
    """
    folder = data_dir / "bert" / "sentences"
    folder.mkdir(parents=True)
    files = {}
    for name in ("negative.txt", "positive.txt"):
        draws = random.Random(name)  # noqa: S311 - random words
        lines = []
        for _ in range(count):
            words = [f"word{draws.randrange(2000)}" for _ in range(draws.randint(1, 41))]
            lines.append(" ".join([*words, f"{name[0]}{draws.randrange(10)}"]))
        content = ("\n".join(lines) + "\n").encode()
        (folder / name).write_bytes(content)
        files[name] = hashlib.sha256(content).hexdigest()
    (folder / "prepared.json").write_text(json.dumps({"source": "made up by gpu-check", "files": files}))


def write_model(folder: Path, *, small: bool) -> None:
    """Save a BERT with random weights and the vocabulary of `write_sentences` in transformers' format."""
    from transformers import BertConfig, BertForSequenceClassification  # slow import, needed only here

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{label}{n}" for label in "np" for n in range(10))]
    words += [f"word{number}" for number in range(2000)]
    if not small:
        words += [f"[unused{number}]" for number in range(30_522 - len(words))]
    torch.manual_seed(1)
    # transformers' defaults are the sizes of bert-base: 12 layers of 768
    BertForSequenceClassification(BertConfig(vocab_size=len(words), **(TINY if small else {}))).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def run(check: Check, folder: str) -> None:
    """Run a check with torchrun, and set its outcome."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(check.processes), "-m", f"experiments.{check.program}"]
    for key, value in check.args.items():
        command += [f"--{key.replace('_', '-')}", str(value)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER)}
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "KIT_ARTIFACTS": f"{folder}/artifacts"}
    own["PET_MONITOR_INTERVAL"] = "0.1"  # torch 2.3 polls every 5 seconds, which would delay each check
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, env=inherited | own, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            out, err = process.communicate(timeout=LONGEST_SECONDS)
            ended = f"exit code {process.returncode}" if process.returncode else None
        except subprocess.TimeoutExpired:
            process.terminate()  # the launcher ends its workers
            out, err = process.communicate()
            ended = f"not done after {LONGEST_SECONDS} seconds"
    check.wall_seconds = time.monotonic() - began
    lines = out.decode(errors="replace").split("\n")
    events = read_events(lines)
    check.failed = ended or verdict(check.processes, events)
    check.figures = measured(events)
    said = [line for line in lines if line and not line.startswith(MARK)] + own_lines(err)
    check.last_lines = said[-LAST:]


def read_events(lines: list[str]) -> list[dict[str, Any]]:
    """Return the events of all ranks; truncated lines are skipped, and show as gaps in `seq`."""
    events = []
    for line in lines:
        if line.startswith(MARK):
            try:
                events.append(json.loads(line[len(MARK) :]))
            except ValueError:
                continue
    return events


def own_lines(err: bytes) -> list[str]:
    """Return the program's stderr without torchrun's long failure report at its end."""
    lines = [line for line in err.decode(errors="replace").split("\n") if line]
    report = [number for number, line in enumerate(lines) if re.search(r"torch[./]distributed[./]elastic", line)]
    return lines[: report[0]] if report and report[0] else lines


def verdict(processes: int, events: list[dict[str, Any]]) -> str | None:
    """Return what is wrong with a run (missing ranks, lost events, a failure, an invalid loss), or None."""
    by_rank: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        by_rank[event["metadata"]["rank"]].append(event)
    if sorted(by_rank) != list(range(processes)):
        return f"only ranks {sorted(by_rank)} reported events"
    for rank, own in sorted(by_rank.items()):
        if [event["metadata"]["seq"] for event in own] != list(range(len(own))):
            return f"rank {rank} lost events"
        if own[-1]["key"] != "run_stop" or own[-1]["metadata"]["status"] != "success":
            return f"rank {rank} failed"
    losses = [event["metadata"].get("loss", 0.0) for event in events if event["key"] == "epoch_stop"]
    return "the loss is not a number" if None in losses else None


def measured(events: list[dict[str, Any]]) -> dict[str, float]:
    """Merge the ranks' figures: the maximum of times and bytes, and the mean load of their GPUs."""
    figures: dict[str, float] = {}
    for event in reversed(events):
        if event["key"] == "tracked_stats":
            for key, value in event["value"].items():
                worst = key.endswith(("_seconds", "_bytes"))
                figures[key] = max(figures.get(key, value), value) if worst else value
    loads = [event["metadata"] for event in events if event["key"] == "load"]
    busy = [value for load in loads for key, value in load.items() if re.fullmatch(r"gpu\d+_percent", key)]
    if busy:
        figures["gpu_percent"] = sum(busy) / len(busy)
    return figures


def table(done: list[Check]) -> str:
    """Return the checks as a text table; speed-ups are relative to one process of the same check."""
    alone = {check.check: check.figures.get("train_seconds") for check in done if check.processes == 1}
    lines = [HEAD, *(row(check, alone.get(check.check)) for check in done)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    laid = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([laid[0], "-" * (sum(widths) + 2 * len(widths) - 2), *laid[1:], ""])


def row(check: Check, alone: float | None) -> tuple[str, ...]:
    """Return the cells of a check; missing figures are empty."""
    figures = check.figures
    seconds = figures.get("train_seconds")

    def number(value: float | None, text: str) -> str:
        return "" if value is None else text.format(value)

    if check.failed:
        result = f"failed: {check.failed}"
    elif "final_accuracy" in figures:
        result = f"accuracy {figures['final_accuracy']:.2%}"
    elif "all_reduce_bus_bytes_per_second" in figures and check.processes > 1:  # one process uses no bus
        result = f"all_reduce busbw {figures['all_reduce_bus_bytes_per_second'] / 1e9:.2f} GB/s"
    else:
        result = number(figures.get("final_loss"), "loss {:.4g}") or "done"
    return (
        check.check,
        str(check.processes),
        number(seconds, "{:.2f}"),
        number(figures.get("samples_per_second"), "{:,.0f}"),
        number(alone / seconds if alone and seconds and check.processes > 1 else None, "{:.2f}"),
        f"{figures['device_peak_bytes'] / 1e9:.2f}" if "device_peak_bytes" in figures else "",
        number(figures.get("gpu_percent"), "{:.0f}"),
        result,
    )


def write_record(args: Namespace, done: list[Check]) -> Path:
    """Save the figures with hardware and versions, replacing a record of the same hardware and torch."""
    import transformers  # slow import

    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    devices = [device_name(device) for device in (gpus if args.device == "cuda" else [torch.device("cpu")])]
    record = {
        "devices": devices,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": nccl_version(),
        "transformers": transformers.__version__,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "checks": [asdict(check) for check in done],
    }
    words = f"gpu-check {len(devices)}x {'-'.join(dict.fromkeys(map(str, devices)))} torch {torch.__version__}"
    path = Path(args.records, f"{re.sub(r'[^a-z0-9.]+', '-', words.lower()).strip('-')}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, default=str) + "\n")
    return path


if __name__ == "__main__":
    main()
