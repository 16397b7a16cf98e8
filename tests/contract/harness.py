"""Harnesses of the targets for the contract's tests: start runs, hold them back, and find what is left of them."""

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.targets.compose.engine import reach
from runner.targets.compose.link import pause
from runner.targets.compose.service import image_of
from tests.support import ssh_hosts
from tests.support.cluster import claim_with, kubectl, own_namespace, pods, things
from tests.support.containers import left_of, running_of
from tests.support.jobs import jobs_of, limits_memory
from tests.support.launches import printed, processes_of, run_once, starting, until
from tests.support.processes import Seen
from tests.support.projects import Ended, Project

SINCE = r"waiting for the rendezvous since (?P<seconds>\d+) s: "


class Harness:
    """The harness of target local, and the base of the others.

    Args:
        project: a copy of this project, with the odd programs.
        words: the options that choose the target.
    """

    fixtures: tuple[str, ...] = ()
    """Further fixtures that the target needs."""
    forked = False
    """Whether commands may be forked from a process that has imported torch, which changes how they end."""
    start_seconds = 8.0
    """Time until the processes of a run print, also beside other tests."""
    starting_seconds = 0.1
    """Time after which a run is starting, but has printed nothing."""
    removing_seconds = 0.0
    """Time that the engine or cluster may take to remove deleted objects."""
    says_of_node_1: tuple[str, ...] = ("node 1 has not joined: ",)
    """Words in the record of a run whose node 1 never starts."""
    says_of_rendezvous = re.compile(
        SINCE + r"node 1 has not joined: its torchrun is stopped by a signal "
        r"\(process (?P<pid>\d+): kill -CONT (?P=pid) lets it go on\)\n"
        r"  node 0 has (joined|not joined: its torchrun is starting)"
    )
    """The first message about a node 1 that does not join; on a busy machine node 0 may still be starting."""
    memory: tuple[str, ...] = ()
    """Options that limit the memory of a node to 1 GB, if the target can."""

    def __init__(self, project: Project, *words: str) -> None:
        self.project = project
        self.words = words
        self._starting = starting(project, *words)
        self._start = self._starting.__enter__()

    @classmethod
    def made(cls, target: str, project: Project, stack: ExitStack, *_: Any) -> "Harness":
        """Make the harness from the target's name and fixtures; the stack removes everything else."""
        del stack
        return cls(project, "--on", target)

    def close(self) -> None:
        """Kill all runs that have not ended."""
        self._starting.__exit__(None, None, None)

    def run(self, experiment: str, *words: str) -> tuple[Ended, dict[str, Any]]:
        """Run one cell to its end and check that nothing is left; return the command's result and the record."""
        done, record = run_once(self.project, experiment, *words, *self.words, "--device", "cpu")
        launch = record["launch"]
        self.require_nothing_left(self.project.results / launch["experiment"] / launch["id"])
        return done, record

    @contextmanager
    def data(self, source: Path) -> Iterator[list[str]]:
        """Provide data to the runs; yield the options that this takes."""
        del source
        yield []

    def start(self, experiment: str, *words: str) -> tuple[subprocess.Popen[str], Path]:
        """Start a run; return its process and its folder."""
        return self._start(experiment, *words)

    def have_begun(self, run: Path, ranks: int) -> Callable[[], bool]:
        """Return a function that tells whether all ranks have printed their first words and an epoch."""
        last = [re.compile(rb'"epoch_stop".*"rank": %d\b' % rank) for rank in range(ranks)]

        def look() -> bool:
            # A job that was submitted by hand has no record yet.
            record = self.project.record(run) if (run / "run.json").exists() else {}
            if record.get("status") == "failed":
                pytest.fail(f"it failed before it began: {record['reason']}: {record['failure']}")
            text = printed(run)
            begun = all(b"rank %d has begun" % rank in text for rank in range(ranks))
            return begun and all(pattern.search(text) for pattern in last)

        return look

    def is_starting(self, run: Path) -> None:
        """Wait until the run is starting; it has printed nothing."""
        del run
        time.sleep(self.starting_seconds)

    def secret(self, name: str, value: str) -> list[str]:
        """Let the processes have a secret of the runner's environment; return the options that they need for it."""
        del name, value
        return []

    def forbid_node_1(self) -> None:
        """Keep node 1 of the next run from starting, on targets that must be told before the start."""

    def hold_node_1(self, run: Path) -> None:
        """Stop node 1 of a run that has just been started, unless `forbid_node_1` did."""

        def stop() -> list[None]:
            agents = [seen for seen in self.processes(run) if seen.environ.get("PET_NODE_RANK") == "1"]
            return [agent.process.send_signal(signal.SIGSTOP) for agent in agents]

        until(stop)

    def processes(self, run: Path) -> list[Seen]:
        """Return the processes of a run, wherever they run."""
        return processes_of(run.name)

    def left(self, run: Path) -> list[Any]:
        """Return all processes and objects of a run."""
        return self.processes(run)

    def require_nothing_left(self, run: Path) -> None:
        """Fail if something is left of a run that has ended."""
        if self.removing_seconds:  # an operator may make one more object after the last one is gone
            until(lambda: self.left(run) == [], self.removing_seconds, every=0.5)
        else:
            assert self.left(run) == []


