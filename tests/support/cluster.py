"""What the tests that start pods share: kubectl, namespaces of their own, and room on the nodes."""

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
from typing import Any

from tests.support.containers import Images, name_of_its_own
from tests.support.launches import until

REQUEST_MILLICORES = 250
"""What a pod requests for each process, if nothing else is said."""


def kubectl(*words: str, cwd: Path | None = None, check: bool = True, stdin: bytes = b"") -> str:
    done = subprocess.run(["kubectl", *words], cwd=cwd, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0 or not check, f"kubectl {shlex.join(words)}: {done.stderr.decode()}"
    return done.stdout.decode() + ("" if check else done.stderr.decode())


def get(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", *words, "-o", "json"))["items"]
    return found


def pods(namespace: str) -> list[dict[str, Any]]:
    return sorted(get("pods", "-n", namespace), key=lambda pod: str(pod["metadata"]["name"]))


def things(namespace: str) -> list[str]:
    """What there is in a namespace of the kinds that a run makes."""
    return kubectl("get", kinds_of_runs(), "-n", namespace, "-o", "name").split()


@cache
def kinds_of_runs() -> str:
    """The kinds that runs make, as far as the cluster knows them."""
    has_trainer = "trainer.kubeflow.org" in kubectl("get", "--raw", "/apis")
    return "pytorchjobs,jobs,pods,services" + ",trainjobs,trainingruntimes,jobsets" * has_trainer


def load(images: Images) -> None:
    """Bring both images to the cluster."""
    words = [*shlex.split(os.environ["KIT_LOAD"]), images.cpu, images.gpu]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def own_namespace(shared: Path, processes: int) -> Iterator[str]:
    """A namespace of the test's own, which is empty when the test ends, and room for so many processes meanwhile."""
    name = name_of_its_own("ns")
    with room(shared, processes):
        kubectl("create", "namespace", name)
        try:
            yield name
            until(lambda: things(name) == [], 60, every=1)
        finally:
            kubectl("delete", "namespace", name, "--wait=false")


@contextmanager
def room(shared: Path, processes: int) -> Iterator[None]:
    """Wait until the nodes have room for so many processes beside those of the tests that run now.

    A pod without room stays pending, and the times that a test expects would be those of other tests.
    """
    places = [shared / f"place-{number}" for number in range(max(1, _millicores() // REQUEST_MILLICORES))]
    with ExitStack() as held:
        while not _take(held, shared, places, min(processes, len(places))):
            time.sleep(0.2)
        yield


def _take(held: ExitStack, shared: Path, places: list[Path], count: int) -> bool:
    """Lock so many places, or none: one test at a time tries, so that no two wait for each other."""
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
    """What the nodes have for pods, in thousandths of a core."""
    sizes = [str(node["status"]["allocatable"]["cpu"]) for node in get("nodes")]
    return sum(int(size[:-1]) if size.endswith("m") else 1000 * int(size) for size in sizes)


@contextmanager
def claim_with(folder: Path, namespace: str, image: str) -> Iterator[str]:
    """A volume claim with a copy of a folder, on a cluster of one node, whose disk holds it meanwhile."""
    name = name_of_its_own("data")
    kinds = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
    documents = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {**kinds, "capacity": {"storage": "1Gi"}, "hostPath": {"path": f"/tmp/{name}"}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**kinds, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
        },
    ]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(folder, ".")
    place = f"/node/{name}"
    on_the_node(namespace, image, f"mkdir {place} && tar -x -C {place} && chmod -R a+rX {place}", archive.getvalue())
    try:
        every = {"apiVersion": "v1", "kind": "List", "items": documents}
        kubectl("create", "-f", "-", stdin=json.dumps(every).encode())
        yield name
    finally:
        kubectl("delete", "--ignore-not-found", f"pvc/{name}", f"pv/{name}", "-n", namespace)
        on_the_node(namespace, image, f"rm -rf {place}")


def on_the_node(namespace: str, image: str, command: str, stdin: bytes = b"") -> None:
    """Run a shell command as root in a pod that sees the node's /tmp as /node."""
    container = {
        "name": "one",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-euc", command],
        "stdin": True,
        "stdinOnce": True,
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "node", "mountPath": "/node"}],
    }
    volumes = [{"name": "node", "hostPath": {"path": "/tmp"}}]  # the node's
    overrides = json.dumps({"spec": {"containers": [container], "volumes": volumes}})
    words = ["--rm", "--stdin", "--quiet", "--restart=Never", f"--image={image}", f"--overrides={overrides}"]
    kubectl("run", name_of_its_own("pod"), "-n", namespace, *words, stdin=stdin)
