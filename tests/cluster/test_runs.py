"""Texts, shapes and security standards of a cluster; tests/contract compares the records of runs with local ones."""

import pytest

from tests.cluster.conftest import Run
from tests.support.cluster import kubectl
from tests.support.projects import Project

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("processes", [3])
@pytest.mark.parametrize("job", ["pytorchjob", "indexed"])
def test_a_text_that_kubernetes_would_expand_reaches_the_program_as_it_is(project: Project, run: Run, job: str) -> None:
    strange = "$(OMP_NUM_THREADS) $$(HOME) $x ${y} ${local_rank} $(PET_NNODES"
    words = ("--layout", "1+2", "--set", f"text={strange}")
    done, record = run("odd-echoes", *words, "--with", f"job={job}")
    assert done.code == 0, done.snapshot
    assert record["launch"]["args"]["text"] == strange
    raw = project.results / "odd-echoes" / record["launch"]["id"] / "raw"
    for node, ranks in enumerate((1, 2)):
        printed = (raw / f"node{node}-agent.log").read_text("utf-8").splitlines()
        assert [line for line in printed if line.startswith("text: ")] == [f"text: {strange}"] * ranks


@pytest.mark.parametrize("processes", [5])  # of 250m; its pods ask for more
def test_a_layout_of_three_shapes_runs_as_an_indexed_job(run: Run) -> None:
    done, record = run("toy", "--layout", "1+2+1", "--with", "job=indexed", "--set", "steps=5", "--with", "cpu=400m")
    assert done.code == 0, done.snapshot
    assert len(record["ranks"]) == 4
    places = [node["place"] for node in record["outcome"]["exits"]]
    assert [place["pod"].rsplit("-", 2)[1] for place in places] == ["0", "1", "2"]
    assert all(place["limits"]["cpu"] == "400m" for place in places)


def test_under_the_restricted_standard_the_indexed_job_runs_and_workers_are_refused(
    project: Project, namespace: str, run: Run
) -> None:
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    words = ("--on", "kubernetes", "--with", f"namespace={namespace}", "--device", "cpu", "--repeat", "1")
    refused = project.runner("run", "toy", "--layout", "2x1", *words)
    assert refused.code == 2
    assert "restricted Pod Security Standard" in refused.stderr
    assert "--with job=indexed" in refused.stderr
    done, record = run("toy", "--layout", "2x1", "--with", "job=indexed", "--set", "steps=5")
    assert done.code == 0, done.snapshot
    assert record["status"] == "completed"
    alone, record = run("toy", "--layout", "1x2", "--set", "steps=5")  # a Master alone has no such container
    assert alone.code == 0, alone.snapshot
