"""Numbers in running text: a time with the speed-up that is claimed for it, and accuracies of padded shards."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from runner.core.text import one_line
from runner.tools.audit.accuracies import check_padding, check_shares
from runner.tools.audit.columns import LONGEST
from runner.tools.audit.findings import Audit, Finding, Place, finding
from runner.tools.audit.quantities import Quantity, plain, read
from runner.tools.audit.spans import CONSISTENT, FLIPS, INCONSISTENT, TRUNCATED, Span, grade, ratio, span
from runner.tools.audit.tables import Page, Passage

_UNIT = r"(?:秒钟?|毫秒|分钟|小时|seconds?|secs?|minutes?|mins?|hours?|hrs?|ms|s|h)"
_TIME = re.compile(rf"(?<![A-Za-z0-9_.,/-])(\d[\d,]*(?:\.\d+)?)\s*({_UNIT})(?![A-Za-z/0-9])")
_NUMBER = r"(\d{1,4}(?:\.\d+)?)(?![\d.]*\d)(?!\s*[%％])"
_FACTORS = (
    re.compile(rf"(?:提高|提升|加速|加快|提速|快)了?\s*(?:约|大约|近|将近)?\s*{_NUMBER}\s*倍"),
    re.compile(rf"加速比\s*(?:约|大约)?(?:为|是|达到|:|=)?\s*(?:约|大约)?\s*{_NUMBER}"),
    re.compile(rf"(?<![\w.]){_NUMBER}\s*(?:x|×|times)\s*(?:faster|quicker|as fast|speed-?up|the speed)", re.IGNORECASE),
    re.compile(rf"speed-?up\s*(?:of|is|was|:|=)\s*(?:about|roughly|~|≈)?\s*{_NUMBER}", re.IGNORECASE),
)
_TO = r"\s*[x×倍]?\s*(?:[-–—~～至到]|to\b)\s*"
_RANGE = (re.compile(rf"\d{_TO}$"), re.compile(rf"{_TO}\d"))
"""What stands before and behind a number that is one end of a range: `4.7-5.2x`."""
_ACCURACY = re.compile(r"(?:\bacc(?:uracy)?\b|准确率|正确率|精度)[^\d%。.;]{0,16}(\d{1,3}\.\d+)\s*%", re.IGNORECASE)
_HARDWARE = re.compile(r"(?<![A-Za-z0-9])(?:[AVHPLTK]\d{1,3}0?|RTX ?\d{4}|MI\d{3}|TPU ?v\d|GB?\d{3})(?![A-Za-z0-9])")
_PROCESSES = re.compile(
    r"(\d{1,4})\s*(?:张|块|卡|个\s*(?:GPU|进程)|-?\s*(?:gpus?|processes|ranks|workers)\b)", re.IGNORECASE
)
_FROM_TO = re.compile(r"\bfrom\b.*\bto\b|从.*(?:到|降|减)|由.*(?:到|降)")
_NO_CLAIM = re.compile(
    r"\b(?:than|over|compared|versus|vs|relative to)\b(?!.{0,20}\b(?:one|single|1)\b)"
    r"|\b(?:forward|backward|pass|layers?|attention|reading|load(?:er|ing)|compil\w+|per (?:step|iteration))\b"
    r"|\b(?:further|another|additional|on top|whole|kernel|not|never|up to|would|could|should|ideal\w*|expect\w*"
    r"|theor\w*|at most|less than)\b|理论|理想|期望|预期|不到|没有|最多",
    re.IGNORECASE,
)
"""What says that a speed-up is of a part, is against something else than the others, or was not reached."""
_FARTHEST = 5.0
"""By how much a claim may miss the ratio of two times: beyond that they are of other things."""
_SENTENCE = re.compile(r"(?<=[。！？!?；;])\s*|(?<=[.])\s+(?=[A-Z\u4e00-\u9fff])")
_MOST = 20_000
MOST_COMPARED = 200
"""Sentences of one kind that are compared with each other: to find out which belong together takes their square."""


@dataclass(frozen=True)
class _Sentence:
    """A sentence, with what it says; `section` counts the headings before it."""

    line: int
    times: tuple[tuple[Quantity, str], ...]
    factor: Quantity | None
    accuracy: Quantity | None
    hardware: frozenset[str]
    processes: int
    section: int
    text: str
    may_add: bool
    """Whether the speed-up may be what is added: 提升 0.25 倍 is 1.25 times, or 0.25."""


def check_prose(page: Page) -> Audit:
    """Check what the running text of a page claims about its own times and accuracies."""
    audit = Audit(page.file)
    said = list(_sentences(page))
    for passage in page.passages:
        place = Place(page.file, passage.line, "share", 0, one_line(passage.text, LONGEST))
        audit.findings += check_shares(place, passage.text)
    audit.findings += _speedups(said, audit)
    known = _first([sentence for sentence in said if sentence.accuracy], "accuracies", audit)
    audit.findings += _padded(known, page.file)
    return audit


def _sentences(page: Page) -> Iterator[_Sentence]:
    """Cut the text into sentences; each knows the hardware that its heading names, or that was named last before it."""
    hardware, titled, processes, section = frozenset[str](), frozenset[str](), 0, 0
    for passages in _paragraphs(page):
        if passages[0].heading:
            section += 1
            hardware, titled = frozenset(), frozenset(_HARDWARE.findall(plain(passages[0].text)))
        text = "\n".join(passage.text for passage in passages)[:_MOST]
        start = 0
        for piece in _SENTENCE.split(text):
            at = text.find(piece, start)
            start = at + len(piece)
            words = plain(piece)
            named = frozenset(_HARDWARE.findall(words))
            hardware = hardware | named if titled else named or hardware
            counts = _PROCESSES.findall(words)
            processes = int(counts[-1]) if counts else processes
            stated = [(read(f"{found[1]} {found[2]}"), found[1]) for found in _TIME.finditer(words)]
            times = [(time, digits) for time, digits in stated if time and time.kind == "time" and time.value > 0]
            factor = next(filter(None, (pattern.search(words) for pattern in _FACTORS)), None)
            accuracy = _ACCURACY.search(words)
            if factor and (_RANGE[0].search(words[: factor.start(1)]) or _RANGE[1].match(words, factor.end(1))):
                factor = None
            value = read(factor[1]) if factor else None
            if value and re.search("左右|约|about|roughly|nearly|~|≈|近", words):
                value = replace(value, about=True) if value.number == int(value.number) else value
            first = factor or accuracy or _TIME.search(words)
            if first and (times or factor or accuracy):
                place = piece.find(first[0])
                line = passages[min(text[: at + max(0, place)].count("\n"), len(passages) - 1)].line
                share = read(accuracy[1] + "%") if accuracy else None
                named = hardware | titled
                may_add = factor is not None and factor.re is _FACTORS[0]
                yield _Sentence(line, tuple(times), value, share, named, processes, section, words, may_add)


def _paragraphs(page: Page) -> Iterator[list[Passage]]:
    block: list[Passage] = []
    for passage in page.passages:
        if block and (passage.heading or block[-1].heading or passage.line > block[-1].line + 1):
            yield block
            block = []
        block.append(passage)
    if block:
        yield block


@dataclass(frozen=True)
class _Claim:
    """A claimed speed-up with the sentence of the time that it is compared with, if that is another one."""

    said: _Sentence
    factor: Quantity
    base: _Sentence | None
    computed: Span
    grade: str
    formula: str

    @property
    def miss(self) -> float:
        """The claimed speed-up over the one that follows."""
        return self.factor.value / self.computed.middle


def _speedups(said: list[_Sentence], audit: Audit) -> list[Finding]:
    pool = _first([sentence for sentence in said if len(sentence.times) == 1 and not sentence.factor], "times", audit)
    claiming = [sentence for sentence in said if len(sentence.times) == 1 and sentence.factor][:MOST_COMPARED]
    claims: list[_Claim] = []
    open_: list[_Sentence] = []
    for sentence in _first([sentence for sentence in said if sentence.factor], "speed-ups", audit):
        if len(sentence.times) == 2:
            longer, shorter = sorted(sentence.times, key=lambda time: -time[0].value)
            within = _claim(sentence, longer, shorter)
            # Only if the sentence says that one time follows from the other, a misfit counts.
            if within and (within.grade != INCONSISTENT or _FROM_TO.search(sentence.text)):
                claims.append(within)
        elif len(sentence.times) == 1:
            # The times of other claims may excuse one, too.
            wanted = sentence.factor.value * sentence.times[0][0].value if sentence.factor else 0.0
            near = [base for base in (*pool, *claiming) if 0.3 * wanted < base.times[0][0].value < 3 * wanted]
            tries = [_claim(sentence, base.times[0], sentence.times[0], base) for base in near if base is not sentence]
            fitting = [claim for claim in tries if claim and claim.grade != INCONSISTENT]
            if fitting:
                claims.append(min(fitting, key=_distance))
            else:
                open_.append(sentence)
    bases = {id(claim.base): claim.base for claim in claims if claim.base and not claim.base.factor}
    uses = Counter(id(claim.base) for claim in claims if claim.base and not claim.base.factor)
    usual = bases[uses.most_common(1)[0][0]] if uses else None  # of equally many the first one
    for sentence in open_:
        base = usual or (pool[0] if len(pool) == 1 and said.index(pool[0]) < said.index(sentence) else None)
        wrong = _claim(sentence, base.times[0], sentence.times[0], base) if base else None
        if wrong and not _NO_CLAIM.search(sentence.text) and 1 / _FARTHEST < wrong.miss < _FARTHEST:
            claims.append(wrong)
        else:
            audit.skip(sentence.line, "speed-up", "no time in the text that it follows from")
    _slow(pool, claims, audit)
    return [_finding(audit.file, claim, claims) for claim in sorted(claims, key=lambda claim: claim.said.line)]


def _first(said: list[_Sentence], what: str, audit: Audit) -> list[_Sentence]:
    """Return as many sentences as are compared, and note where the others begin."""
    if len(said) > MOST_COMPARED:
        audit.skip(said[MOST_COMPARED].line, what, f"after the first {MOST_COMPARED} in the text")
    return said[:MOST_COMPARED]


def _distance(claim: _Claim) -> tuple[bool, bool, bool, int]:
    base = claim.base or claim.said
    return (
        claim.grade == TRUNCATED,
        bool(base.hardware) and bool(claim.said.hardware) and not base.hardware & claim.said.hardware,
        base.line > claim.said.line,
        abs(claim.said.line - base.line),
    )


def _claim(
    sentence: _Sentence, above: tuple[Quantity, str], below: tuple[Quantity, str], base: _Sentence | None = None
) -> _Claim | None:
    """Compare a claimed speed-up with the ratio of two times."""
    value = ratio(span(above[0]), span(below[0]))
    if sentence.factor is None or value is None:
        return None
    formula = f"{above[1]} / {below[1]}" + (f", line {base.line}" if base else "")
    got = grade(sentence.factor, value)
    added = Span(value.low - 1, value.middle - 1, value.high - 1)
    if sentence.may_add and got != CONSISTENT and grade(sentence.factor, added) == CONSISTENT:
        value, got, formula = added, CONSISTENT, f"{formula} - 1"
    return _Claim(sentence, sentence.factor, base, value, got, formula)


def _finding(file: str, claim: _Claim, claims: list[_Claim]) -> Finding:
    factor, value, got = claim.factor, claim.computed, claim.grade
    if got == INCONSISTENT and (factor.low > 1 > value.high or factor.high < 1 < value.low):
        got = FLIPS
    place = _place(file, "speed-up", claim.said)
    return finding(place, factor, value, got, claim.formula, _other_hardware(claim, claims))


def _place(file: str, what: str, sentence: _Sentence) -> Place:
    return Place(file, sentence.line, what, 0, one_line(sentence.text, LONGEST))


def _other_hardware(claim: _Claim, claims: list[_Claim]) -> str:
    """Return that a speed-up is against a baseline on other hardware."""
    base, mine = claim.base, claim.said.hardware
    if base is None or not mine:
        return ""
    if base.hardware and base.section <= claim.said.section and not base.hardware & mine:
        return f"the baseline is of other hardware: {', '.join(sorted(base.hardware))}, not {', '.join(sorted(mine))}"
    for other in claims if not base.hardware else ():
        others = other.said.hardware
        if other.base is base and other.said.line < claim.said.line and others and not others & mine:
            names = f"{', '.join(sorted(others))} in line {other.said.line}"
            return f"the same baseline as for {names}: one of the two is on other hardware"
    return ""


def _slow(pool: list[_Sentence], claims: list[_Claim], audit: Audit) -> None:
    """Note which times are longer than the baseline of others near them, and have no speed-up beside them."""
    for line, base in {claim.base.line: claim.base for claim in claims if claim.base}.items():
        last = max(claimed.said.line for claimed in claims if claimed.base and claimed.base.line == line)
        near = sorted(sentence.line for sentence in pool if sentence.line > last)[:2]
        for sentence in pool:
            value = ratio(span(base.times[0][0]), span(sentence.times[0][0])) if sentence.line in near else None
            if value and value.high < 1 and sentence.processes > 1 and sentence.hardware:
                against = f"against {base.times[0][1]} in line {line} it would be {value.middle:.2f}"
                audit.skip(sentence.line, "time", f"{sentence.times[0][1]} has no speed-up beside it; {against}")


def _padded(known: list[_Sentence], file: str) -> list[Finding]:
    """Look for a pair of accuracies of which the second counts samples twice."""
    result: dict[int, Finding] = {}
    for first, second in [*pairwise(known), *((known[0], sentence) for sentence in known[2:])]:
        if first.accuracy is None or second.accuracy is None:
            continue
        earlier = _place(file, "accuracy", first), first.accuracy, 1
        later = _place(file, "accuracy", second), second.accuracy, second.processes or 1
        result |= {found.line: found for found in check_padding([earlier, later], 100.0)}
    return list(result.values())
