"""Find the line of a program that has to be changed."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from runner.tools.check.observation import Place

_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_GIVES = (ast.Assign, ast.AugAssign, ast.For)


@cache
def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _around(path: Path, line: int) -> list[ast.stmt]:
    statements = (node for node in ast.walk(_tree(path)) if isinstance(node, ast.stmt))
    around = [node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
    around.sort(key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    functions = [at for at, node in enumerate(around) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return around[functions[-1] :] if functions else around


def epoch_loop(root: Path, place: Place) -> Place:
    """Return the epoch loop around the iteration of a loader. Returns `place` if there is none."""
    for depth, (file, line, function) in enumerate(place):
        loops = [node for node in _around(root / file, line) if isinstance(node, _LOOPS)]
        outer = [loop for loop in loops if depth or loop.lineno != line]
        if outer:
            is_around_batches = depth or len(outer) < len(loops)
            return [[file, outer[-1 if is_around_batches else 0].lineno, function]]
    return place


def loss_line(root: Path, place: Place) -> Place:
    """Return the last assignment of the loss before the call of backward at `place`."""
    for file, line, function in place[:1]:
        around = _around(root / file, line)
        names = {name for last in around[-1:] for name in _names(last) if _is_loss(name, ast.unparse(last))}
        given = (node for node in ast.walk(_scope(around, root / file)) if isinstance(node, _GIVES))
        lines = [node.lineno for node in given if node.lineno < line and names & _targets(node)]
        if lines:
            return [[file, max(lines), function]]
    return place


def _is_loss(name: str, text: str) -> bool:
    return "loss" in name.lower() or text.startswith(f"{name}.backward(") or f".backward({name}" in text


def calls_backward(root: Path, place: Place) -> bool:
    """Return whether the program itself calls backward at a place."""
    return any(".backward(" in ast.unparse(statement) for statement in _around(root / place[0][0], place[0][1])[-1:])


def divides(root: Path, place: Place) -> bool:
    """Return whether the loss around a place is divided by anything but the number of processes."""
    if not place:
        return False
    file, line, _ = place[0]
    worlds = _holders(_tree(root / file), "world_size")
    divisors = [
        part.right if isinstance(part, ast.BinOp) else part.value
        for node in ast.walk(_tree(root / file))
        if isinstance(node, ast.stmt) and abs(node.lineno - line) <= 1 and not hasattr(node, "body")
        for part in ast.walk(node)
        if isinstance(part, ast.BinOp | ast.AugAssign) and isinstance(part.op, ast.Div)
    ]
    return any(not worlds & set(_names(by)) and "world_size" not in ast.unparse(by) for by in divisors)


def work_line(root: Path, place: Place) -> Place:
    """Return the line that divides a loop's work by the number of processes, in a training without a loader."""

    def names(around: list[ast.stmt]) -> Iterator[str]:
        return (name for loop in around if isinstance(loop, ast.For) for name in _names(loop.iter))

    return _origin(root, place, names, (ast.Div, ast.FloorDiv))


def part_line(root: Path, place: Place, *, of_loader: bool) -> Place:
    """Return the line that selects a rank's share of the samples: the nearest line that slices by rank.

    The search starts from the first argument of a loader. Without a loader, it starts from the names in the loop.
    """

    def names(around: list[ast.stmt]) -> Iterator[str]:
        calls = [node for node in ast.walk(around[-1]) if isinstance(node, ast.Call)]
        loaders = (call for call in calls if _last_name(call) == "DataLoader")
        given = (value for call in loaders for value in [*call.args, *(word.value for word in call.keywords)][:1])
        return (name for node in (given if of_loader else around[-1:]) for name in _names(node))

    return _origin(root, place, names, (ast.Slice, ast.BinOp))


def _origin(
    root: Path, place: Place, names: Callable[[list[ast.stmt]], Iterator[str]], kinds: tuple[type[ast.AST], ...]
) -> Place:
    for file, line, function in place:
        around, tree = _around(root / file, line), _tree(root / file)
        ranks = _holders(tree)
        work = [(name, _scope(around, root / file)) for name in names(around)] if around else []
        for name, scope in work:  # grows in the loop
            _pass_on(tree, name, ranks)
            for node, value, inside in _definitions(tree, scope, name):
                is_of_kind = any(isinstance(part, kinds) for part in ast.walk(value))
                if is_of_kind and node.lineno != line and _says_rank(value, ranks):
                    return [[file, node.lineno, function]]
                work += [(each, inside) for each in _names(value) if (each, inside) not in work]
    return place


