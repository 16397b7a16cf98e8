"""How many processes or devices a text names."""

from __future__ import annotations

import re

from runner.tools.audit.quantities import plain
from runner.tools.audit.tables import LONGEST_CELL

MOST_DEVICES = 10_000_000
_TIMES = r"\s?[x×*]\s?"
_NODES = r"(?:nodes?|machines?|servers?|机|台|节点|hosts?|n(?=\s*\d))"
_CARDS = (
    r"(?:gpus?|cards?|卡|张|个|块|proc\w*|进程|ranks?|workers?|tpus?|npus?|devices?|cores?|threads?|核|线程|cpus?"
    r"|chips?|g)"
)
_PRODUCTS = (
    re.compile(rf"(\d{{1,5}}){_TIMES}(\d{{1,5}})(?:{_TIMES}[a-z]|$)"),
    re.compile(rf".*?(\d{{1,4}})\s*-?{_NODES}\W*(?:[x×*,]\s*)?(\d{{1,4}})\s*-?{_CARDS}(?![a-z])"),
    re.compile(r".*?\bnodes?[ =](\d{1,4})\b.*?\b(?:ntasks|nproc|gpus|procs)[-_]per[-_]node[ =](\d{1,4})\b"),
)
_NUMBERS = (
    re.compile(r"(\d{1,3}(?:,\d{3})+|\d{1,6})$"),
    re.compile(rf"(\d{{1,5}}){_TIMES}(?=[a-z])"),
    re.compile(r".*(?:(?<=[\d\s)])x\s?|[×*]\s?)(\d{1,5})$"),
    re.compile(rf".*?(?<![\d.])(\d{{1,5}})\s*-?{_CARDS}(?![a-z])"),
    re.compile(rf"(\d{{1,4}})\s*-?{_NODES}$"),
    re.compile(r".*?(?<![a-z])-{0,2}(?:np?|nprocs?|nproc[-_]per[-_]node|ntasks|world[-_]size|gpus)[ =]\s?(\d{1,5})\b"),
)
_ONE = re.compile(r"(?:single|one|单)\s*-?(?:gpu|card|卡|process|node|机|cpu)")


def devices(text: str) -> float | None:
    """Read how many processes or devices a cell names: `4`, `2x A100`, `8 GPUs`, `2x4`, `2x A100 + 3x T4`."""
    counts = [_devices(part) for part in re.split(r"\s*\+\s*", plain(text[:LONGEST_CELL]).lower().strip("`*~ "))]
    known = [count for count in counts if count]
    return sum(known) if len(known) == len(counts) and sum(known) < MOST_DEVICES else None


def _devices(part: str) -> float | None:
    for pattern in _PRODUCTS:
        if found := pattern.match(part):
            return float(int(found[1]) * int(found[2]))
    for pattern in _NUMBERS:
        if found := pattern.match(part):
            return float(found[1].replace(",", ""))
    return 1.0 if _ONE.match(part) else None
