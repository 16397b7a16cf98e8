"""Programs that each do one thing that a training program should not.

They import torch, which takes seconds, only if the process group matters.
"""

from dataclasses import dataclass

from tests.execution.test_observed import SCRIPT
from tests.support.projects import Project

OBSERVED = "experiments/odd/observed.py"
"""A script without the kit."""
SAYS_ITS_PATH = """
import os
print("path", *[place for place in os.environ.get("PYTHONPATH", "").split(":") if "observer" not in place])
"""
PLAIN = '''
"""{summary}"""

import os
import time
from argparse import ArgumentParser

from trainkit.event_log import EventLog

RANK = int(os.environ["RANK"])


def main() -> None:
    parser = ArgumentParser()
{options}
    args = parser.parse_args()
    log = EventLog(RANK)
    log.start("run_start", host="here", device_name="Toy CPU", threads=1)
    print(f"rank {{RANK}} has begun", flush=True)
{body}
    log.point("tracked_stats", {{"train_seconds": 1.0, "final_loss": 0.5}})
    log.stop("run_stop", status="success")


if __name__ == "__main__":
    main()
'''
JOINED = '''
"""{summary}"""

import os
from argparse import ArgumentParser

import torch

from trainkit.run import running


def main() -> None:
    parser = ArgumentParser()
{options}
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    with running("odd.{name}", args) as run:
        run.join()
        with run.phase("train") as clock:
{body}
        run.log.point("tracked_stats", {{"train_seconds": clock.stop_clock(), "final_loss": 0.5}})


if __name__ == "__main__":
    main()
'''
EXITS = """
            if run.rank == 1:
                os._exit(args.code)
"""
MEMORY = """
    held = []
    while len(held) < args.most:  # protects the machine if there is no limit
        held.append(b"x" * 2**26)
"""
SLOW = """
    epoch, end = 0, time.monotonic() + args.seconds
    while time.monotonic() < end:
        epoch += 1
        time.sleep(0.2)
        facts = {"train_seconds": 0.2, "samples": 50, "steps": 1, "trained_samples": 50}
        log.stop("epoch_stop", epoch_num=epoch, loss=0.5, loss_hex=(0.5).hex(), **facts)
"""
HANGS = """
            import signal
            import time
            import torch.distributed as dist

            def load_the_next_batch():
                time.sleep(600)

            values = torch.ones(4)
            dist.all_reduce(values)
            if run.rank == 0:
                dist.all_reduce(values)
            elif args.how == "sleeps":
                load_the_next_batch()
            elif args.how == "calls another":
                dist.broadcast(values, src=0)
                dist.barrier()
            elif args.how == "is stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
"""
SAYS = """
    print("x" * 60)
    end = time.monotonic() + args.seconds
    number = 0
    while time.monotonic() < end:
        number += 1
        log.point("number", number)
        time.sleep(args.pause)
"""
COUNTS = """
    # Counts what was printed, where no runner looks.
    place = os.environ.get("KIT_ARTIFACTS", "")
    own = os.open(f"{place}/written-{RANK}", os.O_WRONLY | os.O_CREAT) if os.path.isdir(place) else None
    number, end = 0, time.monotonic() + args.seconds
    while time.monotonic() < end:
        number += 1
        os.write(1, b"line %d of rank %d\\n" % (number, RANK))
        if own is not None:
            os.pwrite(own, b"%d\\n" % number, 0)
        if number == 1:
            facts = {"train_seconds": 0.2, "samples": 50, "steps": 1, "trained_samples": 50}
            log.stop("epoch_stop", epoch_num=1, loss=0.5, loss_hex=(0.5).hex(), **facts)
        time.sleep(args.pause)
"""
ECHOES = """
    os.write(1, f"text: {args.text}\\n".encode())
"""
TELLS = """
    told = f"told [{os.environ.get('MY_FLAG')}] and {len(os.environ.get('HF_TOKEN', ''))} letters"
    os.write(1, f"{told} by rank {RANK}\\n".encode())
"""
WRITES = """
    from pathlib import Path

    place = Path(os.environ["KIT_ARTIFACTS"])
    (place / f"rank {RANK}.txt").write_text("mine")
    (place / "same.txt").write_text("of all")
    (place / "node.txt").write_text(os.environ["PET_NODE_RANK"])
    (place / ".hidden").write_text("x")
"""


@dataclass(frozen=True)
class Odd:
    """A program that does one odd thing."""

    summary: str
    body: str
    options: dict[str, str]
    source: str = PLAIN

    def text(self, name: str) -> str:
        options = [f'    parser.add_argument("--{option}", {kind})' for option, kind in self.options.items()]
        return self.source.format(
            name=name, summary=self.summary, options="\n".join(options), body=self.body.strip("\n")
        )


SECONDS = {"seconds": "type=float, default=1.0"}
ODD = {
    "exits": Odd("Rank 1 exits with a code after all have met.", EXITS, {"code": "type=int, default=7"}, JOINED),
    "memory": Odd("Allocate and use memory, 64 MiB at a time.", MEMORY, {"most": "type=int, default=128"}),
    "slow": Odd("Report the end of an epoch five times a second.", SLOW, SECONDS),
    "says": Odd("Print endlessly.", SAYS, {**SECONDS, "pause": "type=float, default=0.005"}),
    "hangs": Odd("Rank 1 keeps the others waiting.", HANGS, {"how": "type=str, default='sleeps'"}, JOINED),
    "counts": Odd("Print and count numbered lines.", COUNTS, {**SECONDS, "pause": "type=float, default=0.01"}),
    "echoes": Odd("Print a text.", ECHOES, {"text": "type=str, default=''"}),
    "tells": Odd("Print environment variables.", TELLS, {}),
    "writes": Odd("Write artifacts.", WRITES, {}),
}


def add_odd_programs(project: Project) -> None:
    """Write the programs to `experiments/odd/`, and a definition of each."""
    for name, odd in ODD.items():
        project.program(f"odd.{name}", odd.text(name))
        define(project, name)
    (project.root / OBSERVED).write_text(SAYS_ITS_PATH + SCRIPT)


def define(project: Project, program: str, *, name: str = "", timeout_seconds: int = 600, **more: object) -> str:
    """Write a definition of an odd program, and return its name."""
    odd, name = ODD[program], name or f"odd-{program}"
    project.define(
        name=name,
        program=f"odd.{program}",
        summary=odd.summary,
        matrix={"layout": ["1x2", "1+2", "2x1"]},
        baseline={"layout": "1x2"},
        timeout_seconds=timeout_seconds,
        **more,
    )
    return name
