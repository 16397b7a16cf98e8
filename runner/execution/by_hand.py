"""Make the records of jobs that somebody else started, with kubectl or sbatch.

A job names its experiment and cell. The rest of its launch describes the machine and the code that collect the job.
"""

import json
import math
from collections.abc import Iterator
from datetime import datetime
from functools import partial
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
from runner.execution.run import INTERRUPTED, Life, keep_record, supervise
from runner.execution.signals import Interrupts
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
from runner.targets.slurm.ends import NodeFile, ends
from runner.targets.slurm.script import cell_of
from runner.targets.slurm.target import Slurm, SlurmSpec
from runner.targets.slurm.watch import JobState
from runner.targets.torchrun import node_specs


class Told(msgspec.Struct):
    """The experiment and the cell that a job names."""

    experiment: str
    program: str
    layout: str
    device: str
    axes: dict[str, Any]
    args: dict[str, Any]


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    annotations: dict[str, str] = {}


class _Job(msgspec.Struct):
    kind: str
    metadata: _Metadata


def collect_jobs(
    path: Path, root: Path, results: Path, target: Target[Any], observer: Observer, interrupts: Interrupts
) -> list[Record]:
    """Follow every job of a manifest to its end, without changing the job, and make its record.

    `target` is kubernetes, with options for namespace and context. Raises RequestError if the file has no job, or a job
    that the kit did not make, or a job that the cluster does not have. Raises Interrupted after a signal. The job
    continues and can be collected later.
    """
    require_writable(results)
    observer = guarded(observer)
    return [_collect_job(job, path, root, results, target, observer, interrupts) for job in _jobs(path)]


def _jobs(path: Path) -> list[_Job]:
    try:
        # The base reader returns strings, so that an invalid date does not matter.
        documents = list(YAML(typ="base", pure=True).load_all(path.read_text("utf-8")))
        jobs = [msgspec.convert(job, _Job) for job in documents if isinstance(job, dict) and job.get("kind") in JOBS]
    except (OSError, ValueError, YAMLError) as error:
        raise RequestError(f"{path}: {one_line(reason_of(error))}") from None
    theirs = [
        f"{job.kind} {one_line(job.metadata.name)} was not" for job in jobs if RUN not in job.metadata.annotations
    ]
    if theirs or not jobs:
        others = "for other jobs, read the logs: kubectl logs POD | runner collect -"
        raise RequestError(f"{path}: {[*theirs, 'no job'][0]} made by `runner render` or `runner run`; {others}")
    return jobs


def _collect_job(
    job: _Job, path: Path, root: Path, results: Path, target: Target[Any], observer: Observer, interrupts: Interrupts
) -> Record:
    kind, name = job.kind, job.metadata.name
    cluster = Cluster(target.options.namespace or job.metadata.namespace, target.options.context or "")
    try:
        made = cluster.get(cluster.path(kind, name))
        pods = cluster.get(cluster.path(PODS), labelSelector=selector(kind, name)).get("items")
    except ClusterError as error:
        missing = f"no {kind} {name}: kubectl apply -f {path} starts it; ended jobs are removed after a day"
        where = f"namespace {cluster.namespace} of {cluster.host}: " if error.status else ""
        raise RequestError(where + (missing if error.is_absence else str(error))) from None
    metadata = made["metadata"]
    run = _run_told((metadata.get("annotations") or {}).get(RUN, ""), root, f"{path}: the job's annotation {RUN}")
    # The run's id contains the job's uid, so that a job is collected only once.
    created = read_moment(metadata["creationTimestamp"])
    run_id = f"{created:%Y%m%dT%H%M%SZ}-{target.name}-{metadata['uid'][:8]}"
    launch = _describe(run, target.name, run_id, created, target.options)
    folder = RunFolder(results / launch.experiment / launch.id)
    if folder.path.exists():
        if (before := folder.finished()) and (before.status == "completed" or not pods):
            observer.note(f"{folder.path}: collected already: {before.status}")
            return before
        if folder.is_held():
            raise RequestError(f"{folder.path}: another runner is collecting it: wait until it has finished")
        folder.discard()
    # The job as it was created, without the cluster's bookkeeping.
    request = {"kind": kind, **{key: value for key, value in made.items() if key != "status"}}
    metadata.pop("managedFields", None)
    folder = begin(results, launch, to_yaml(request), "", KubernetesSpec.file)
    observer.begin(1, 1, run, folder.path)
    start = partial(JobWatcher, cluster, kind, name, folder, run.cell.layout.nodes)
    record = supervise(Life(folder, launch, start, _keep_job, timeout_seconds=math.inf), observer, interrupts)
    if record.status == INTERRUPTED:
        raise Interrupted
    observer.end(run, record, folder.path)
    return record


