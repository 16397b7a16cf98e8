"""Static analysis of a Python file: its imports, and the signs that it trains."""

import ast
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.sources import syntax_tree

FRAMEWORKS = {
    *("torch", "lightning", "pytorch_lightning", "transformers", "accelerate", "deepspeed", "keras", "trl", "peft"),
    *("fastai", "ignite", "composer", "trainkit", "timm", "sentence_transformers", "setfit", "diffusers"),
}


class Sign:
    """Signs in source code that it trains a model, with their names for the user."""

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


ACROSS = (Sign.GROUP, Sign.DEEPSPEED, Sign.ACCELERATOR, Sign.FABRIC, Sign.PARALLEL)
"""Signs of a training with several processes, the strongest first."""
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


@dataclass(frozen=True)
class Source:
    """A Python file: its top-level imports, signs that it trains a model, and whether running it does anything.

    `level` is the largest number of dots in a relative import. `devices` is the text of Lightning's argument `devices`.
    """

    imports: frozenset[str]
    level: int
    signs: frozenset[str]
    is_program: bool
    devices: str | None = None


@lru_cache(maxsize=8_192)
def read(path: Path) -> Source:
    """Analyse a file. Raises RequestError if it cannot be read, or if this version of Python cannot parse it."""
    try:
        tree = syntax_tree(path.read_bytes())
    except SyntaxError as error:
        version = ".".join(platform.python_version_tuple()[:2])
        raise RequestError(f"{one_line(path.name)}:{error.lineno or 1} is not Python {version}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise RequestError(f"{one_line(path.name)} cannot be read: {one_line(error) or 'nested too deep'}") from None
    imports, signs, level, devices = set[str](), set[str](), 0, None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            level = max(level, node.level)
            imports |= set() if node.level else {(node.module or "").partition(".")[0]}
        elif isinstance(node, ast.Call):
            signs |= set(_of_call(node))
            devices = devices or _devices(node)
        elif isinstance(node, ast.Constant) and node.value in _LAUNCHERS:
            signs.add(Sign.LAUNCH)
    is_program = any(map(_is_work, tree.body)) or _ends_with_own_call(tree.body)
    return Source(frozenset(imports), level, frozenset(signs), is_program, devices)


def _dotted(node: ast.AST) -> str:
    """Return the dotted name of an expression: `a.b.c`, or `.b.c` if the first part is not a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *reversed(parts)])


def _of_call(call: ast.Call) -> Iterator[str]:
    receiver, _, method = _dotted(call.func).rpartition(".")
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
    if _dotted(call.func).rpartition(".")[2] not in ("Trainer", "Fabric"):
        return None
    return next((ast.unparse(word.value)[:200] for word in call.keywords if word.arg == "devices"), None)


def _is_work(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return "__name__" in ast.unparse(node.test) and "__main__" in ast.unparse(node.test)
    if isinstance(node, ast.For | ast.While | ast.With):
        return any(isinstance(inner, ast.Call) for inner in ast.walk(node))
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    name = _dotted(node.value.func)
    return not name.startswith(("sys.path.", "warnings.", "logging.", "os.environ", "torch.set_", "torch.backends"))


def _ends_with_own_call(body: list[ast.stmt]) -> bool:
    """Return whether a file calls one of its functions in an assignment after all definitions: `best = run()`.

    An assignment between definitions does not count, since it sets a constant: `DEVICE = find_device()`.
    """
    functions, found = set[str](), False
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.add(node.name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = False
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            found |= _dotted(node.value.func) in functions
    return found