class Containers(Harness):
    """Target compose."""

    fixtures = ("image",)
    forked = True
    start_seconds = 25.0
    starting_seconds = 0.4
    says_of_rendezvous = re.compile(SINCE + "node 1 has not joined: its container is paused")
    memory = ("--with", "memory=1gb")

    def hold_node_1(self, run: Path) -> None:
        with closing(reach()) as client:
            pause(client.containers.get(running_of(f"kit-{run.name.lower()}", 2)[1]))

    def left(self, run: Path) -> list[str]:
        return left_of(run)


class Hosts(Harness):
    """Target ssh."""

    start_seconds = 25.0

    def __init__(self, project: Project, *words: str) -> None:
        super().__init__(project, *words, *ssh_hosts.WORDS)

    def processes(self, run: Path) -> list[Seen]:
        return list(ssh_hosts.processes_of(run.name))

    def left(self, run: Path) -> list[Any]:
        return [*self.processes(run), *ssh_hosts.folders_of(run.name)]


class Jobs(Harness):
    """Target slurm."""

    start_seconds = 20.0
    starting_seconds = 0.4
    removing_seconds = 10.0

    def __init__(self, project: Project, *words: str) -> None:
        super().__init__(project, *words)
        self.memory = ("--with", "mem=1G") if limits_memory() else ()

    def left(self, run: Path) -> list[Any]:
        return [*jobs_of(run.name), *self.processes(run)]


class Pods(Harness):
    """Target kubernetes, as a PyTorchJob."""

    fixtures = ("shared", "processes", "loaded")
    forked = True
    start_seconds = 30.0
    starting_seconds = 0.0
    removing_seconds = 60.0
    says_of_node_1 = ("node 1 has not joined: ", "exceeded quota")
    says_of_rendezvous = re.compile(SINCE + "node [01] has not joined: its pod has not started: .*exceeded quota")
    memory = ("--with", "memory=1Gi")

    def __init__(self, project: Project, namespace: str, job: str) -> None:
        super().__init__(project, "--on", "kubernetes", "--with", f"namespace={namespace}", "--with", f"job={job}")
        self.namespace = namespace

    @classmethod
    def made(cls, target: str, project: Project, stack: ExitStack, *places: Any) -> Harness:
        return cls(project, stack.enter_context(own_namespace(*places[:2])), target)

    @contextmanager
    def data(self, source: Path) -> Iterator[list[str]]:
        with claim_with(source.parent, self.namespace, image_of("", "cpu")) as claim:
            yield ["--with", f"data_claim={claim}"]

    def secret(self, name: str, value: str) -> list[str]:
        kubectl("create", "secret", "generic", "tokens", "-n", self.namespace, f"--from-literal={name}={value}")
        return ["--with", "secret=tokens"]

    def forbid_node_1(self) -> None:
        kubectl("create", "quota", "small", "-n", self.namespace, "--hard=pods=1")

    def hold_node_1(self, run: Path) -> None:
        del run

    def left(self, run: Path) -> list[str]:
        del run
        return things(self.namespace)


class IndexedPods(Pods):
    """Target kubernetes, as a Job without an operator, or with one that makes such a Job."""

    def is_starting(self, run: Path) -> None:
        del run
        until(lambda: len(pods(self.namespace)) == 2, 60, every=0.5)
