"""When the headings of a table name what a column follows from, so that nothing else can be meant."""

import re
from collections.abc import Sequence

from runner.tools.audit.columns import Column
from runner.tools.audit.formulas import Context
from runner.tools.audit.groups import Comparison
from runner.tools.audit.quantities import plain
from runner.tools.audit.roles import Role

_GENERIC_WORDS = """
speed speedup speedups up ups x s e p n the of a to and or from over vs versus against compared with relative rel factor
times scaling strong weak parallel efficiency eff percent single serial sequential baseline base first reference ref gpu
gpus cpu cpus core cores thread threads process processes proc procs node nodes worker workers rank ranks card one total
overall end wall clock training train time throughput measured observed actual achieved experimental real average avg
mean acceleration ratio beschleunigung effizienz per faster than improvement change reduction accélération facteur ideal
linear perfect theoretical max
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
_WORKLOAD = re.compile(
    r"benchmark|\bmodels?\b|network|data ?sets?|query|\btask|kernel|problem|matrix|\bsize\b|length|seq|tokens?\b"
    r"|resolution|batch|layer|\bcase|\btests?\b|workload|\binput|scene|image|\bop(?:erator|eration)?s?\b|function|program\b|\bapp"
    r"|application|instance|graph|\bbs\b|模型|数据集|任务|层",
    re.IGNORECASE,
)
_PAIRED_WORDS = """
before/after old/new original/optimized original/optimised serial/parallel sequential/parallel sequential/gpu
baseline/optimized baseline/optimised baseline/ours baseline/new base/new cpu/gpu eager/compiled without/with
serial/openmp serial/mpi serial/cuda fp32/amp fp32/fp16 fp32/bf16 tf32/bf16 tf32/fp16 naive/tiled naive/optimized
reference/ours pytorch/tensorrt python/numba python/cython numpy/numba numpy/cupy single/multi
"""
_PAIRS = tuple(pair.split("/") for pair in _PAIRED_WORDS.split())
_REVERSED = re.compile(r"\bover\b|\bvs\b|versus|against|relative to|compared|/|\bagainst\b|than")


def words_of(text: str) -> set[str]:
    """Return the words of a heading."""
    return set(re.findall(r"[a-zà-ÿ]+\d*|\d+[a-z]+|[\u4e00-\u9fff]+", plain(text).lower().replace("_", " ")))


def names_only(column: Column, base: Column, columns: Sequence[Column], rows: Sequence[int]) -> bool:
    """Return whether a heading names no subject but what is measured, or the rows that others are compared with.

    The times of a whole model do not give an `Attention speedup`.
    """
    labels = [words_of(" ".join(part.cells[row].text for part in columns)) for row in range(len(column.cells))]
    baselines = set().union(*(labels[row] for row in rows))
    allowed = _GENERIC | words_of(base.heading) | baselines
    named = words_of(column.heading)
    if named & baselines - _GENERIC:
        allowed = allowed.union(*labels)
    return all(word in allowed or not word.isascii() for word in named)


def of_same_work(columns: Sequence[Column], way: Comparison) -> bool:
    """Return whether rows do the work of their baselines, as far as columns such as `Benchmark` say."""
    works = [column for column in columns if column.role is not Role.COUNT and _WORKLOAD.search(plain(column.heading))]
    derived = (Role.SPEEDUP, Role.EFFICIENCY, Role.CHANGE, Role.SLOWDOWN, Role.TIME, Role.RATE, Role.ACCURACY)
    texts = [[plain(cell.text) for cell in column.cells] for column in works if column.role not in derived]
    return all(text[row] == text[base] for text in texts for row, base in enumerate(way.bases) if base is not None)


def is_certain(column: Column, bases: Sequence[Column], others: Sequence[Column]) -> bool:
    """Return whether a column can follow from nothing but the only time, or the only throughput, of the table."""
    times = [base for base in bases if base.role is Role.TIME and not base.inner]
    rates = [base for base in bases if base.role is Role.RATE and not base.inner]
    known = [other for other in others if other.known() > 1]
    return column.explicit and not column.inner and len(times) < 2 and len(rates) < 2 and bool(bases) and not known


def is_scaling(context: Context, way: Comparison) -> bool:
    """Return whether the rows are the same work on more processes than their baselines."""
    counts = context.processes.first
    pairs = [(counts[row], counts[base]) for row, base in enumerate(way.bases) if counts and base is not None]
    more = [mine > its for mine, its in pairs if mine and its]
    return len(more) == len(pairs) and any(more)


def named_pair(column: Column, first: Column, second: Column) -> bool:
    """Return whether a heading says that the second column is compared with the first one.

    It names both, as `Speedup (TF32 to AMP)` or `Speedup (AMP vs. TF32)`, or these are a pair as `before` and `after`.
    """
    if first.role is not second.role or first.role not in (Role.TIME, Role.RATE) or not column.explicit:
        return False
    words = plain(column.heading).lower()
    mine, left, right = (words_of(part.heading) for part in (column, first, second))
    own, other = (left - right) & mine, (right - left) & mine
    if own and other:
        order = [min(words.find(word) for word in named) for named in (own, other)]
        return (order[0] < order[1]) != bool(_REVERSED.search(words))
    return is_pair(first, second) and mine <= _GENERIC | left | right


def is_pair(first: Column, second: Column) -> bool:
    """Return whether two columns are a pair such as `before` and `after`, in this order."""
    left, right = words_of(first.heading), words_of(second.heading)
    return any(old in left - right and new in right - left for old, new in _PAIRS)