def _keep_job(folder: RunFolder, launch: Launch, outcome: Outcome) -> Record:
    if outcome.stopped_because == INTERRUPTED:
        folder.discard()
        return Record(launch=launch, status=INTERRUPTED, outcome=outcome)
    finished = (str(end.place["finished"]) for end in outcome.exits if "finished" in end.place)
    outcome.ended = max(finished, default=outcome.ended)
    seconds = (read_moment(outcome.ended) - read_moment(launch.started)).total_seconds()
    outcome.wall_seconds = max(0.0, seconds)
    return keep_record(folder, launch, outcome)


def collect_batch(path: Path, root: Path, results: Path) -> Iterator[tuple[Path, Record]]:
    """Yield the folder and the record of every job of a batch script. A job that has a record keeps it.

    Raises RequestError if the kit did not write the script, or if no job wrote results. If a job still runs, raises
    RequestError after the last record.
    """
    try:
        text = path.read_text("utf-8")
        refuse_script(text)
        told = cell_of(text)
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: not a batch script of the kit: {one_line(reason_of(error))}") from None
    run = _run_told(told, root, f"{path}: the kit's comment in it")
    folders = [RunFolder(place) for place in sorted((results / run.experiment.name).glob("*-slurm-*"))]
    folders = [folder for folder in folders if _is_of(folder, told)]
    if not folders:
        raise RequestError(f"{path}: none of its jobs wrote to {results / run.experiment.name}: run sbatch {path}")
    running = []
    for folder in folders:
        if (record := folder.finished()) is None:
            moment, _, number = folder.path.name.partition("-slurm-")
            job = JobState(str(int(number, 16)))
            if (exits := _exits(folder, run.cell.layout, job)) is None:
                running.append(job.job)
                continue
            launch = _describe(
                run, Slurm.name, folder.path.name, datetime.strptime(f"{moment}+0000", "%Y%m%dT%H%M%SZ%z")
            )
            folder.write_request(launch, _script(folder).read_text("utf-8"), "", SlurmSpec.file)
            record = finalize_ended(folder, exits)
        yield folder.path, record
    if running:
        raise RequestError(f"{path}: job {', '.join(running)} still runs: collect it when it has ended")


def _script(folder: RunFolder) -> Path:
    return folder.path / "request" / SlurmSpec.file


def _is_of(folder: RunFolder, told: str) -> bool:
    """Return whether the folder is of a job without a runner whose script names the experiment and cell `told`."""
    try:
        by_hand = not (folder.path / "request" / "launch.json").exists() or folder.launch().by_hand
        return by_hand and cell_of(_script(folder).read_text("utf-8")) == told
    except (OSError, ValueError):
        return False


def _exits(folder: RunFolder, layout: Layout, job: JobState) -> list[NodeExit] | None:
    nodes = [NodeFile(folder, node, job) for node in range(layout.nodes)]
    try:
        job.ask()
    except commands.SlurmError as error:
        if not all(node.exit for node in nodes):
            raise RequestError(one_line(f"job {job.job}: {error}")) from None
        return [node.exit or NodeExit(node.number) for node in nodes]
    return ends(folder, nodes, job, stopped=False) if job.has_ended else None


def _run_told(text: str, root: Path, where: str) -> Run:
    try:
        told = msgspec.convert(json.loads(text), Told)  # msgspec's reader rejects infinity
        layout = Layout.parse(told.layout)
    except ValueError as error:
        raise RequestError(f"{where} does not name its experiment: {one_line(error)}") from None
    refuse_args(told.args)
    experiment = definition.load(definition.find(told.experiment, root), root)
    return Run(experiment, Cell(layout, program.find(root, told.program), told.axes, told.args), 1, 1, told.device)


def _describe(run: Run, target: str, run_id: str, started: datetime, options: Any = None) -> Launch:
    nodes = node_specs(run.cell, "node0", run.device)
    launch = describe_launch(run, target, nodes, describe_surroundings(run)[0], options)
    launch.id, launch.by_hand = run_id, True
    launch.started = started.isoformat(timespec="milliseconds")
    return launch
