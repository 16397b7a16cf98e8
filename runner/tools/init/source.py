"""What a Python file says of itself, read without running it: its imports, and the signs of a training."""

import ast
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from runner.definitions.sources import syntax_tree
from trainkit.files import read_file

LARGEST = 1_000_000
FRAMEWORKS = {
    *("torch", "lightning", "pytorch_lightning", "transformers", "accelerate", "deepspeed", "keras", "trl", "peft"),
    *("fastai", "ignite", "composer", "trainkit", "timm", "sentence_transformers", "setfit", "diffusers"),
}


class Sign:
    """The signs of a training, as a person is shown them."""

    BACKWARD = "loss.backward()"
    STEP = "optimizer.step()"
    FIT = "fit()"
    TRAINER = "a Trainer"
    GROUP = "init_process_group()"
    PARALLEL = "DistributedDataParallel"
    ACCELERATOR = "an Accelerator"
    FABRIC = "Fabric"
    DEEPSPEED = "deepspeed.initialize()"
    SPAWN = "spawn()"
    LAUNCH = "torchrun"
    EVENTS = "event lines"
    STDIN = "sys.stdin"


ACROSS = (Sign.GROUP, Sign.DEEPSPEED, Sign.ACCELERATOR, Sign.FABRIC, Sign.PARALLEL)
"""Signs of a training with several processes, the most telling first."""
SHOWN = (Sign.BACKWARD, Sign.STEP, Sign.FIT, Sign.TRAINER, *ACROSS)
_CALLS = {
    "init_process_group": Sign.GROUP,
    **dict.fromkeys(
        ("DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "fully_shard"), Sign.PARALLEL
    ),
    "Accelerator": Sign.ACCELERATOR,
    "Fabric": Sign.FABRIC,
    "EventLog": Sign.EVENTS,
}
_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_SPAWNS = ("spawn", "start_processes")


class Import(NamedTuple):
    """One imported module; `level` counts the dots of a relative import, `names` are what is taken of it."""

    module: str
    level: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A Python file: its imports, its signs, and whether starting it does anything."""

    imports: tuple[Import, ...]
    signs: frozenset[str]
    guarded: bool
    """It has `if __name__ == "__main__"`."""
    works: bool
    """Something is done at its top level, or its last lines take what a function of its own returns."""
    devices: str | None = None
    """What Lightning's Trainer is given as `devices`, as it is written."""

    @property
    def frameworks(self) -> list[str]:
        """Name the frameworks that it imports."""
        absolute = {statement.module.partition(".")[0] for statement in self.imports if not statement.level}
        return sorted(absolute & FRAMEWORKS)


@lru_cache(maxsize=8_192)
def read(path: Path) -> Source | None:
    """Read a file; None for one that cannot be read, or is no Python of this version."""
    tree = parse(path)
    if isinstance(tree, str):
        return None
    imports: list[Import] = []
    signs: set[str] = set()
    devices = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [Import(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append(Import(node.module or "", node.level, tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Call):
            signs |= set(_of_call(node))
            devices = devices or _devices(node)
        elif isinstance(node, ast.Constant) and node.value in _LAUNCHERS:
            signs.add(Sign.LAUNCH)
        elif isinstance(node, ast.Attribute) and dotted(node) == "sys.stdin":
            signs.add(Sign.STDIN)
    guarded = any(isinstance(node, ast.If) and _is_guard(node.test) for node in tree.body)
    works = any(map(_is_work, tree.body)) or _ends_with_own_call(tree.body)
    return Source(tuple(imports), frozenset(signs), guarded, works, devices)


def parse(path: Path) -> ast.Module | str:
    """Parse a file; the words say why that cannot be done."""
    try:
        return syntax_tree(read_file(path, LARGEST))
    except SyntaxError as error:
        version = ".".join(platform.python_version_tuple()[:2])
        return f"line {error.lineno or 1} is no Python {version} ({error.msg})"
    except OSError as error:
        return error.strerror or "it cannot be read"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or "it is nested too deep"


def dotted(node: ast.AST) -> str:
    """Write a name or attributes of one, `a.b.c`; of anything else only its attributes, `.b.c`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *reversed(parts)])


def _last(node: ast.AST) -> str:
    return dotted(node).rpartition(".")[2]


def _of_call(call: ast.Call) -> Iterator[str]:
    receiver, _, method = dotted(call.func).rpartition(".")
    is_method = isinstance(call.func, ast.Attribute)
    owner = receiver.rpartition(".")[2].lower()
    if sign := _CALLS.get(method):
        yield sign
    if method == "backward":
        yield Sign.BACKWARD
    elif method == "step" and any(word in owner for word in ("opt", "scaler")):
        yield Sign.STEP
    elif method == "fit" and is_method:
        yield Sign.FIT
    elif method.endswith("Trainer") or (method == "train" and "trainer" in owner):
        yield Sign.TRAINER
    elif method in _SPAWNS and (receiver.endswith(("mp", "multiprocessing")) or not is_method):
        yield Sign.SPAWN
    elif method == "initialize" and owner == "deepspeed":
        yield Sign.DEEPSPEED
    elif method == "running" and (not is_method or owner == "trainkit"):
        yield Sign.EVENTS


def _devices(call: ast.Call) -> str | None:
    if _last(call.func) not in ("Trainer", "Fabric"):
        return None
    return next((ast.unparse(word.value)[:200] for word in call.keywords if word.arg == "devices"), None)


def _is_guard(test: ast.expr) -> bool:
    words = {_last(node) for node in ast.walk(test)}
    values = [node.value for node in ast.walk(test) if isinstance(node, ast.Constant)]
    return "__name__" in words and "__main__" in values


def _is_work(node: ast.stmt) -> bool:
    """Return whether a statement at the top level works: it loops, or calls something that a training program calls."""
    if isinstance(node, ast.For | ast.While | ast.With):
        return any(isinstance(inner, ast.Call) for inner in ast.walk(node))
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    name = dotted(node.value.func)
    return not name.startswith(("sys.path.", "warnings.", "logging.", "os.environ", "torch.set_", "torch.backends"))


def _ends_with_own_call(body: list[ast.stmt]) -> bool:
    """Return whether a call of a function of the file is assigned behind all definitions, as in `best = run()`.

    One between them is a constant of a module that others import: `DEVICE = find_device()`.
    """
    functions, found = set[str](), False
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.add(node.name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = False
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            found |= dotted(node.value.func) in functions
    return found
