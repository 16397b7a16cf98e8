"""Jobs that somebody else started, in a cluster or with sbatch -> their records, once they have ended.

A job says itself which cell of which experiment it is; everything else of its launch is described as it is here now.
"""

import json
import math
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from runner.core.errors import Interrupted, RequestError, reason_of
from runner.core.layout import Layout
from runner.core.secrets import refuse_args, refuse_script
from runner.core.text import one_line
from runner.core.yaml_writer import to_yaml
from runner.definitions import experiment as definition
from runner.definitions import program
from runner.definitions.plan import Cell, Run
from runner.execution.launch import describe_launch, describe_surroundings
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.execution.supervise import INTERRUPTED, Life, supervise
from runner.records.folder import RunFolder, begin, require_writable
from runner.records.parse import finalize_ended
from runner.records.record_facts import read_moment
from runner.records.schema import Launch, NodeExit, Outcome, Record
from runner.targets.base import Target
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.handle import JobWatcher, selector
from runner.targets.kubernetes.job import JOBS, RUN
from runner.targets.kubernetes.target import KubernetesSpec
from runner.targets.slurm import commands
from runner.targets.slurm.ends import NodeFile, ends, read_log
from runner.targets.slurm.script import cell_of
from runner.targets.slurm.target import Slurm, SlurmSpec
from runner.targets.slurm.watch import JobState
from runner.targets.torchrun import node_specs

_BATCH_RUN = re.compile(r"(\d{8}T\d{6}Z)-slurm-([0-9a-f]{8,12})", re.ASCII)


class Told(msgspec.Struct):
    """Which cell of which experiment a job is, in its own words."""

    experiment: str
    program: str
    layout: str
    device: str
    axes: dict[str, Any]
    args: dict[str, Any]


def collect_jobs(
    path: Path, root: Path, results: Path, target: Target[Any], observer: Observer, interrupts: Interrupts
) -> list[Record]:
    """Make the record of every job of a manifest; a job that still runs is followed to its end, and never touched.

    The options of the target, which is kubernetes, name the namespace and the context.

    Raises RequestError for a file without such a job, and for a job that the cluster does not have; Interrupted after
    a signal: the job goes on, and can be collected later.
    """
    require_writable(results)
    observer = guarded(observer)
    records = []
    for document in _jobs(path):
        kind, name = document["kind"], document["metadata"]["name"]
        namespace = target.options.namespace or document["metadata"].get("namespace", "")
        cluster = Cluster(namespace, target.options.context or "")
        try:
            job = cluster.get(cluster.path(kind, name))
            pods = cluster.get(cluster.path(PODS), labelSelector=selector(kind, name)).get("items")
        except ClusterError as error:
            missing = f"no {kind} {name} there: kubectl apply -f {path}; one that has ended is kept for a day"
            where = f"namespace {cluster.namespace} of {cluster.host}: " if error.status else ""
            raise RequestError(where + (missing if error.is_absence else str(error))) from None
        told = (job["metadata"].get("annotations") or {}).get(RUN, "")
        run = _run_told(told, root, f"{path}: the job's annotation {RUN}")
        # The id is made of the job's own, so that it is collected once.
        created = read_moment(job["metadata"]["creationTimestamp"])
        run_id = f"{created:%Y%m%dT%H%M%SZ}-{target.name}-{job['metadata']['uid'][:8]}"
        launch = _describe(run, target.name, run_id, created, target.options)
        folder = RunFolder(results / launch.experiment / launch.id)
        try:
            with folder.held_alone():
                if (before := folder.finished()) and (before.status == "completed" or not pods):
                    observer.note(f"{folder.path}: collected already: {before.status}")
                    records.append(before)
                    continue
                folder.discard()
        except BlockingIOError:
            raise RequestError(f"{folder.path}: another runner collects it: wait for its end") from None
        except FileNotFoundError:
            pass
        # As it was created, less what the cluster keeps about it.
        request = {"kind": kind, **{key: value for key, value in job.items() if key != "status"}}
        request["metadata"].pop("managedFields", None)
        folder = begin(results, launch, to_yaml(request), "", KubernetesSpec.file)
        observer.begin(1, 1, run, folder.path)
        record = supervise(_Watched(folder, launch, cluster, kind, name), observer, interrupts)
        if record.status == INTERRUPTED:
            raise Interrupted
        observer.end(run, record, folder.path)
        records.append(record)
    return records


class _Watched(Life):
    """A job that is only watched; its times are the cluster's."""

    def __init__(self, folder: RunFolder, launch: Launch, cluster: Cluster, kind: str, name: str) -> None:
        super().__init__(folder, launch)
        self.timeout_seconds = math.inf
        self._cluster, self._kind, self._name = cluster, kind, name

    def start(self) -> JobWatcher:
        nodes = Layout.parse(self.launch.layout).nodes
        return JobWatcher(self._cluster, self._kind, self._name, self.folder, nodes)

    def keep(self, outcome: Outcome) -> Record:
        if outcome.stopped_because == INTERRUPTED:
            self.folder.discard()
            return Record(launch=self.launch, status=INTERRUPTED, outcome=outcome)
        finished = (str(end.place["finished"]) for end in outcome.exits if "finished" in end.place)
        outcome.ended = max(finished, default=outcome.ended)
        seconds = (read_moment(outcome.ended) - read_moment(self.launch.started)).total_seconds()
        outcome.wall_seconds = max(0.0, seconds)
        return super().keep(outcome)


