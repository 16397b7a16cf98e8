"""Set up the virtual environment from the hash-locked lists of packages, with uv.

    python3 requirements/setup.py VENV runtime|kubernetes|report|mlflow|develop

`make` calls it. Two set-ups at the same time wait for each other, and one that was cut off continues where it stopped:
uv keeps what it has fetched. TORCH=current takes the newest PyTorch instead of 2.3.1. TORCH_CPU names a package index
with the CPU-only wheels of PyTorch, for a machine without a GPU. This file keeps to the syntax of Python 3.6, so that
an old Python gets a sentence and no traceback.
"""

import errno
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = {"": ("runtime", "dev"), "current": ("current", "current-dev")}
"""The lock of a run and that of all the rest, for torch 2.3.1 and, with TORCH=current, for the newest one."""
STAGES = {
    "runtime": (),
    "kubernetes": ("kubernetes",),
    "report": ("report",),
    "mlflow": ("mlflow",),
    "develop": ("kubernetes", "report", "checks"),
}
"""What each stage adds to a run: lists in requirements/, whose versions and hashes are in the second lock."""
NEWEST = {"": 12, "current": 13}
"""The minor version of the newest Python that has wheels of all of them; the oldest is 3.10."""
UV = re.compile(r"(?m)^uv==.*(?:\n .*)*")
CUDA = re.compile(r"(torch|torchvision|triton|cuda-[a-z]+|nvidia-(?!ml-py)[a-z0-9-]+)==")
TORCH = re.compile(r"(?m)^((?:torch|torchvision)==[0-9.]+)( ; [^\\\n]*)?")
SIZES_GB = 2.9, 5.1
"""To fetch and on disk: most of it is PyTorch with CUDA."""
CPU_SIZES_GB = 0.4, 1.5


class SetupError(Exception):
    """What the caller can mend, in one line."""


def main(venv: Path, stage: str) -> None:
    """Install one stage and what it stands on, unless the environment has it already."""
    try:
        torch = os.environ.get("TORCH", "")
        check_machine(torch, stage)
        venv.mkdir(parents=True, exist_ok=True)
        with (venv / ".setup.lock").open("w") as lock:
            wait_for_others(lock, venv)
            for name in dict.fromkeys(["runtime", stage]):
                install(venv, name, torch)
    except SetupError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        way_out = "free some space" if error.errno == errno.ENOSPC else "make it writable"
        sys.exit(f"error: {error.filename or venv}: {error.strerror}: {way_out} and call make again")
    except KeyboardInterrupt:
        sys.exit(130)


def check_machine(torch: str, stage: str) -> None:
    """Refuse a machine that the lists are not made for; go on with another Python if this one lacks wheels."""
    if torch not in LOCKS or stage not in STAGES or (torch and stage == "mlflow"):  # which current-dev.lock lacks
        known = "TORCH=current is the newest PyTorch, without TORCH= it is 2.3.1"
        raise SetupError(f"no packages are locked for TORCH={torch} and {stage}: {known}")
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        here = f"{platform.system()} on {platform.machine()}"
        raise SetupError(f"the packages are locked for Linux on x86-64 and arm64, this is {here}")
    newest = NEWEST[torch]
    if (3, 10) <= sys.version_info[:2] <= (3, newest):
        return
    here = ".".join(map(str, sys.version_info[:2]))
    names = [f"python3.{minor}" for minor in range(newest, 9, -1)]
    found = next(filter(None, map(shutil.which, names)), None) or fetch_python(names[0])
    if not found:
        ways = f"install {names[0]}, or name one that lies elsewhere, make PYTHON=..."
        if newest < sys.version_info[1] <= NEWEST["current"]:
            ways += "; the newest PyTorch has them for this one: make TORCH=current"
        raise SetupError(f"the packages are locked for Python 3.10 to 3.{newest}, this is {here}: {ways}")
    say(f"this Python is {here}, the packages are locked for 3.10 to 3.{newest}: going on with {found}")
    os.execv(found, [found, *sys.argv])  # noqa: S606


def fetch_python(name: str) -> str:
    """Let uv fetch a Python; empty if it cannot."""
    say(f"no {name} is here: fetching one with uv")
    version = name[len("python") :]
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin" / "python"
        uv = python.with_name("uv")
        if run([sys.executable, "-m", "venv", folder], quiet=True) or run(pip_of_uv(Path(folder))):
            return ""
        if run([uv, "python", "install", version]):
            return ""
        asked = [str(uv), "python", "find", "--managed-python", version]
        return subprocess.run(asked, stdout=subprocess.PIPE, check=False).stdout.decode().strip()


