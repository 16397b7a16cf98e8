"""Files of settings that a program reads by itself, YAML, JSON or TOML."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from runner.definitions.options.literals import literal
from runner.definitions.options.option import Configuration, Option
from runner.definitions.options.sources import last

if TYPE_CHECKING:
    from runner.definitions.options.sources import Code, Source

_LOADS = {
    **dict.fromkeys(("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load"), "yaml"),
    **dict.fromkeys(("omegaconf.OmegaConf.load", "OmegaConf.load"), "yaml"),
    **dict.fromkeys(("tomllib.load", "toml.load", "tomli.load"), "toml"),
    **dict.fromkeys(("json.load", "json.loads"), "json"),
}
_METHODS = {"parse_yaml_file": "yaml", "parse_json_file": "json"}
_NAMED = re.compile(r"(^|_)(config|configs|cfg|conf|settings|hparams|hyp|yaml|yml|json|toml)(_|$)")
"""Names of arguments and variables that hold the path of such a file."""
_FILE = re.compile(r"[\w./ -]+\.(ya?ml|json|toml)")
_FORMS = {"yml": "yaml"}
_FIRST = "config"


def find_configuration(code: Code, options: dict[str, Option]) -> Configuration | None:
    """Find the file of settings that a program reads, and the argument that names it.

    JSON is read for much besides, so such a file counts only if its name, or that of its argument, says what it is.
    """
    known = {key for key in options if _NAMED.search(key)}
    for source, call in code.every_call():
        form = _LOADS.get(source.origin(call.func)) or _METHODS.get(last(call.func))
        if form is None:
            continue
        words, paths = _words(code, source, call)
        key = next((key for key in options if key in words and (form != "json" or key in known)), "")
        if form != "json" and not key and not paths:
            key = min(known, default="")
        if not key and not paths and form == "json":
            continue
        path = paths[0] if paths else options[key].default if key else ""
        return Configuration(form, key, path if isinstance(path, str) else "")
    return None


def first_word(code: Code) -> dict[str, Option]:
    """Return the argument of a script that loads its settings from `sys.argv[1]`."""
    first = (node for source in code.sources for node in ast.walk(source.tree) if isinstance(node, ast.Subscript))
    if any(last(node.value) == "argv" and literal(node.slice) == 1 for node in first):
        return {_FIRST: Option(_FIRST, required=True)}
    return {}


def _words(code: Code, source: Source, call: ast.Call) -> tuple[set[str], list[str]]:
    """Return the names that lead to the file which a call loads, and the paths that stand there.

    Followed are `with open(args.config) as file`, a variable, and the parameter of a function that loads.
    """
    opened = _opened(source)
    nodes: list[ast.AST] = [*call.args[:1], *(word.value for word in call.keywords)]
    words: set[str] = set()
    paths: list[str] = []
    seen: set[int] = set()
    while nodes:
        for node in ast.walk(nodes.pop()):
            if id(node) in seen:
                continue
            seen.add(id(node))
            text = literal(node) if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and _FILE.fullmatch(text):
                paths.append(text)
            name = last(node)
            if name and name not in words:
                words.add(name)
                nodes += opened.get(name, [])
                nodes += [code.values[name]] if isinstance(node, ast.Name) and name in code.values else []
                nodes += _given(code, source, name)
    return words, paths


def _opened(source: Source) -> dict[str, list[ast.AST]]:
    """Return what stands behind each name of `with ... as name`."""
    found: dict[str, list[ast.AST]] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            found.setdefault(node.optional_vars.id, []).append(node.context_expr)
    return found


def _given(code: Code, source: Source, parameter: str) -> list[ast.AST]:
    """Return what the function of a file that has such a parameter is called with."""
    names = {
        function.name: index
        for function in source.part.functions.values()
        for index, one in enumerate(function.args.args)
        if one.arg == parameter
    }
    calls = [(call, names[last(call.func)]) for _, call in code.every_call() if last(call.func) in names]
    return [call.args[index] for call, index in calls if index < len(call.args)]