def _jobs(path: Path) -> list[dict[str, Any]]:
    try:
        # Read as strings: an invalid date does not matter here.
        documents = list(YAML(typ="base", pure=True).load_all(path.read_text("utf-8")))
    except (OSError, ValueError, YAMLError) as error:
        raise RequestError(f"{path}: {one_line(reason_of(error))}") from None
    kinds = [job for job in documents if isinstance(job, dict) and job.get("kind") in JOBS]
    found = [job for job in kinds if (job.get("metadata") or {}).get("name")]
    if not found:
        raise RequestError(f"{path}: no {', '.join(JOBS[:-1])} or {JOBS[-1]} with a name in it")
    for job in found:
        if RUN not in str(job["metadata"].get("annotations")):
            name = job["metadata"]["name"]
            why = f"{job['kind']} {name} is none of `runner render` or `runner run`, whose annotation names its run"
            log = f"kubectl logs {name}-worker-0 | runner collect -"
            raise RequestError(one_line(f"{path}: {why}; of its pods the logs: {log}"))
    return found


def collect_batch(path: Path, root: Path, results: Path) -> Iterator[tuple[Path, Record]]:
    """Yield the folder and the record of every job of a batch script; a record that is there already is not changed.

    Raises RequestError if the kit did not write the script, or if no job of it has ended.
    """
    try:
        text = path.read_text("utf-8")
        refuse_script(text)
        told = cell_of(text)
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: no batch script of the kit: {one_line(reason_of(error))}") from None
    run = _run_told(told, root, f"{path}: its line of the kit")
    found, running = 0, []
    for place in sorted((results / run.experiment.name).glob("*-slurm-*")):
        folder, request = RunFolder(place), place / "request" / SlurmSpec.file
        named = _BATCH_RUN.fullmatch(place.name)
        if not named or not _is_of(folder, request, told):
            continue
        found += 1
        if (record := folder.finished()) is None:
            job = JobState(str(int(named[2], 16)))
            if (exits := _exits(folder, run.cell.layout, job)) is None:
                running.append(job.job)
                continue
            started = datetime.strptime(f"{named[1]}+0000", "%Y%m%dT%H%M%SZ%z")
            launch = _describe(run, Slurm.name, place.name, started)
            folder.write_request(launch, request.read_text("utf-8"), "", SlurmSpec.file)
            record = finalize_ended(folder, exits)
        yield place, record
    if running:
        raise RequestError(f"{path}: job {', '.join(running)} still runs: collect it when it has ended")
    if not found:
        raise RequestError(f"{path}: no job of it has written to {results / run.experiment.name}: sbatch {path}")


def _is_of(folder: RunFolder, request: Path, told: str) -> bool:
    """Return whether a job of the script wrote a folder, and no runner: its copy of the script is of the same cell."""
    try:
        if cell_of(request.read_text("utf-8")) != told:
            return False
        return not (folder.path / "request" / "launch.json").exists() or folder.launch().by_hand
    except (OSError, ValueError):
        return False


def _exits(folder: RunFolder, layout: Layout, job: JobState) -> list[NodeExit] | None:
    """Return how each node ended, by its own report and by Slurm's word for the job; None while it runs."""
    nodes = [NodeFile(folder, node, lambda: job) for node in range(layout.nodes)]
    try:
        job.ask()
    except commands.SlurmError as error:
        if not all(node.exit for node in nodes):
            raise RequestError(one_line(f"job {job.job}: {error}")) from None
        return [node.exit or NodeExit(node.number) for node in nodes]
    return ends(nodes, job, read_log(folder), stopped=False) if job.has_ended else None


def _run_told(text: str, root: Path, where: str) -> Run:
    """Return the run that a job says, as JSON, it is; RequestError if `where` does not say it."""
    try:
        told = msgspec.convert(json.loads(text), Told)  # msgspec's own reader takes no infinity
        layout = Layout.parse(told.layout)
    except ValueError as error:
        raise RequestError(f"{where} does not say which experiment it is: {one_line(error)}") from None
    refuse_args(told.args)
    experiment = definition.load(definition.find(told.experiment, root), root)
    return Run(experiment, Cell(layout, program.find(root, told.program), told.axes, told.args), 1, 1, told.device)


def _describe(run: Run, target: str, run_id: str, started: datetime, options: Any = None) -> Launch:
    launch = describe_launch(
        run, target, node_specs(run.cell, "node0", run.device), describe_surroundings(run)[0], options
    )
    launch.id = run_id
    launch.started = started.isoformat(timespec="milliseconds")
    launch.by_hand = True
    return launch
