"""Jobs that somebody else created: their pods are read in the cluster, and the record is made from that."""

import math
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from runner.core.errors import Interrupted, RequestError, reason_of
from runner.core.text import one_line
from runner.core.yaml_writer import to_yaml
from runner.definitions.plan import Run
from runner.execution.launch import describe_by_hand, run_told, utc_now
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.execution.supervise import INTERRUPTED, Life, keep_whole, supervise
from runner.records.folder import RunFolder, begin, require_writable
from runner.records.moment import read_moment
from runner.records.schema import Launch, Outcome, Record
from runner.targets.base import Target
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.job import JOBS, RUN
from runner.targets.kubernetes.target import KubernetesSpec
from runner.targets.kubernetes.watcher import JobWatcher, selector
from trainkit import files

LARGEST_MANIFEST = 10_000_000


def attach(
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
        metadata = document["metadata"]
        options = target.options
        cluster = Cluster(options.namespace or str(metadata.get("namespace") or ""), options.context or "")
        job = _find(cluster, document["kind"], str(metadata["name"]), path)
        told = (job["metadata"].get("annotations") or {}).get(RUN, "")
        run = run_told(told, root, f"{path}: the job's annotation {RUN}")
        # The id is made of the job's own, so that it is collected once.
        created = read_moment(job["metadata"]["creationTimestamp"])
        run_id = f"{created:%Y%m%dT%H%M%SZ}-{target.name}-{job['metadata']['uid'][:8]}"
        launch = describe_by_hand(run, target.name, run_id, created, options)
        folder = RunFolder(results / launch.experiment / launch.id)
        if (before := folder.finished()) and (before.status == "completed" or not _has_pods(cluster, job)):
            observer.note(f"{folder.path}: collected already: {before.status}")
            records.append(before)
            continue
        _discard(folder, before)
        folder = begin(results, launch, to_yaml(_created(job)), "", KubernetesSpec.file)
        observer.begin(1, 1, run, folder.path)
        record = supervise(_life(cluster, job, run, folder, launch), folder, launch, observer, interrupts)
        if record.status == INTERRUPTED:
            raise Interrupted
        observer.end(run, record, folder.path)
        records.append(record)
    return records


def _life(cluster: Cluster, job: dict[str, Any], run: Run, folder: RunFolder, launch: Launch) -> Life:
    """Describe the life of a job that is watched only; its times are the cluster's."""

    def keep(outcome: Outcome) -> Record:
        if outcome.stopped_because == INTERRUPTED:
            folder.discard()
            return Record(launch=launch, status=INTERRUPTED, outcome=outcome)
        finished = (str(end.place["finished"]) for end in outcome.exits if "finished" in end.place)
        outcome.ended = max(finished, default=utc_now())
        outcome.wall_seconds = max(0.0, (read_moment(outcome.ended) - read_moment(launch.started)).total_seconds())
        return keep_whole(folder, launch, outcome)

    return Life(
        start=lambda: JobWatcher(cluster, job["kind"], job["metadata"]["name"], folder, run.cell.layout.nodes),
        stop=lambda handle: handle.stop() if handle else None,
        keep=keep,
        timeout_seconds=math.inf,
    )


def _discard(folder: RunFolder, before: Record | None) -> None:
    """Remove what an earlier command has left of a job, unless another one collects it now, or just has."""
    try:
        with folder.held_alone():
            if before or not folder.finished():
                folder.discard()
                return
    except BlockingIOError:
        pass
    except OSError:  # there is none yet, or what is there is no folder: which is said when one is made
        return
    raise RequestError(f"{folder.path}: another runner collects it: wait for its end")


def _jobs(path: Path) -> list[dict[str, Any]]:
    try:
        text = files.read_file(path, LARGEST_MANIFEST).decode()
        documents = list(YAML(typ="base", pure=True).load_all(text))  # words only: a date that is none is no concern
    except (OSError, ValueError, YAMLError, RecursionError) as error:
        raise RequestError(f"{path}: {one_line(reason_of(error))}") from None
    found = [
        job
        for job in documents
        if isinstance(job, dict) and job.get("kind") in JOBS
        if isinstance(job.get("metadata"), dict) and job["metadata"].get("name")
    ]
    if not found:
        raise RequestError(f"{path}: there is no {', '.join(JOBS[:-1])} or {JOBS[-1]} with a name in it")
    if other := next((job for job in found if RUN not in str(job["metadata"].get("annotations"))), None):
        why = f"{other['kind']} {other['metadata']['name']} is none of `runner render` or `runner run`"
        log = f"kubectl logs {other['metadata']['name']}-worker-0 | runner collect -"
        raise RequestError(
            one_line(f"{path}: {why}, whose annotation says which run it is; of its pods the logs: {log}")
        )
    return found


def _find(cluster: Cluster, kind: str, name: str, path: Path) -> dict[str, Any]:
    try:
        return {"kind": kind, **cluster.get(cluster.path(kind, name))}
    except ClusterError as error:
        missing = f"no {kind} {name} there: kubectl apply -f {path}; one that has ended is kept for a day"
        raise _refused(cluster, error, missing if error.is_absence else str(error)) from None


def _refused(cluster: Cluster, error: ClusterError, why: str) -> RequestError:
    where = f"namespace {cluster.namespace} of {cluster.host}: " if error.status else ""
    return RequestError(where + why)


def _created(job: dict[str, Any]) -> dict[str, Any]:
    """Return the job as it was created, less what the cluster keeps about it."""
    request = {key: value for key, value in job.items() if key != "status"}
    request["metadata"] = {key: value for key, value in job["metadata"].items() if key != "managedFields"}
    return request


def _has_pods(cluster: Cluster, job: dict[str, Any]) -> bool:
    try:
        found = cluster.get(cluster.path(PODS), labelSelector=selector(job["kind"], job["metadata"]["name"]))
    except ClusterError as error:
        raise _refused(cluster, error, str(error)) from None
    return bool(found.get("items"))
