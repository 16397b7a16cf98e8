"""Texts, shapes and security standards of a cluster; tests/contract compares the records of runs with local ones."""

import pytest

from tests.cluster.conftest import Run
from tests.support.cluster import kubectl
from tests.support.projects import Project

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    ("job", "layout", "processes"),
    [("pytorchjob", "1+2", 3), ("indexed", "1+2+1", 5)],  # processes of 250m; the pods of the second ask for more
)
def test_a_text_that_kubernetes_would_expand_reaches_every_rank_of_unlike_nodes_as_it_is(
    project: Project, run: Run, job: str, layout: str
) -> None:
    strange = "$(OMP_NUM_THREADS) $$(HOME) $x ${y} ${local_rank} $(PET_NNODES"
    words = ("--layout", layout, "--set", f"text={strange}", "--with", "cpu=400m")
    done, record = run("odd-echoes", *words, "--with", f"job={job}")
    assert done.code == 0, done.snapshot
    assert record["launch"]["args"]["text"] == strange
    raw = project.results / "odd-echoes" / record["launch"]["id"] / "raw"
    for ended, ranks in zip(record["outcome"]["exits"], map(int, layout.split("+")), strict=True):
        assert ended["place"]["limits"]["cpu"] == "400m"
        if job == "indexed":
            assert ended["place"]["pod"].rsplit("-", 2)[1] == str(ended["node"])
        printed = (raw / f"node{ended['node']}-agent.log").read_text("utf-8")
        assert printed.splitlines().count(f"text: {strange}") == ranks


def test_under_the_restricted_standard_the_indexed_job_runs_and_workers_are_refused(
    project: Project, namespace: str, run: Run
) -> None:
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    words = ("--on", "kubernetes", "--with", f"namespace={namespace}", "--device", "cpu", "--repeat", "1")
    refused = project.refused("run", "odd-echoes", "--layout", "2x1", *words)
    assert "restricted Pod Security Standard" in refused
    assert "--with job=indexed" in refused
    done, record = run("odd-echoes", "--layout", "2x1", "--with", "job=indexed")
    assert done.code == 0, done.snapshot
    assert record["status"] == "completed"
    alone, _ = run("odd-echoes", "--layout", "1x2")  # a Master alone has no such container
    assert alone.code == 0, alone.snapshot
