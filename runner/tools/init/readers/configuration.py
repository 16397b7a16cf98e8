"""Files of settings that a program reads by itself, YAML, JSON or TOML."""

import ast
import re

from runner.definitions.options.option import Configuration, Option
from runner.definitions.options.sources import Code, last, literal

_LOADS = {
    **dict.fromkeys(("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load"), "yaml"),
    **dict.fromkeys(("omegaconf.OmegaConf.load", "OmegaConf.load"), "yaml"),
    **dict.fromkeys(("tomllib.load", "toml.load", "tomli.load"), "toml"),
    **dict.fromkeys(("json.load", "json.loads"), "json"),
}
_NAMED = re.compile(r"(^|_)(config|configs|cfg|conf|settings|hparams|hyp|yaml|yml|json|toml)(_|$)")
"""Names of arguments and variables that hold the path of such a file."""
_FILE = re.compile(r"[\w./ -]+\.(ya?ml|json|toml)")
_FIRST = "config"
MOST_LOADS, MOST_NODES = 100, 2_000
"""How many calls that load something are looked at, and how far each is followed."""


def find_configuration(code: Code, options: dict[str, Option]) -> Configuration | None:
    """Find the file of settings that a program reads, and the argument that names it.

    JSON is read for much besides, so such a file counts only if its name, or that of its argument, says what it is.
    """
    named = {key for key in options if _NAMED.search(key)}
    loads = [(_LOADS.get(source.origin(call.func), ""), call) for source, call in code.every_call()]
    loads = [(form, call) for form, call in loads if form][:MOST_LOADS]
    origins = _origins(code) if loads else {}
    for form, call in loads:
        words, paths = _follow(origins, call)
        key = next((key for key in options if key in words and (form != "json" or key in named)), "")
        if not key and not paths:
            if form == "json":
                continue
            key = min(named, default="")
        path = paths[0] if paths else options[key].default if key else ""
        return Configuration(form, key, path if isinstance(path, str) else "")
    return None


def first_word(code: Code) -> dict[str, Option]:
    """Return the argument of a script that loads its settings from `sys.argv[1]`."""
    first = (node for source in code.sources for node in ast.walk(source.tree) if isinstance(node, ast.Subscript))
    if any(last(node.value) == "argv" and literal(node.slice) == 1 for node in first):
        return {_FIRST: Option(_FIRST, required=True)}
    return {}


def _origins(code: Code) -> dict[str, list[ast.AST]]:
    """Return what is behind each name: `with open(args.config) as file`, a variable, a function's parameter."""
    origins: dict[str, list[ast.AST]] = {name: [value] for name, value in code.values.items()}
    parameters: dict[str, list[str]] = {}
    for source in code.sources:
        for function in source.part.functions.values():
            parameters.setdefault(function.name, [parameter.arg for parameter in function.args.args])
        for node in ast.walk(source.tree):
            if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
                origins.setdefault(node.optional_vars.id, []).append(node.context_expr)
    for _, call in code.every_call():
        for name, given in zip(parameters.get(last(call.func), []), call.args, strict=False):
            origins.setdefault(name, []).append(given)
    return origins


def _follow(origins: dict[str, list[ast.AST]], call: ast.Call) -> tuple[set[str], list[str]]:
    """Return the names that lead to the file which a call loads, and the paths that stand on the way."""
    nodes: list[ast.AST] = [*call.args[:1], *(word.value for word in call.keywords)]
    words: set[str] = set()
    paths: list[str] = []
    looked = 0
    while nodes:
        for node in ast.walk(nodes.pop(0)):
            looked += 1
            if looked > MOST_NODES:
                return words, paths
            text = literal(node) if isinstance(node, ast.Constant) else None
            paths += [text] if isinstance(text, str) and _FILE.fullmatch(text) else []
            name = last(node)
            if name and name not in words:
                words.add(name)
                nodes += origins.get(name, []) if isinstance(node, ast.Name) else []
    return words, paths