def wait_for_others(lock, venv: Path) -> None:  # type: ignore[no-untyped-def]
    """Wait until no other set-up works in the same environment."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        say(f"another set-up works in {venv}: waiting until it has ended")
        fcntl.flock(lock, fcntl.LOCK_EX)


def install(venv: Path, stage: str, torch: str) -> None:
    """Install the packages of one stage; its stamp holds the hash of what it was made from."""
    lock, others = (ROOT / "requirements" / f"{name}.lock" for name in LOCKS[torch])
    wanted = [ROOT / "requirements" / f"{name}.in" for name in STAGES[stage]]
    stamp, made_from = (
        venv / f".{stage}",
        fingerprint([ROOT / "pyproject.toml", lock, *([others, *wanted] if wanted else [])]),
    )
    if stamp.is_file() and stamp.read_text("utf-8") == made_from:
        stamp.touch()
        return
    python = venv / "bin" / "python"
    if not python.exists() or run([python, "-c", "import pip"], quiet=True):
        say(f"creating {venv}")
        if run([sys.executable, "-m", "venv", venv]):
            raise SetupError("the virtual environment cannot be created: on Debian, install the package python3-venv")
    uv = [venv / "bin" / "uv", "pip", "install", "--python", python]
    if run(pip_of_uv(venv)):
        raise SetupError("uv could not be fetched with pip, whose message is above: see the network, call make again")
    pinned = others if wanted else lock
    announce(venv, pinned)
    index = os.environ.get("TORCH_CPU")
    if index:
        text = pinned.read_text("utf-8")
        pinned = venv / "without-cuda.lock"
        pinned.write_text(without_cuda(text), "utf-8")
        if not wanted:
            wheels = venv / "torch.txt"
            wheels.write_text("".join(f"{pin}+cpu{marker}\n" for pin, marker in TORCH.findall(text)), "utf-8")
            fetch([*uv, "--no-deps", "--index-url", index, "--requirement", wheels])
            uv.append("--no-deps")
    if wanted:
        lists = [word for path in wanted for word in ("--requirement", path)]
        fetch([*uv, "--constraint", pinned, *lists])
    else:
        fetch([*uv, "--require-hashes", "--requirement", pinned])
        fetch([*uv, "--quiet", "--no-deps", "--no-build-isolation", "--editable", ROOT])
        (venv / ".kit-lock").write_text(f"requirements/{lock.name}", "utf-8")  # a record names it
    stamp.write_text(made_from, "utf-8")


def pip_of_uv(venv: Path) -> list:  # type: ignore[type-arg]
    """Return the command that installs uv itself, by its hash."""
    listed = venv / "uv.txt"
    listed.write_text(UV.search((ROOT / "requirements" / "dev.lock").read_text("utf-8"))[0], "utf-8")  # type: ignore[index]
    pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [*pip, "--require-hashes", "--requirement", listed]


def announce(venv: Path, lock: Path) -> None:
    """Say how much will be fetched, before it is, and refuse a disk that is too small for it."""
    if any(venv.glob("lib/python*/site-packages/torch/__init__.py")):
        say(f"installing what {venv} lacks of {lock.name}")
        return
    fetched_gb, installed_gb = CPU_SIZES_GB if os.environ.get("TORCH_CPU") else SIZES_GB
    say(f"installing {lock.name} into {venv}: up to {fetched_gb} GB to fetch, {installed_gb} GB on disk")
    free_gb = shutil.disk_usage(venv).free / 1e9
    if free_gb < installed_gb:
        raise SetupError(f"{venv} has {free_gb:.1f} GB of free space: free some, or name another folder with VENV=")


def fetch(command: list) -> None:  # type: ignore[type-arg]
    """Run uv; what it has fetched before a failure is kept."""
    if run(command):
        raise SetupError("uv could not install the packages, its message is above; `make` again continues from there")


def run(command: list, *, quiet: bool = False) -> int:  # type: ignore[type-arg]
    """Run a command and return its exit code; its output goes to stderr."""
    sink = subprocess.DEVNULL if quiet else sys.stderr
    environment = {**index_of_pip(), **os.environ}
    words = [str(word) for word in command]
    if quiet or sys.stderr.isatty():  # uv draws its progress on a terminal only
        return subprocess.run(words, env=environment, stdout=sink, stderr=sink, check=False).returncode
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout or ():
            if not line.startswith(b" + "):  # uv's list of every package
                sys.stderr.write(line.decode("utf-8", "replace"))
                sys.stderr.flush()
        return process.wait()


def index_of_pip() -> dict:  # type: ignore[type-arg]
    """Give uv the package index and the certificates that pip is set up with: uv does not read pip's settings."""
    settings = {}
    if "UV_INDEX_URL" not in os.environ and "UV_DEFAULT_INDEX" not in os.environ:
        asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        told = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode()
        index = os.environ.get("PIP_INDEX_URL") or told.strip()
        settings.update({"UV_DEFAULT_INDEX": index} if index else {})
    if os.environ.get("PIP_CERT"):
        settings["SSL_CERT_FILE"] = os.environ["PIP_CERT"]
    return settings


def without_cuda(text: str) -> str:
    """Return a lock file without PyTorch and what its CUDA build needs."""
    kept, keep = [], True
    for line in text.splitlines(keepends=True):
        keep = not CUDA.match(line) if re.match("[a-z]", line) else keep
        kept += [line] if keep else []
    return "".join(kept)


def fingerprint(paths: list) -> str:  # type: ignore[type-arg]
    """Hash the lists that a stage is installed from."""
    parts = [path.read_bytes() for path in paths] + [os.environ.get("TORCH_CPU", "").encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def say(text: str) -> None:
    """Print a line at once."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
