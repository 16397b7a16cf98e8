"""Checks of a cluster before a TrainJob, and the events that tell why it has no pods."""

from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.targets.kubernetes import preflight
from runner.targets.kubernetes.job import KINDS, PodOptions
from runner.targets.kubernetes.pod_state import reason_of_job
from tests.support.manifests import run
from tests.support.trainer import Answers


def documents() -> list[dict[str, Any]]:
    return KINDS["trainjob"](run("2x1", "cpu", "quickstart"), "job", PodOptions())


def test_a_dry_run_goes_over_the_runtime_that_is_not_there_yet_and_tries_the_pods() -> None:
    cluster = Answers()
    preflight.check(cluster, documents())
    assert cluster.tried == ["TrainingRuntime", "Pod", "TrainJob"]


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (Answers(lacks="JobSet"), "the cluster does not support JobSet: .* install Kubeflow Trainer"),
        (Answers(forbids="get trainjobs"), "no permission in namespace lab to get trainjobs"),
        *((Answers(refuses=kind), "namespace lab of https://c: .* is invalid") for kind in ("TrainingRuntime", "Pod")),
    ],
)
def test_what_the_cluster_would_refuse_is_said_before_anything_is_created(cluster: Answers, why: str) -> None:
    with pytest.raises(RequestError, match=f"^{why}"):
        preflight.check(cluster, documents())


@pytest.mark.parametrize(("maker", "name"), [("TrainJob", "job"), ("JobSet", "job"), ("Job", "job-node-0")])
def test_why_a_trainjob_has_no_pods_is_what_trainer_jobset_or_the_job_reports_last(maker: str, name: str) -> None:
    cluster = Answers()
    early = {"reason": "Early", "message": "before", "eventTime": "2026-11-21T18:00:00Z"}
    late = {"reason": "FailedCreate", "message": "exceeded quota: small", "lastTimestamp": "2026-11-21T18:00:09Z"}
    cluster.events[f"involvedObject.kind={maker},involvedObject.name={name},type=Warning"] = [late, early]
    reason = reason_of_job(cluster, "TrainJob", "job")
    assert (reason and reason.text) == "FailedCreate: exceeded quota: small"
