"""Programs: where they are and which arguments they take, read from their source without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runner.errors import RequestError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "experiments"
_FLAGS = ("store_true", "store_false")
_SWITCH = "BooleanOptionalAction"
_NUMBERS = ("int", "float")


class Option(NamedTuple):
    """One argument as its program declares it.

    The kind is `int`, `float`, `flag` (it stands there or it does not), `switch` (`--amp`, `--no-amp`), or `value`
    for anything else; choices are empty where any value is taken, or where they cannot be read from the source.
    """

    spelling: str
    kind: str = "value"
    choices: tuple[object, ...] = ()

    def refuses(self, value: object) -> str | None:
        """Return what the program takes, if this value is something else."""
        is_bool = isinstance(value, bool)
        if self.kind in ("flag", "switch"):
            return None if is_bool else "true or false"
        if self.kind == "int":
            return None if isinstance(value, int) and not is_bool else "a whole number"
        if self.kind == "float":
            return None if isinstance(value, int | float) and not is_bool else "a number"
        if self.choices and value not in self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return None


@dataclass(frozen=True)
class Program:
    """A training script, `experiments/<family>/<program>.py`.

    `options` maps an argument's key (`batch_size`) to what the source declares of it. It is empty where the source
    declares none that can be read, and then every argument is passed on as `--key value`.
    """

    name: str
    path: Path
    options: dict[str, Option]

    @property
    def module(self) -> str:
        """Name for `torchrun -m`."""
        return f"{PACKAGE}.{self.name}"

    def check(self, key: str, value: object = None) -> None:
        """Raise RequestError for an argument that the program does not declare, or a flag that is not true or false."""
        if self.options and key not in self.options:
            msg = f"program {self.name} takes no arg '{key}'{did_you_mean(key, sorted(self.options))}"
            raise RequestError(msg)
        option = self._option(key)
        if value is not None and (wrong := option.refuses(value)):
            msg = f"{option.spelling} of program {self.name} is {wrong}, not {value!r}"
            raise RequestError(msg)

    def argv(self, args: dict[str, object]) -> list[str]:
        """Spell args as the program's command line; a null is left to the program's own default."""
        words: list[str] = []
        for key, value in args.items():
            option = self._option(key)
            if value is None:
                continue
            if option.kind not in ("flag", "switch"):
                text = _spell(value)
                # argparse takes a word that begins with a hyphen, as -1e-3, for an option of its own.
                words += [f"{option.spelling}={text}"] if text.startswith("-") else [option.spelling, text]
            elif value:
                words.append(option.spelling)
            elif option.kind == "switch":
                words.append(f"--no-{option.spelling[2:]}")
        return words

    def _option(self, key: str) -> Option:
        return self.options.get(key, Option(f"--{key}"))


def find(root: Path, name: str) -> Program:
    """Find the program `<family>.<program>` below the project's folder; RequestError if there is none."""
    path = root.joinpath(PACKAGE, *name.split(".")).with_suffix(".py")
    if not path.is_file():
        msg = f"program '{name}' does not exist ({path}){did_you_mean(name, names(root))}"
        raise RequestError(msg)
    return Program(name, path, _options(root, path))


def names(root: Path) -> list[str]:
    """List every program below the project's folder: the modules that can be run."""
    folder = root / PACKAGE
    runnable = (
        path
        for path in sorted(folder.rglob("*.py"))
        if path.is_file() and not path.name.startswith("_") and "__main__" in path.read_text("utf-8", errors="replace")
    )
    return [".".join(path.relative_to(folder).with_suffix("").parts) for path in runnable]


def _spell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options(root: Path, path: Path) -> dict[str, Option]:
    """Collect `add_argument("--key", ...)` from a source file and from the modules of the kit that it imports."""
    options: dict[str, Option] = {}
    waiting, seen = [path], set()
    while waiting:
        source = waiting.pop()
        if source in seen or not source.is_file():
            continue
        seen.add(source)
        try:
            tree = ast.parse(source.read_text("utf-8"), str(source))
        except (SyntaxError, UnicodeDecodeError, ValueError) as error:
            msg = f"{source}:{getattr(error, 'lineno', None) or 1}: the program cannot be read as Python: {error}"
            raise RequestError(msg) from None
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                options.update(_declared(node))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                waiting += _imported(root, source, node)
    return options


def _declared(call: ast.Call) -> dict[str, Option]:
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"):
        return {}
    spellings = [word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    long = [word for word in spellings if word.startswith("--")]
    if not long:
        return {}
    said = {word.arg: word.value for word in call.keywords}
    action = ast.unparse(said["action"]).strip("'\"") if "action" in said else ""
    number = ast.unparse(said["type"]) if "type" in said and "nargs" not in said else ""
    kind = number if number in _NUMBERS else "value"
    kind = "switch" if action.endswith(_SWITCH) else "flag" if action.endswith(_FLAGS) else kind
    return {long[0][2:].replace("-", "_"): Option(long[0], kind, _literals(said.get("choices")))}


def _literals(node: ast.expr | None) -> tuple[object, ...]:
    """Return the choices that stand in the source as they are; none where they are computed."""
    try:
        values = ast.literal_eval(node) if node else ()
    except ValueError:
        return ()
    return tuple(values) if isinstance(values, list | tuple | set) else ()


def _imported(root: Path, source: Path, node: ast.Import | ast.ImportFrom) -> list[Path]:
    """Return the files that an import may name; those outside of the kit's package are left out."""
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif node.level:
        if not source.parents[node.level - 1 :] or not source.parents[node.level - 1].is_relative_to(root):
            return []
        base = source.parents[node.level - 1].relative_to(root).parts
        stem = ".".join((*base, *(node.module or "").split("."))).rstrip(".")
        modules = [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
    else:
        modules = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    inside = [module for module in modules if module == PACKAGE or module.startswith(f"{PACKAGE}.")]
    return [root.joinpath(*module.split(".")).with_suffix(".py") for module in inside]