def iter_line(root: Path, place: Place) -> Place:
    """Return the line that slices samples by rank in the `__iter__` at a place, else its last `return` or `yield`."""
    file, line, name = place[0]
    around, ranks = _around(root / file, line), _holders(_tree(root / file))
    if name != "__iter__" or not around or around[0].lineno != line:
        return place
    parts = list(ast.walk(around[0]))
    cuts = [part for part in parts if isinstance(part, ast.Subscript | ast.Call) and _says_rank(part, ranks)]
    gives = [part for part in parts if isinstance(part, ast.Return | ast.Yield | ast.YieldFrom)]
    return [[file, part.lineno, name] for part in cuts[:1] or gives[-1:]] or place


def figure_line(root: Path, place: Place, printed: Place) -> Place:
    """Return the line that returns a figure to the function that prints it. Returns `printed` if there is none."""
    for (file, line, function), caller in pairwise(place):
        parts = [part for scope in _around(root / file, line)[:1] for part in ast.walk(scope)]
        returns = [part.lineno for part in parts if isinstance(part, ast.Return)]
        if caller[2] == printed[0][2] and returns:
            return [[file, returns[-1], function]]
    return printed


def rate_line(root: Path, place: Place) -> Place:
    """Return the line that multiplies a learning rate by the number of processes."""
    text = ""
    for file, line, function in place:
        ranks, made = _holders(_tree(root / file)), _around(root / file, line)[-1:]
        text += "".join(map(ast.unparse, made))
        given = [node for node in ast.walk(_tree(root / file)) if isinstance(node, ast.Assign | ast.AugAssign)]
        for node in [*made, *reversed(given)]:
            targets = getattr(node, "targets", [getattr(node, "target", node)])
            products = [part for part in ast.walk(node) if isinstance(getattr(part, "op", None), ast.Mult)]
            leads = node in made or any(ast.unparse(target) in text for target in targets)
            if leads and any(_says_rank(part, ranks) for part in products):
                return [[file, node.lineno, function]]
    return place


def _scope(around: list[ast.stmt], path: Path) -> ast.AST:
    return around[0] if around and isinstance(around[0], ast.FunctionDef | ast.AsyncFunctionDef) else _tree(path)


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _targets(node: ast.Assign | ast.AugAssign | ast.For) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name for target in targets for name in _names(target)}


def _definitions(tree: ast.AST, scope: ast.AST, name: str) -> Iterator[tuple[ast.stmt, ast.expr, ast.AST]]:
    """Yield the assignments of a name, with their scopes.

    If the name has none, yield the results of functions of that name.
    """
    for place in (scope, tree):
        given = [node for node in _inside(place) if isinstance(node, _GIVES) and name in _targets(node)]
        yield from ((node, node.iter if isinstance(node, ast.For) else node.value, place) for node in given)
        if given:
            return
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == name:
            for part in _inside(function):
                if not isinstance(part, ast.Assign | ast.Return | ast.Expr) or part.value is None:
                    continue
                if not isinstance(part, ast.Expr) or isinstance(part.value, ast.Yield):
                    yield part, part.value, function


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _inside(node)


def _holders(tree: ast.AST, word: str = "rank") -> set[str]:
    names = {word, f"local_{word}", "world_size", "WORLD_SIZE", "world", "num_replicas", "nprocs", "n_procs"}
    for node in ast.walk(tree):
        text = ast.unparse(node.value).lower() if isinstance(node, ast.Assign) else ""
        if isinstance(node, ast.Assign) and (word in text or "world_size" in text):
            names |= _targets(node)
    return names - {"self"}


def _says_rank(value: ast.AST, ranks: set[str]) -> bool:
    attributes = {part.attr for part in ast.walk(value) if isinstance(part, ast.Attribute)}
    return bool(
        ranks & set(_names(value)) or attributes & {"rank", "world_size", "num_replicas", "get_rank", "get_world_size"}
    )


def _pass_on(tree: ast.AST, name: str, ranks: set[str]) -> None:
    """Add parameters of the function `name` to `ranks` if callers pass the rank or the number of processes for them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            calls = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and _last_name(call) == name]
            for call in calls:
                pairs = zip(node.args.args, call.args, strict=False)
                ranks |= {parameter.arg for parameter, given in pairs if _says_rank(given, ranks)}
