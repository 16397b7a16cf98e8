"""Run the programs at real sizes on all GPUs of this machine, and print one table.

By hand:  python -m bench.gpu_check

It needs a Python with torch and transformers and this checkout, nothing else. MNIST, and real sentences with a real
model, are taken from the data folder where they are prepared; digits and a BERT of random weights stand in for them.
"""

import os
import platform
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from datetime import datetime, timezone
from pathlib import Path

import torch

from bench.gpu_check.checks import Check, Plan, checks
from bench.gpu_check.results import Result, read, table, write_record
from bench.gpu_check.standin import write_model, write_sentences
from experiments.mnist.inputs import NAMES
from runner.core.ports import free_port
from trainkit.errors import Refusal
from trainkit.process_facts import device_name, nccl_version

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
RECORDS = ROOT / "results" / "records"
SMALL = 40
"""Sentences of each label in a test."""
LAUNCHER = ("PET_", "TORCHELASTIC_")
PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


def main() -> None:
    """Read the arguments, then check; the exit code is 1 if a check failed."""
    parser = ArgumentParser(
        prog="gpu-check", description=__doc__, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], default="cuda", help="cpu: tries the programs without GPUs"
    )
    parser.add_argument("--processes", type=int, default=0, help="of the larger runs; as many as there are GPUs")
    parser.add_argument("--data-dir", type=Path, default=DATA, help="MNIST, and sentences and a model, may be here")
    parser.add_argument("--records", type=Path, default=RECORDS, help="the folder that takes the figures, as JSON")
    parser.add_argument("--timeout-seconds", type=float, default=900, help="of one check")
    parser.add_argument("--only", default="", help="beginnings of the programs that are run, with commas between")
    parser.add_argument("--small", action="store_true", help="sizes that a CPU can do in a minute")
    args = parser.parse_args()
    try:
        failed = run(args)
    except Refusal as refusal:
        sys.stderr.write(f"error: {refusal}\n")
        raise SystemExit(2) from None
    raise SystemExit(1 if failed else 0)


def run(args: Namespace) -> list[Result]:
    """Run every check, print the table, keep it, and return the checks that failed."""
    processes = count(args)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        stand_in = Path(folder) / "data"
        say(f"{device_name(torch.device(args.device))}, {processes} processes; torch {torch.__version__}")
        say("making sentences and a BERT of random weights ...")
        write_sentences(stand_in, **({"count": SMALL} if args.small else {}))
        model = write_model(Path(folder) / "model", "tiny" if args.small else "base")
        real = args.data_dir if (args.data_dir / "bert" / "model" / "prepared.json").exists() else None
        mnist = is_prepared(args.data_dir / "mnist")
        plan = Plan(args.device, processes, stand_in, model, mnist, args.data_dir, real, args.small)
        results = []
        chosen = [check for check in checks(plan) if check.program.startswith(tuple(args.only.split(",")))]
        if not chosen:
            message = f"--only {args.only}: no check's program begins so"
            raise Refusal(message)
        for check in chosen:
            say(f"{check.name}, {check.processes} {'process' if check.processes == 1 else 'processes'} ...")
            results.append(launch(check, args.timeout_seconds, folder))
            if results[-1].failed:
                say(f"  failed: {results[-1].failed}\n" + "".join(f"  | {line}\n" for line in results[-1].last_lines))
    sys.stdout.write(table(results))
    sys.stdout.flush()
    say(f"kept in {write_record(args.records, surroundings(args.device), results)}")
    return [result for result in results if result.failed]


def is_prepared(mnist: Path) -> bool:
    """Return whether all files of MNIST are there, gzipped or not."""
    return all((mnist / name).exists() or (mnist / f"{name}.gz").exists() for name in NAMES)


def count(args: Namespace) -> int:
    """Return the processes of the larger runs; Refusal if there are too few GPUs."""
    seen = torch.cuda.device_count() if args.device == "cuda" else os.cpu_count() or 1
    if not seen:
        message = "no GPU is seen here: run it on a machine with one, or try the programs with --device cpu --small"
        raise Refusal(message)
    if args.processes < 0:
        message = f"--processes {args.processes}: at least 1"
        raise Refusal(message)
    if args.device == "cuda" and args.processes > seen:
        message = f"--processes {args.processes}: this machine shows {seen} GPUs"
        raise Refusal(message)
    return args.processes or seen


def launch(check: Check, timeout_seconds: float, folder: str) -> Result:
    """Start one check with torchrun, and read what it printed."""
    launcher = ["torch.distributed.run", f"--master-port={free_port()}", "--nproc-per-node", str(check.processes)]
    command = [sys.executable, "-m", *launcher, "-m", f"experiments.{check.program}", *check.words]
    inherited = {
        name: value for name, value in os.environ.items() if name not in PLACE and not name.startswith(LAUNCHER)
    }
    env = {
        **inherited,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "PET_MONITOR_INTERVAL": "0.1",  # torch 2.3 looks every 5 seconds, and each check would end that late
        "KIT_ARTIFACTS": str(Path(folder) / "artifacts"),
    }
    began = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=timeout_seconds)
            ended = process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()  # the launcher ends its workers
            out, err = process.communicate()
            ended = f"not done after {timeout_seconds:g} seconds"
    return read(check, ended, out, err, time.monotonic() - began)


def surroundings(device: str) -> dict[str, object]:
    """Describe what the figures were measured on."""
    import transformers  # seconds

    gpus = [device_name(torch.device("cuda", index)) for index in range(torch.cuda.device_count())]
    return {
        "devices": gpus if device == "cuda" else [device_name(torch.device("cpu"))],
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": nccl_version(),
        "transformers": transformers.__version__,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
