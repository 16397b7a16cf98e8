"""Scripts without a parser: nothing at all, `sys.argv` by hand, or constants that a configurator overwrites."""

import ast

from runner.definitions.options.option import JOINED, WORDS, Interface, Option
from runner.definitions.options.sources import Code, Source, last, literal, texts
from runner.tools.init.readers.fields import kind_of
from runner.tools.init.readers.styles import PYTHON

_RUNS_OTHERS = {"exec", "__import__", "import_module", "run_path", "run_module", "spec_from_file_location"}
"""Functions that run code which is not seen."""
_NO_PARSERS = {
    *("torch", "torchvision", "torchaudio", "torchdata", "torchmetrics", "torchtext", "numpy", "scipy", "pandas"),
    *("sklearn", "matplotlib", "seaborn", "plotly", "PIL", "cv2", "skimage", "imageio", "albumentations", "tqdm"),
    *("transformers", "datasets", "tokenizers", "accelerate", "evaluate", "peft", "trl", "diffusers", "safetensors"),
    *("huggingface_hub", "sentencepiece", "tiktoken", "lightning", "pytorch_lightning", "lightning_fabric", "timm"),
    *("wandb", "mlflow", "tensorboard", "tensorboardX", "yaml", "rich", "requests", "psutil", "pynvml", "h5py"),
    *("einops", "triton", "apex", "bitsandbytes", "flash_attn", "xformers", "webdataset", "kornia", "networkx"),
    *("torch_geometric", "gymnasium", "gym", "joblib", "dotenv", "setuptools", "packaging", "regex", "nltk"),
}
"""Libraries that do not read the command line of a script that imports them."""
_MOST_PLACES = 20
_JOINS = ("split", "partition", "index", "find")


def has_constants(code: Code, source: Source) -> bool:
    """Return whether a file overwrites its constants: `exec(open("configurator.py").read())` beside `globals()`."""
    calls = [call for call in code.calls(source) if isinstance(call.func, ast.Name)]
    opens = [call for call in calls if last(call.func) == "exec" and "open" in map(last, ast.walk(call))]
    return bool(opens) and any(last(call.func) == "globals" for call in calls)


def read_constants(code: Code) -> Interface:
    """Read the numbers, texts and booleans that the program's file assigns, as nanoGPT's configurator does.

    There each is given as `--key=value`, the value in Python's spelling.
    """
    options: dict[str, Option] = {}
    for node in code.main.tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, literal(node.value)
            if value is not None and not name.startswith("_"):
                kind = "int" if isinstance(value, int) and not isinstance(value, bool) else kind_of(value)
                truth = PYTHON.truth
                options.setdefault(name, Option(f"--{name}", kind, default=value, style=PYTHON, truth=truth))
    return Interface("constants", options, is_open=True, style=PYTHON)


def read(code: Code) -> Interface:
    """Return how a script that has no parser is given arguments, and whether it may be.

    It may if it, or what it imports from its project, looks at `sys.argv` or runs other code, and if it imports a
    library that may.
    """
    splits, places = False, 0
    is_open = bool(code.outside - _NO_PARSERS)
    for source in code.sources:
        by_hand = bool(source.part.names & {"argv", "orig_argv"}) or "sys.argv" in source.part.origins.values()
        is_open |= by_hand or any(last(call.func) in _RUNS_OTHERS for call in code.calls(source))
        places = max([places, *(map(_place, ast.walk(source.tree)) if by_hand else ())])
        splits |= by_hand and any(
            last(call.func) in _JOINS and any("=" in text for text in texts(call.args)) for call in source.part.calls
        )
    names = [] if splits else [f"argv{place + 1}" for place in range(min(places, _MOST_PLACES))]
    options = {name: Option(name) for name in names}
    return Interface("plain", options, is_open=is_open, style=JOINED if splits else WORDS)


def _place(node: ast.AST) -> int:
    """Return how many arguments are known by a piece of the source: `sys.argv[2]`, or `_, lines, path = sys.argv`."""
    if isinstance(node, ast.Subscript) and last(node.value) == "argv":
        place = literal(node.slice)
        return place if isinstance(place, int) else 0
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        is_part = isinstance(node.value, ast.Subscript) and last(node.value.value) == "argv"
        names = node.targets[0].elts
        return len(names) if is_part else len(names) - 1 if last(node.value) == "argv" else 0
    return 0
