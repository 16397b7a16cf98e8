"""Lines that no dialect knows: names of the field beside numbers, in any order and form.

    Epoch 3/20 | train_loss: 0.41 | val_acc=97.1%          {"epoch": 3, "loss": "0.41"}
    iter 100: loss 2.31, lr 0.0003                         [Train] Epoch: [1][367/4899]  Loss:0.564 (Avg 0.556)

A number belongs to the words directly before it, and all of these have to be known: `iou_loss` and `loss_weight` are no
loss of the training. Of what several numbers could be, none is taken.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from runner.logs.fields import seconds

LONGEST = 1_000
"""Letters of a line that are looked at."""
FRAGMENTS = (b"otal ", *b"poch POCH loss Loss LOSS acc Acc ACC ppl PPL erplexity xent BLEU bleu AUC auc F1 f1".split())
"""One of these stands in every line that may say something."""
_NUMBER = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)(?P<number>[-+]?(?:\d{1,3}(?:,\d{3}){1,5}(?![\d,])|\d{1,18}(?:\.\d{0,30})?|\.\d{1,30})"
    r"(?:[eE][-+]?\d{1,4})?|[-+]?(?:nan|NaN|NAN|[iI]nf(?:inity)?|INF))(?P<unit>%|[A-Za-z]{0,8})(?![\w.]*\d|\.?\w)"
)
_SEPARATOR = re.compile(
    r"""["'`*]{0,2}\s{0,40}(?:[:=]{1,2}|\bis\b|\bwas\b)?\s{0,40}(?:tensor)?["'\[(#<*]{0,3}\s{0,8}$"""
)
_NAME = re.compile(r"[A-Za-z][\w@/.-]*(?: [A-Za-z][\w@/.-]*){0,5}$")
_IN_BRACKETS = re.compile(r"\s?\([A-Za-z/%. ]{0,12}\)$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_TRAIN = frozenset(("train", "training", "tr", "trn"))
_EVAL = frozenset(("val", "valid", "validation", "vali", "validate", "validating", "dev", "eval", "evaluation"))
_EVAL |= {"evaluate", "evaluating", "test", "testing", "heldout", "holdout", "inference", "cv"}
_SECTION = re.compile(rf"(?<![\w/.-])(?:(?P<train>{'|'.join(_TRAIN)})|{'|'.join(_EVAL)})(?![\w/.-])", re.IGNORECASE)
"""A word that says of which data the numbers after it are."""
_DATA_LAST = re.compile(
    rf"[\s,]{{0,4}}(?:\(|\[|\bon )(?:the )?(?:{'|'.join(_EVAL)})(?: set| data)?[\])]?\s{{0,4}}$", re.IGNORECASE
)
"""The data of a line, behind all numbers: `Epoch 2: loss 0.58 (val)`."""
_MEAN = frozenset(("avg", "average", "mean", "ave", "running", "smoothed"))
_FILLER = frozenset(("epoch", "batch", "step", "iter", "set", "current", "cur", "final", "the", "on", "of", "data"))
_FILLER |= {"this", "dataset", "overall", "score", "last", "finished", "completed", "starting", "start", "end", "begin"}
_FILLER |= {"am", "pm", "in", "at"}
_ENTROPY = frozenset(("cross", "entropy", "crossentropy", "ce", "xent"))
_STEPS = frozenset(("step", "steps", "iter", "iters", "iteration", "iterations", "update", "updates"))
_BATCHES = frozenset(("batch", "batches", "minibatch"))
_ASKED = frozenset(("num", "n", "max", "maximum", "total", "number", "of", "nb", "train", "training", "no"))
_METRICS = {"acc": "accuracy", "ppl": "perplexity", "f": "f1"}
_METRICS |= {name: name for name in ("accuracy", "perplexity", "auc", "bleu", "wer", "dice")}
_AT = re.compile(r"[ \t](?:step|epoch|batch|iter(?:ation)?)[ \t]{1,8}$", re.IGNORECASE)
_SHARES = ("accuracy", "auc", "f1", "wer", "dice", "best_accuracy")
_UNITS = {"perplexity": "perplexity", "bleu": "bleu"}
_OF_ALL = re.compile(r"\s?(?:/|of)\s?(?P<all>\d{1,18})(?![\w.]*[\w])")
_IN_EPOCH = re.compile(r"\]?\s?[\[(]\s{0,6}$")
"""What stands between an epoch and a place in it, as in `Epoch: [1][367/4899]`."""
_EPOCH_LAST = re.compile(r"(?<![\w./-])(?P<epoch>\d{1,9})(?:/(?P<epochs>\d{1,9}))?epoch(?![\w.]| \[)")
_WHOLE = re.compile(r"\d{1,9}\.0{1,12}")
_LIST = re.compile(r"[\[(]\s{0,8}$")
_CODE = re.compile(
    r"\w\(\s?\w+=|\b(?:def|import|return|print|lambda|assert)\b|\b(?:usage|error):|[{(]\w+:[<>]?\.?\d+[a-z]|\?\w+=|://"
)
"""Code, calls, a configuration that is printed as a call, addresses, and formats."""
_RATE = re.compile(
    r"^total (?P<what>images|samples|tokens)/s(?:ec(?:ond)?)?[:=] {0,9}(?P<rate>\d{1,12}(?:\.\d{1,9})?)\s*$"
)
_SOURCE = re.compile(r"(?<![\w.])[\w.]{1,80}:[\w<>]{1,80}:\d{1,6} - ")
"""Where a line comes from: `trainer:__train_epoch:359 - `."""
_AND = ",? ?(?:and )?"
_WALL = re.compile(
    r"[Tt]otal (?:[Tt]raining |[Tt]rain |[Rr]un(?:ning)? )?(?:[Tt]ime|[Dd]uration|[Tt]raining)[a-z ]{0,24}[:=]?\s{0,4}"
    r"(?P<wall>(?:\d{1,3} days?, )?\d{1,4}:\d\d:\d\d(?:\.\d{1,9})?(?![\w:])|"
    rf"(?:(?P<hours>\d{{1,5}}) ?h(?:(?:ou)?rs?)?{_AND})?(?P<minutes>\d{{1,4}}) ?m(?:in(?:ute)?s?)?\b"
    rf"(?:{_AND}(?P<seconds>\d{{1,2}}(?:\.\d{{1,9}})?) ?s(?:ec(?:ond)?s?)?\b)?|"
    r"(?P<value>\d{1,9}(?:\.\d{1,15})?) ?(?P<unit>s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?)\b)"
    rf"(?!{_AND}\d| ?/|\W{{0,3}}per\b)"
)
_NO_WALL = re.compile(
    r"\b(?:(?:epoch|step|batch|iteration|fold|trial)(?!e?s)|load|prep|tokeni|compil|warm"
    r"|exceed|budget|limit|allow|remain|left\b|estimat|expect|predict|eta\b|inference\b)",
    re.IGNORECASE,
)
"""What a duration is about that is not that of the whole training: a part of it, a limit, or a forecast."""
_MOVES = re.compile(
    r"learning.?rate|\blr\b|\b(?:re)?load|\bresum|\brestor|\bcheckpoint .{0,80}\(epoch|\bevaluat", re.IGNORECASE
)
"""What a line is about that names an epoch in which nothing was trained: a scheduler, another run, an evaluation."""
_BEST = re.compile(r"\bbest\b", re.IGNORECASE)
TRAIN, EVAL = "train", "eval"
PLACES = frozenset(("epoch", "epochs", "step", "steps", "done", "total", "rank"))
_PLACES = (("step", "done"), ("steps", "total"))
"""What a step is where its line names the epoch too."""


class Figure(NamedTuple):
    """A number of a line, and what it is by the words before it."""

    name: str
    """A field, or loss or a metric of which the line does not say whether it is of the training."""
    start: int
    end: int
    rank: int = 0
    """How plainly it is the loss of the training; 0 is plainest."""
    unit: str | None = None
    of: str | None = None
    """The data: train, eval, or not said."""
    label: str = ""


class Line(NamedTuple):
    """What a line says; each name stands once."""

    figures: dict[str, Figure]
    bare: dict[str, Figure]
    """A loss, or a metric, of which only the lines above can say what data it is of."""


def parse(text: str) -> Line | None:
    """Read a line; None if it says nothing."""
    text = _SOURCE.sub(lambda found: " " * len(found[0]), text[:LONGEST])
    if _CODE.search(text):
        return None
    found: list[Figure] = []
    if last := _EPOCH_LAST.search(text):
        found += [Figure(name, *last.span(name)) for name in ("epoch", "epochs") if last[name]]
    before: Figure | None = None
    at, of, skip, is_part = 0, None, 0, False
    for number in _NUMBER.finditer(text):
        if number.start() < skip:
            continue
        gap = text[at : number.start()]
        for section in _SECTION.finditer(gap):
            of = TRAIN if section["train"] else EVAL
        at = number.end()
        whole = _OF_ALL.match(text, number.end())
        if before and before.name in ("epoch", "epochs") and whole and _IN_EPOCH.fullmatch(gap):
            figures = [Figure("done", *number.span("number")), Figure("total", *whole.span("all"))]
        else:
            figures = _figures(gap[-100:], number, whole, of)
        if whole and of == EVAL and not figures and not gap.rstrip().endswith("(") and number["number"].isdigit():
            is_part |= int(number["number"]) < int(whole["all"])
        skip = whole.end() if whole and len(figures) > 1 else 0
        at = max(at, skip)
        before = figures[-1] if figures else None
        found += figures
    if {figure.name for figure in found} == {"epoch"} and _MOVES.search(text):
        return None
    found = _of_the_last(found, text)
    if _DATA_LAST.search(text, at):
        found = [figure if figure.of else figure._replace(of=EVAL) for figure in found]
    return None if is_part else _line(found, text)  # a part of an evaluation


def _of_the_last(found: list[Figure], text: str) -> list[Figure]:
    """Leave out what the best had: `Best epoch: 2, val_loss: 0.5, val_acc: 0.80` says nothing of the last epoch."""
    if not found or not _BEST.search(text, 0, min(figure.start for figure in found)):
        return found
    accuracies = [figure for figure in found if figure.name in ("accuracy", "best_accuracy") and figure.of != TRAIN]
    return [figure._replace(name="best_accuracy") for figure in accuracies]


def _figures(gap: str, number: re.Match[str], whole: re.Match[str] | None, of: str | None) -> list[Figure]:
    """Return what a number is by the words before it: one or two figures, or none."""
    separator = _SEPARATOR.search(gap)
    name = _NAME.search(_IN_BRACKETS.sub("", gap[: separator.start() if separator else len(gap)]))
    kind, rank, own = _kind(name[0]) if name else ("", 0, None)
    if name is None or not kind or number["unit"] not in ("", "%"):
        return []
    if kind in PLACES:
        return _place(kind, name[0], number, whole)
    text, of = number["number"], own or of
    after = number.string[number.end() : number.end() + 2]
    if "," in text or (after[:1] == "," and after[1:].isdigit()) or (gap[-1:].isspace() and _AT.search(gap)):
        return []  # it is not known what the comma means, or it is the 90 of `Loss step 90: 0.0116`
    span = number.span("number")
    if whole and kind == "accuracy" and text.isdigit():
        return [Figure("correct", *span, of=of), Figure("of", *whole.span("all"), of=of)]
    if whole or (_LIST.search(gap) and after[:1] == ","):
        return []
    unit = "percent" if number["unit"] else "share" if kind in _SHARES else _UNITS.get(kind)
    return [Figure(kind, *span, rank, unit, of, name[0])]


def _place(kind: str, name: str, number: re.Match[str], whole: re.Match[str] | None) -> list[Figure]:
    """Return the epoch, the step or the like, with how many there are if that is said."""
    text, span = number["number"], number.span("number")
    is_whole = text.replace(",", "").isdigit() or (kind == "epoch" and _WHOLE.fullmatch(text))
    is_option = kind == "epochs" and not re.search(r"(?i)total|number", name)
    if number["unit"] or not is_whole or (not whole and (is_option or (kind == "done" and "id" not in name))):
        return []
    if not whole:
        return [Figure(kind, *span)]
    more = {"epoch": "epochs", "epochs": "epochs", "step": "steps", "done": "total"}.get(kind)
    return [Figure("epoch" if kind == "epochs" else kind, *span), Figure(more, *whole.span("all"))] if more else []


@lru_cache(maxsize=4_096)
def _kind(name: str) -> tuple[str, int, str | None]:
    """Return what a name stands for, how plainly, and the data that it names; an empty text if it is not known."""
    words = [word.lower() for word in _WORD.findall(name)]
    known = set(words)
    own = EVAL if known & _EVAL else TRAIN if known & _TRAIN else None
    rest = known - _TRAIN - _EVAL
    if known & _EVAL and known & _TRAIN:
        return "", 0, None
    if rest & {"loss", "xent"}:
        return (*_loss(rest, own), own)
    if kind := _place_kind(known, rest):
        return kind.strip(), 0, None
    return (*_metric(words, rest), own)


def _loss(rest: set[str], own: str | None) -> tuple[str, int]:
    extra = rest - {"loss", "total"} - _FILLER - _MEAN
    if extra - _ENTROPY or extra == {"entropy"}:
        return "", 0
    if extra or rest & _MEAN:
        return "loss", 5 if extra else 4
    return "loss", 0 if own == TRAIN else 1 if "total" in rest else 2


def _place_kind(known: set[str], rest: set[str]) -> str:
    """Return which place in the training some words name; a space if they name one that is not known."""
    if rest & {"epoch", "epochs"}:
        if not rest - {"epoch", "epochs", "i"} - _FILLER:
            return "epochs" if "epochs" in rest else "epoch"
        is_total = known & {"total", "number"} and not known - {"epochs", "epoch"} - _ASKED
        return "epochs" if is_total else " "
    if rest & _STEPS:
        return " " if rest - _STEPS - {"global", "completed", "i", "num", "current"} else "step"
    if rest & _BATCHES:
        return " " if rest - _BATCHES - {"idx", "id", "index"} else "done"
    return "rank" if rest in ({"rank"}, {"global", "rank"}) else ""


def _metric(words: list[str], rest: set[str]) -> tuple[str, int]:
    noun = next((word for word in words if word in _METRICS), "")
    if not noun or (noun == "f" and "1" not in rest):
        return "", 0
    others = rest - {noun, "best", "top", "1", "score"} - _FILLER - _MEAN
    if others or ("1" in rest and noun not in ("acc", "accuracy", "f")):
        return "", 0
    kind = _METRICS[noun]
    if "best" in rest:
        return ("best_accuracy" if kind == "accuracy" else ""), 0
    return kind, 0


def _line(found: list[Figure], text: str) -> Line | None:
    """Sort the figures of a line: the loss of the training, evaluations, and what has no data named."""
    figures: dict[str, Figure] = {}
    bare: dict[str, Figure] = {}
    losses: list[Figure] = []
    for figure in found:
        if figure.name == "loss" and figure.of != EVAL:
            losses.append(figure)
        elif figure.name in PLACES:
            figures.setdefault(figure.name, figure)
        elif figure.of == EVAL or figure.name == "best_accuracy":
            name = "val_loss" if figure.name == "loss" else figure.name
            figures[name] = figure  # the last one, for example of the test after that of the validation
        elif figure.of is None:
            bare.setdefault(figure.name, figure)
    if loss := _the_loss(losses):
        if loss.of == TRAIN or figures.keys() & {"epoch", "step", "done"}:
            figures["train_loss"] = loss
        else:
            bare["loss"] = loss
    if "epoch" in figures and "step" in figures:
        figures |= {name: figures.pop(own)._replace(name=name) for own, name in _PLACES if own in figures}
    is_partial = "total" in figures and int(text[slice(*figures["done"][1:3])]) < int(
        text[slice(*figures["total"][1:3])]
    )
    if is_partial and "train_loss" not in figures and figures.keys() & {"val_loss", *_METRICS.values()}:
        return None  # a part of an evaluation
    return Line(figures, bare) if figures or bare else None


def _the_loss(losses: list[Figure]) -> Figure | None:
    """Return the loss of the training, if a line has only one or calls one so most plainly."""
    if not losses:
        return None
    rank = min(loss.rank for loss in losses)
    best = [loss for loss in losses if loss.rank == rank]
    return best[0] if len(best) == 1 else None


def wall_of(text: str) -> tuple[float, str] | None:
    """Return the duration of the whole training that a line states, in seconds, and its text."""
    found = _WALL.search(text[:LONGEST])
    if found is None:
        return None
    about = text[: found.start("wall")]
    if _NO_WALL.search(about) or (EVAL in sections(about) and "rain" not in about):
        return None
    if found["minutes"]:
        minutes = int(found["hours"] or 0) * 60 + int(found["minutes"])
        return minutes * 60 + float(found["seconds"] or 0), found["wall"]
    if found["value"]:
        return float(found["value"]) * {"s": 1, "m": 60, "h": 3600}[found["unit"][0]], found["wall"]
    value = seconds(found["wall"], "clock")
    return None if value is None else (value, found["wall"])


def rate_of(text: str) -> tuple[float, str] | None:
    """Return the throughput of the whole training that a line states, and its unit."""
    found = _RATE.match(text)
    return (float(found["rate"]), f"{found['what']}/s") if found else None


def may_say_something(text: str) -> bool:
    """Return whether a line has figures, may be the head of a table, or states a duration."""
    return parse(text) is not None or "otal" in text or ("oss" in text.lower() and len(text) <= LONGEST)


def sections(text: str) -> list[str]:
    """Return the data that a line names, in the order of its words: train or eval."""
    return [TRAIN if section["train"] else EVAL for section in _SECTION.finditer(text)]


def kind_of_name(name: str) -> tuple[str, str | None]:
    """Return what the head of a column stands for, and the data that it names."""
    found = _NAME.fullmatch(name.strip())
    kind, _, own = _kind(name.strip()) if found else ("", 0, None)
    return kind, own
