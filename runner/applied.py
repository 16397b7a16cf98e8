"""Jobs that somebody applied by hand: their pods are read in the cluster, and the record is made from that."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from runner import definition, environment, program
from runner.cluster import PODS, Cluster, ClusterError
from runner.collect import collect
from runner.errors import RequestError, one_line
from runner.execute import ctrl_c_raises, describe_launch, describe_surroundings, follow, utc_now
from runner.layout import Layout
from runner.manifest import to_yaml
from runner.plan import Cell, Run
from runner.podfile import RUN
from runner.record import RunFolder, begin, require_writable
from runner.schema import FINISHED, Outcome
from runner.targets.kubernetes import KubernetesExecution, KubernetesRequest
from runner.targets.pods import selector
from runner.targets.torchrun import node_requests

if TYPE_CHECKING:
    from pathlib import Path

    from runner.console import Screen
    from runner.schema import Launch, Record

TARGET = "kubernetes"
_KINDS = ("PyTorchJob", "Job")


def collect_applied(
    path: Path, root: Path, results: Path, namespace: str | None, context: str | None, screen: Screen
) -> list[Record]:
    """Make the record of every job of a manifest, to its end where it still runs.

    Raises RequestError for a file without such a job, and for a job that the cluster does not have.
    """
    require_writable(results)
    records = []
    for document in _jobs(path):
        metadata = document["metadata"]
        cluster = Cluster(namespace or str(metadata.get("namespace") or ""), context or "")
        live = _find(cluster, document["kind"], str(metadata["name"]), path)
        records.append(_collect(cluster, live, _run(live, root, path), results, screen))
    return records


def _jobs(path: Path) -> list[dict[str, Any]]:
    try:
        documents = list(YAML(typ="safe", pure=True).load_all(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        msg = f"{path}: {one_line(getattr(error, 'strerror', None) or error)}"
        raise RequestError(msg) from None
    found = [one for one in documents if isinstance(one, dict) and one.get("kind") in _KINDS and _name(one)]
    if not found:
        msg = f"{path}: there is no PyTorchJob and no Job with a name in it"
        raise RequestError(msg)
    return found


def _name(document: dict[str, Any]) -> object:
    metadata = document.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _find(cluster: Cluster, kind: str, name: str, path: Path) -> dict[str, Any]:
    try:
        return {"kind": kind, **cluster.get(cluster.path(kind, name))}
    except ClusterError as error:
        missing = f"no {kind} {name} there: kubectl apply -f {path}; one that has ended is kept for a day"
        where = f"namespace {cluster.namespace} of {cluster.host}: " if error.status else ""
        msg = where + (missing if error.is_absence else str(error))
        raise RequestError(msg) from None


def _run(live: dict[str, Any], root: Path, path: Path) -> Run:
    """Read from a job's annotation which cell of which experiment it is."""
    try:
        told = json.loads(live["metadata"]["annotations"][RUN])
        name, layout = str(told["experiment"]), Layout.parse(str(told["layout"]))
        axes, args, device = dict(told["axes"]), dict(told["args"]), str(told["device"])
        named = str(told["program"])
    except (KeyError, ValueError, TypeError) as error:
        msg = f"{path}: the job's annotation {RUN} does not tell which experiment it is: {one_line(error)}"
        raise RequestError(msg) from None
    experiment = definition.load(definition.find(name, root), root)
    return Run(experiment, Cell(layout, program.find(root, named), axes, args), 1, 1, device)


def _collect(cluster: Cluster, live: dict[str, Any], run: Run, results: Path, screen: Screen) -> Record:
    launch = _launch(live, run)
    folder = RunFolder(results / launch.experiment / launch.id)
    if (before := _before(folder)) and (before.status == "completed" or not _has_pods(cluster, live)):
        screen.note(f"{folder.path}: collected already: {before.status}")
        return before
    folder.discard()
    request = {key: value for key, value in live.items() if key != "status"}
    request["metadata"] = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    folder = begin(results, launch, to_yaml(request), "", KubernetesRequest.file)
    screen.begin(1, 1, run, folder.path)
    because = None
    with ctrl_c_raises():
        execution = KubernetesExecution(cluster, [live], folder, run.cell.layout.nodes, by_hand=True)
        try:
            follow(execution, math.inf, screen)
        except OSError as error:
            because = str(error)
        except KeyboardInterrupt:
            folder.discard()  # the job goes on, and can be collected later
            raise
        exits = execution.exits
        ended = max((str(one.place["finished"]) for one in exits if "finished" in one.place), default=utc_now())
        outcome = Outcome(
            ended=ended,
            wall_seconds=max(0.0, (_moment(ended) - _moment(launch.started)).total_seconds()),
            exits=exits,
            stopped_because=because,
            collected_afterwards=True,
        )
        folder.keep_outcome(outcome)
        record = collect(folder, launch, outcome)
        folder.finish(record)
    screen.end(run, record, folder.path)
    return record


def _launch(live: dict[str, Any], run: Run) -> Launch:
    """Describe the launch; its id is made of the job's own, so that it is collected once."""
    code, _ = environment.describe_code(run.experiment.root)
    launch = describe_launch(run, TARGET, node_requests(run.cell, "node0"), describe_surroundings(code))
    metadata = live["metadata"]
    created = _moment(metadata["creationTimestamp"])
    launch.id = f"{created:%Y%m%dT%H%M%SZ}-{TARGET}-{metadata['uid'][:8]}"
    launch.started = created.isoformat(timespec="milliseconds")
    launch.by_hand = True
    return launch


def _before(folder: RunFolder) -> Record | None:
    try:
        record = folder.read()
    except (OSError, ValueError):
        return None
    return record if record.status in FINISHED else None


def _has_pods(cluster: Cluster, live: dict[str, Any]) -> bool:
    found = cluster.get(cluster.path(PODS), labelSelector=selector(live["kind"], live["metadata"]["name"]))
    return bool(found.get("items"))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
