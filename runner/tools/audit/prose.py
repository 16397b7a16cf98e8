"""Numbers in running text: a time with the speed-up that is claimed for it, and accuracies of padded shards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from runner.core.text import one_line
from runner.tools.audit import shares
from runner.tools.audit.accuracies import padding_note
from runner.tools.audit.findings import Audit, Finding
from runner.tools.audit.quantities import Quantity, plain, read
from runner.tools.audit.spans import CONSISTENT, FLIPS, INCONSISTENT, TRUNCATED, Span, grade, ratio, span
from runner.tools.audit.tables import Page, Passage

_UNIT = r"(?:秒钟?|毫秒|分钟|小时|seconds?|secs?|minutes?|mins?|hours?|hrs?|ms|s|h)"
_TIME = re.compile(rf"(?<![\w.,/-])(\d[\d,]*(?:\.\d+)?)\s*({_UNIT})(?![A-Za-z/0-9])")
_NUMBER = r"(\d{1,4}(?:\.\d+)?)"
_FACTORS = (
    re.compile(rf"(?:提高|提升|加速|加快|提速|快)了?\s*(?:约|大约|近|将近)?\s*{_NUMBER}\s*倍"),
    re.compile(rf"加速比\s*(?:约|大约)?(?:为|是|达到|:|=)?\s*(?:约|大约)?\s*{_NUMBER}"),
    re.compile(rf"(?<![\w.]){_NUMBER}\s*(?:x|×|times)\s*(?:faster|quicker|as fast|speed-?up|the speed)", re.IGNORECASE),
    re.compile(rf"speed-?up\s*(?:of|is|was|:|=)\s*(?:about|roughly|~|≈)?\s*{_NUMBER}\s*[x×]?(?!\s*%)", re.IGNORECASE),
)
_ACCURACY = re.compile(r"(?:\bacc(?:uracy)?\b|准确率|正确率|精度)[^\d%。.;]{0,16}(\d{1,3}\.\d+)\s*%", re.IGNORECASE)
_HARDWARE = re.compile(r"(?<![A-Za-z0-9])(?:[AVHPLTK]\d{1,3}0?|RTX ?\d{4}|MI\d{3}|TPU ?v\d|GB?\d{3})(?![A-Za-z0-9])")
_PROCESSES = re.compile(
    r"(\d{1,4})\s*(?:张|块|卡|个\s*(?:GPU|进程)|-?\s*(?:gpus?|processes|ranks|workers)\b)", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[。！？!?；;])\s*|(?<=[.])\s+(?=[A-Z\u4e00-\u9fff])")
_MOST = 20_000
MOST_COMPARED = 200
"""Sentences of one kind that are compared with each other: to find out which belong together takes their square."""


@dataclass(frozen=True)
class _Said:
    """A sentence, with what it says; `section` is its heading of the first or second level, in order."""

    line: int
    times: tuple[tuple[Quantity, str], ...]
    factor: Quantity | None
    accuracy: Quantity | None
    hardware: frozenset[str]
    processes: int
    section: int
    text: str


def check_prose(page: Page) -> Audit:
    """Check what the running text of a page claims about its own times and accuracies."""
    audit = Audit(page.file)
    said = list(_sentences(page))
    audit.findings += _counts(page)
    audit.findings += _speedups(said, audit)
    audit.findings += _padded(_first([one for one in said if one.accuracy], "accuracies", audit), page.file)
    return audit


def _sentences(page: Page) -> Iterator[_Said]:
    """Cut the text into sentences; each knows the hardware that its heading names, or that was named last before it."""
    hardware, titled, processes, section = frozenset[str](), frozenset[str](), 0, 0
    for passages in _paragraphs(page):
        if passages[0].heading:
            section += 1
            hardware, titled = frozenset(), frozenset(_HARDWARE.findall(plain(passages[0].text)))
        text = "\n".join(one.text for one in passages)[:_MOST]
        start = 0
        for piece in _SENTENCE.split(text):
            at = text.find(piece, start)
            start = at + len(piece)
            words = plain(piece)
            named = frozenset(_HARDWARE.findall(words))
            hardware = hardware | named if titled else named or hardware
            counts = _PROCESSES.findall(words)
            processes = int(counts[-1]) if counts else processes
            times = tuple(_times(words))
            factor = next((found for pattern in _FACTORS for found in pattern.finditer(words)), None)
            accuracy = _ACCURACY.search(words)
            value = read(factor[1]) if factor else None
            if value and re.search("左右|约|about|roughly|nearly|~|≈|近", words):
                value = replace(value, about=True) if value.number == int(value.number) else value
            if times or factor or accuracy:
                place = piece.find((factor or accuracy or _TIME.search(words) or re.match("", ""))[0]) if words else 0  # type: ignore[index]
                line = passages[min(text[: at + max(0, place)].count("\n"), len(passages) - 1)].line
                share = read(accuracy[1] + "%") if accuracy else None
                yield _Said(line, times, value, share, hardware | titled, processes, section, words)


def _paragraphs(page: Page) -> Iterator[list[Passage]]:
    block: list[Passage] = []
    for passage in page.passages:
        if block and (passage.heading or block[-1].heading or passage.line > block[-1].line + 1):
            yield block
            block = []
        block.append(passage)
    if block:
        yield block


def _times(words: str) -> Iterator[tuple[Quantity, str]]:
    for found in _TIME.finditer(words):
        value = read(f"{found[1]} {found[2]}")
        if value and value.kind == "time" and value.value > 0:
            yield value, found[1]


def _counts(page: Page) -> list[Finding]:
    """Check `98.7% (1053 of 1067)` in the text."""
    result = []
    for passage in page.passages:
        for share in shares.shares_in(passage.text):
            value = float(f"{share.correct / share.total * 100:.8g}")
            got = grade(share.printed, Span(value, value, value))
            formula = f"{share.correct} / {share.total}"
            text, number = one_line(passage.text, 80), share.printed.number
            result.append(
                Finding(page.file, passage.line, "share", 0, text, number, value, (value, value), got, formula)
            )
    return result


@dataclass(frozen=True)
class _Claim:
    """A claimed speed-up with the time that it is compared with."""

    said: _Said
    base: _Said | None
    computed: Span
    grade: str
    formula: str


def _speedups(said: list[_Said], audit: Audit) -> list[Finding]:
    pool = _first([one for one in said if len(one.times) == 1 and not one.factor], "times", audit)
    claims: list[_Claim] = []
    open_: list[_Said] = []
    for one in _first([one for one in said if one.factor], "speed-ups", audit):
        if len(one.times) == 2:  # noqa: PLR2004
            claims += _within(one)
        elif len(one.times) == 1:
            fitting = [claim for base in pool if (claim := _against(one, base)) and claim.grade != INCONSISTENT]
            if fitting:
                claims.append(min(fitting, key=_distance))
            else:
                open_.append(one)
    bases = {id(claim.base): claim.base for claim in claims if claim.base}
    uses = Counter(id(claim.base) for claim in claims if claim.base)
    usual = bases[uses.most_common(1)[0][0]] if uses else None  # of equally many the first one
    for one in open_:
        base = usual or (pool[0] if len(pool) == 1 and pool[0].line < one.line else None)
        wrong = _against(one, base) if base else None
        if wrong:
            claims.append(wrong)
        else:
            audit.skip(one.line, "speed-up", "no time in the text that it follows from")
    _slow(pool, claims, audit)
    return [_finding(audit.file, claim, claims) for claim in sorted(claims, key=lambda claim: claim.said.line)]


def _first(said: list[_Said], what: str, audit: Audit) -> list[_Said]:
    """Return as many sentences as are compared, and note where the others begin."""
    if len(said) > MOST_COMPARED:
        audit.skip(said[MOST_COMPARED].line, what, f"after the first {MOST_COMPARED} in the text")
    return said[:MOST_COMPARED]


def _distance(claim: _Claim) -> tuple[bool, bool, bool, int]:
    base = claim.base
    assert base is not None  # noqa: S101 - claims within a sentence are not compared
    return (
        claim.grade == TRUNCATED,
        bool(base.hardware) and bool(claim.said.hardware) and not base.hardware & claim.said.hardware,
        base.line > claim.said.line,
        abs(claim.said.line - base.line),
    )


def _against(one: _Said, base: _Said) -> _Claim | None:
    factor, value = one.factor, ratio(span(base.times[0][0]), span(one.times[0][0]))
    if factor is None or value is None:
        return None
    formula = f"{base.times[0][1]} / {one.times[0][1]}, line {base.line}"
    return _Claim(one, base, value, grade(factor, value), formula)


def _within(one: _Said) -> list[_Claim]:
    """Compare the two times of one sentence; only if it says that one follows from the other, a misfit counts."""
    (first, first_text), (second, second_text) = one.times
    if first.value < second.value:
        first, first_text, second, second_text = second, second_text, first, first_text
    value = ratio(span(first), span(second))
    if one.factor is None or value is None:
        return []
    got = grade(one.factor, value)
    if got == INCONSISTENT and not re.search(r"\bfrom\b.*\bto\b|从.*(?:到|降|减)|由.*(?:到|降)", one.text):
        return []
    return [_Claim(one, None, value, got, f"{first_text} / {second_text}")]


def _finding(file: str, claim: _Claim, claims: list[_Claim]) -> Finding:
    one, factor, value = claim.said, claim.said.factor, claim.computed
    assert factor is not None  # noqa: S101 - a claim has one
    got = claim.grade
    if got == INCONSISTENT and (factor.low > 1 > value.high or factor.high < 1 < value.low):
        got = FLIPS
    ends = (float(f"{value.low:.7g}"), float(f"{value.high:.7g}"))
    middle = float(f"{value.middle:.7g}")
    text, note = one_line(one.text, 80), _other_hardware(claim, claims)
    return Finding(file, one.line, "speed-up", 0, text, factor.number, middle, ends, got, claim.formula, note)


def _other_hardware(claim: _Claim, claims: list[_Claim]) -> str:
    """Say that a speed-up is against a baseline on other hardware."""
    base, mine = claim.base, claim.said.hardware
    if base is None or not mine:
        return ""
    if base.hardware and base.section <= claim.said.section and not base.hardware & mine:
        return f"the baseline is of other hardware: {', '.join(sorted(base.hardware))}, not {', '.join(sorted(mine))}"
    for other in claims:
        others = other.said.hardware
        if (
            other.base is base
            and other.said.line < claim.said.line
            and not base.hardware
            and others
            and not others & mine
        ):
            names = f"{', '.join(sorted(others))} in line {other.said.line}"
            return f"the same baseline as for {names}: one of the two is on other hardware"
    return ""


def _slow(pool: list[_Said], claims: list[_Claim], audit: Audit) -> None:
    """Say which times are longer than the baseline of others near them, and have no speed-up beside them."""
    bases = {claim.base.line: claim for claim in claims if claim.base}
    for line, claim in bases.items():
        last = max(one.said.line for one in claims if one.base and one.base.line == line)
        near = sorted(one.line for one in pool if one.line > last)[:2]
        for one in pool:
            base = claim.base
            value = ratio(span(base.times[0][0]), span(one.times[0][0])) if base and one.line in near else None
            if base and value and value.high < 1 and one.processes > 1 and one.hardware:
                against = f"against {base.times[0][1]} in line {line} it would be {value.middle:.2f}"
                audit.skip(one.line, "time", f"{one.times[0][1]} has no speed-up beside it; {against}")


def _padded(known: list[_Said], file: str) -> list[Finding]:
    """Look for a pair of accuracies of which the second counts samples twice."""
    result: dict[int, Finding] = {}
    for first, second in [*pairwise(known), *((known[0], one) for one in known[2:])]:
        if first.accuracy is None or second.accuracy is None:
            continue
        pair = shares.padded(first.accuracy, second.accuracy, 100.0, second.processes)
        if pair is None:
            continue
        total, larger = pair
        for one, value in ((first, first.accuracy), (second, second.accuracy)):
            _, computed, count = shares.of_total(value, total, 100.0)
            ends = (float(f"{computed.low:.8g}"), float(f"{computed.high:.8g}"))
            note = padding_note(value, total, larger, second.processes, 100.0) if one is second else ""
            got = INCONSISTENT if one is second else CONSISTENT
            text, formula = one_line(one.text, 80), f"{count} / {total}"
            result[one.line] = Finding(
                file, one.line, "accuracy", 0, text, value.number, ends[0], ends, got, formula, note
            )
    return list(result.values())
