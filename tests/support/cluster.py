"""kubectl, namespaces and room on the nodes, for tests that start pods."""

import fcntl
import io
import json
import os
import shlex
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from tests.support.containers import Images, name_of_its_own
from tests.support.launches import until

REQUEST_MILLICORES = 250
"""CPU that a pod requests by default for each process."""


def kubectl(*words: str, cwd: Path | None = None, check: bool = True, stdin: bytes = b"") -> str:
    """Return the output of kubectl, with stderr unless `check`."""
    done = subprocess.run(["kubectl", *words], cwd=cwd, input=stdin, capture_output=True, check=False)
    stdout, stderr = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0 or not check, f"kubectl {shlex.join(words)}: {stderr}"
    return stdout if check else stdout + stderr


def get(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", *words, "-o", "json"))["items"]
    return found


def pods(namespace: str) -> list[dict[str, Any]]:
    return sorted(get("pods", "-n", namespace), key=lambda pod: str(pod["metadata"]["name"]))


def things(namespace: str) -> list[str]:
    """Return the objects in a namespace that a run may have created."""
    return kubectl("get", kinds_of_runs(), "-n", namespace, "-o", "name").split()


@cache
def kinds_of_runs() -> str:
    """Return the kinds of objects that runs create and that the cluster supports."""
    has_trainer = "trainer.kubeflow.org" in kubectl("get", "--raw", "/apis")
    return "pytorchjobs,jobs,pods,services" + ",trainjobs,trainingruntimes,jobsets" * has_trainer


def load(images: Images) -> None:
    words = [*shlex.split(os.environ["KIT_LOAD"]), images.cpu, images.gpu]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def own_namespace(shared: Path, processes: int) -> Iterator[str]:
    """Create a namespace, which must be empty at the end, while there is room for so many processes.

    Without room beside other tests a pod would stay pending.
    """
    name = name_of_its_own("ns")
    places = [shared / f"place-{number}" for number in range(max(1, _millicores() // REQUEST_MILLICORES))]
    with ExitStack() as held:
        while not _take(held, shared, places, min(processes, len(places))):
            time.sleep(0.2)
        kubectl("create", "namespace", name)
        try:
            yield name
            until(lambda: things(name) == [], 60, every=1)
        finally:
            kubectl("delete", "namespace", name, "--wait=false")


def _take(held: ExitStack, shared: Path, places: list[Path], count: int) -> bool:
    """Lock so many places, or none; only one test at a time tries, which avoids deadlocks."""
    with (shared / "places").open("w") as one_at_a_time, ExitStack() as taken:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        for path in places:
            file = taken.enter_context(path.open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            count -= 1
            if not count:
                held.enter_context(taken.pop_all())
                return True
    return False


def _millicores() -> int:
    sizes = [str(node["status"]["allocatable"]["cpu"]) for node in get("nodes")]
    return sum(int(size[:-1]) if size.endswith("m") else 1000 * int(size) for size in sizes)


CLAIM = Template("""
apiVersion: v1
kind: PersistentVolume
metadata: {name: $name}
spec:
  {accessModes: [ReadWriteOnce], storageClassName: $name, capacity: {storage: 1Gi}, hostPath: {path: /tmp/$name}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $name}
spec:
  {accessModes: [ReadWriteOnce], storageClassName: $name, volumeName: $name, resources: {requests: {storage: 1Gi}}}
""")


@contextmanager
def claim_with(folder: Path, namespace: str, image: str) -> Iterator[str]:
    """Yield the name of a volume claim with a copy of a folder; the cluster must have one node, which stores it."""
    name = name_of_its_own("data")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(folder, ".")
    place = f"/node/{name}"
    on_the_node(namespace, image, f"mkdir {place} && tar -x -C {place} && chmod -R a+rX {place}", archive.getvalue())
    try:
        kubectl("create", "-n", namespace, "-f", "-", stdin=CLAIM.substitute(name=name).encode())
        yield name
    finally:
        kubectl("delete", "--ignore-not-found", f"pvc/{name}", f"pv/{name}", "-n", namespace)
        on_the_node(namespace, image, f"rm -rf {place}")


def on_the_node(namespace: str, image: str, command: str, stdin: bytes = b"") -> None:
    """Run a shell command as root in a pod that sees the node's /tmp as /node."""
    container = {
        "name": "one",
        "image": image,
        "command": ["sh", "-euc", command],
        "stdin": True,
        "stdinOnce": True,
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "node", "mountPath": "/node"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "node", "hostPath": {"path": "/tmp"}}]}
    overrides = json.dumps({"spec": spec})
    words = ["--rm", "--stdin", "--quiet", "--restart=Never", f"--image={image}", f"--overrides={overrides}"]
    kubectl("run", name_of_its_own("pod"), "-n", namespace, *words, stdin=stdin)
