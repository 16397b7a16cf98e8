"""Finds the line of a program that a person has to change."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from runner.tools.check.observation import Place

_LOOPS = (ast.For, ast.While, ast.AsyncFor)


@cache
def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _around(path: Path, line: int) -> list[ast.stmt]:
    """Return the statements around a line, the outermost first, without those of an outer function."""
    statements = (node for node in ast.walk(_tree(path)) if isinstance(node, ast.stmt))
    found = [node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
    found.sort(key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    functions = [at for at, node in enumerate(found) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return found[functions[-1] :] if functions else found


def epoch_loop(root: Path, place: Place) -> Place:
    """Return the loop over epochs around the iteration of a loader; its own place if there is none."""
    for depth, (file, line, function) in enumerate(place):
        loops = [node for node in _around(root / file, line) if isinstance(node, _LOOPS)]
        outer = [loop for loop in loops if depth or loop.lineno != line]
        if outer:
            is_around_batches = depth or len(outer) < len(loops)
            return [[file, outer[-1 if is_around_batches else 0].lineno, function]]
    return place


def loss_line(root: Path, place: Place) -> Place:
    """Return where the loss was computed on which backward was called: the assignment before it, by its name."""
    if not place:
        return place
    file, line, function = place[0]
    around = _around(root / file, line)
    if not around:
        return place
    names = {node.id for node in ast.walk(around[-1]) if isinstance(node, ast.Name)}
    best = None
    for node in ast.walk(_scope(around, root / file)):
        if isinstance(node, ast.Assign | ast.AugAssign) and node.lineno < line:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            written = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            is_loss = any("loss" in name.lower() for name in written & names) or _receiver(around[-1]) in written
            if is_loss and (best is None or node.lineno > best):
                best = node.lineno
    return [[file, best, function]] if best else place


def calls_backward(root: Path, place: Place) -> bool:
    """Return whether the program itself calls backward in this line."""
    file, line, _ = place[0]
    calls = (node for node in ast.walk(_tree(root / file)) if isinstance(node, ast.Call) and node.lineno <= line)
    named = (call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "backward")
    return any(line <= (call.end_lineno or call.lineno) for call in named)


def _receiver(statement: ast.stmt) -> str | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        if isinstance(call.func.value, ast.Name) and call.func.attr == "backward":
            return call.func.value.id
        if call.args and isinstance(call.args[0], ast.Name):
            return call.args[0].id
    return None


def _scope(around: list[ast.stmt], path: Path) -> ast.AST:
    return around[0] if isinstance(around[0], ast.FunctionDef | ast.AsyncFunctionDef) else _tree(path)


def divides(root: Path, place: Place) -> bool:
    """Return whether the loss around this line is divided by something that is not the number of processes."""
    if not place:
        return False
    file, line, _ = place[0]
    worlds = _worlds(_tree(root / file))
    divisors = [
        part.right if isinstance(part, ast.BinOp) else part.value
        for node in ast.walk(_tree(root / file))
        if isinstance(node, ast.stmt) and abs(node.lineno - line) <= 1 and not hasattr(node, "body")
        for part in ast.walk(node)
        if isinstance(part, ast.BinOp | ast.AugAssign) and isinstance(part.op, ast.Div)
    ]
    return any(not worlds & set(_names(by)) and "world_size" not in ast.unparse(by) for by in divisors)


def work_line(root: Path, place: Place) -> Place:
    """Return where a loop by hand is told how much work it has: an assignment that names the number of processes."""
    for file, line, function in place:
        around = _around(root / file, line)
        if not around:
            continue
        scope = _scope(around, root / file)
        worlds = _worlds(scope) | _worlds(_tree(root / file))
        wanted = [name for loop in around if isinstance(loop, ast.For) for name in _names(loop.iter) if name != "range"]
        seen: set[str] = set()
        while wanted:
            name = wanted.pop()
            if name in seen:
                continue
            seen.add(name)
            for node in ast.walk(scope):
                if isinstance(node, ast.Assign) and name in {n for t in node.targets for n in _names(t)}:
                    used = set(_names(node.value))
                    if used & worlds and any(isinstance(part, ast.Div | ast.FloorDiv) for part in ast.walk(node.value)):
                        return [[file, node.lineno, function]]
                    wanted += used
    return place


def part_line(root: Path, place: Place, *, of_loader: bool) -> Place:
    """Return where the samples of a rank are cut out: the nearest line behind a place that cuts by its rank.

    The names of a loop by hand lead there, or the first argument of a loader, through assignments and own functions.
    """
    for file, line, function in place:
        around, tree = _around(root / file, line), _tree(root / file)
        if not around:
            continue
        wanted = list(_names(around[-1]))
        if of_loader:
            calls = [
                node for node in ast.walk(around[-1]) if isinstance(node, ast.Call) and _last_name(node) == "DataLoader"
            ]
            given = [
                call.args[0] if call.args else call.keywords[0].value for call in calls if call.args or call.keywords
            ]
            wanted = [name for node in given for name in _names(node)]
        ranks = _holders(tree)
        work = [(name, _scope(around, root / file)) for name in wanted]
        for name, scope in work:  # it grows
            _pass_on(tree, name, ranks)
            for node, value, inside in _definitions(tree, scope, name):
                cuts = any(isinstance(part, ast.Slice | ast.BinOp) for part in ast.walk(value))
                if cuts and _says_rank(value, ranks) and node.lineno != line:
                    return [[file, node.lineno, function]]
                work += [(each, inside) for each in _names(value) if (each, inside) not in work]
    return place


def iter_line(root: Path, place: Place) -> Place:
    """Return where an `__iter__` of the program, at whose head a place is, cuts the samples out, or hands them on."""
    file, line, name = place[0]
    around, ranks = _around(root / file, line), _holders(_tree(root / file))
    if name != "__iter__" or not around or around[0].lineno != line:
        return place
    parts = list(ast.walk(around[0]))
    cuts = [part for part in parts if isinstance(part, ast.Subscript | ast.Call) and _says_rank(part, ranks)]
    gives = [part for part in parts if isinstance(part, ast.Return | ast.Yield | ast.YieldFrom)]
    return [[file, part.lineno, name] for part in cuts[:1] or gives[-1:]] or place


def figure_line(root: Path, place: Place, printed: Place) -> Place:
    """Return where a function that evaluates returns its figure to the one that prints it; else the print."""
    for (file, line, function), caller in pairwise(place):
        parts = [part for scope in _around(root / file, line)[:1] for part in ast.walk(scope)]
        returns = [part.lineno for part in parts if isinstance(part, ast.Return)]
        if caller[2] == printed[0][2] and returns:
            return [[file, returns[-1], function]]
    return printed


def rate_line(root: Path, place: Place) -> Place:
    """Return where a learning rate is multiplied by the number of processes: at an optimizer, or before it."""
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


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _definitions(tree: ast.AST, scope: ast.AST, name: str) -> Iterator[tuple[ast.stmt, ast.expr, ast.AST]]:
    """Yield the statements that give a name its value, with their scopes, and those of an own function of that name."""
    given = list(_given(scope, name)) or list(_given(tree, name))
    yield from given
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == name and not given:
            for part in _inside(function):
                is_call = isinstance(part, ast.Expr) and not isinstance(part.value, ast.Yield)
                if isinstance(part, ast.Assign | ast.Return | ast.Expr) and part.value and not is_call:
                    yield part, part.value, function


def _given(scope: ast.AST, name: str) -> Iterator[tuple[ast.stmt, ast.expr, ast.AST]]:
    for node in _inside(scope):
        if isinstance(node, ast.Assign) and name in {part for target in node.targets for part in _names(target)}:
            yield node, node.value, scope
        elif isinstance(node, ast.For) and name in _names(node.target):
            yield node, node.iter, scope


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Walk through a scope, and not into the functions and classes in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _inside(node)


def _holders(tree: ast.AST) -> set[str]:
    """Return the names that hold the rank or the number of processes."""
    found = {"rank", "local_rank", *_worlds(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ("rank" in ast.unparse(node.value).lower()):
            found |= {name for target in node.targets for name in _names(target) if len(node.targets) == 1}
    return found - {"self"}


def _says_rank(value: ast.AST, ranks: set[str]) -> bool:
    attributes = {part.attr for part in ast.walk(value) if isinstance(part, ast.Attribute)}
    return bool(
        ranks & set(_names(value)) or attributes & {"rank", "world_size", "num_replicas", "get_rank", "get_world_size"}
    )


def _pass_on(tree: ast.AST, name: str, ranks: set[str]) -> None:
    """Add the parameters of an own function that a call gives the rank or the number of processes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            calls = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and _last_name(call) == name]
            for call in calls:
                pairs = zip(node.args.args, call.args, strict=False)
                ranks |= {parameter.arg for parameter, given in pairs if _says_rank(given, ranks)}


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _worlds(scope: ast.AST) -> set[str]:
    """Return the names that hold the number of processes."""
    found = {"world_size", "WORLD_SIZE", "world", "num_replicas", "nprocs", "n_procs"}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and ("world_size" in ast.unparse(node.value).lower()):
            found |= {name for target in node.targets for name in _names(target)}
    return found
