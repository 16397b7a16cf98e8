"""A printed number as what it says: a value, its unit, and the interval of all numbers that round to it.

98.69% is every number from 98.685 to 98.695. Times are in seconds, rates per second; a percentage stays one. A cell may
also name processes or devices.
"""

import re
import unicodedata
from dataclasses import dataclass, replace

from runner.tools.audit.tables import LONGEST_CELL

SECONDS = {
    word: scale
    for scale, words in {
        1e-9: "ns nsec 纳秒",
        1e-6: "us µs μs usec 微秒",
        1e-3: "ms msec msecs millis millisecond milliseconds 毫秒",
        1.0: "s sec secs second seconds 秒 秒钟 sek с",
        60.0: "m min mins minute minutes 分 分钟",
        3600.0: "h hr hrs hour hours 小时 时 std",
        86400.0: "d day days 天",
    }.items()
    for word in words.split()
}
_RATES = {"fps", "qps", "ips", "tps", "rps", "wps", "ops", "iops", "flops", "flop/s"}
_FACTORS = {"x", "×", "倍", "times", "fold", "-fold", "x faster", "times faster", "x speedup", "x speed-up", "倍加速"}
_THOUSANDS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15, "万": 1e4}
_NUMBER = {
    False: r"\d{1,3}(?:[,'’ ]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+",
    True: r"\d{1,3}(?:[.'’ ]\d{3})+(?!\d)(?:,\d+)?|\d+(?:,\d*)?|,\d+",
}
_ABOUT = r"~|≈|≃|∼|约|大约|about|approx\.?|ca\.?|circa|around"
_QUANTITY = {
    comma: re.compile(
        rf"(?P<about>{_ABOUT})?\s*(?P<sign>[+-])?\s*(?P<times>[x×]\s?)?(?P<number>{number})"
        r"(?:[eE](?P<e>[+-]?\d{1,3})|\s?[x×*·]\s?10\^?(?P<ten>-?\d{1,2})(?!\d))?"
        r"\s*(?P<unit>[^\d()\[\]{}+~±<>=]{0,30}?)\s*(?P<after>左右|以上)?",
        re.IGNORECASE,
    )
    for comma, number in _NUMBER.items()
}
_CLOCK = re.compile(
    r"(?:(?P<d>\d{1,3})\s?(?:d|days?),?\s?)?(?:(?P<h>\d{1,4}):)?(?P<m>\d{1,3}):(?P<s>\d{2}(?:\.\d{1,6})?)"
)
_PIECES = re.compile(r"(\d+(?:[.,]\d+)?)\s*([a-zµμ]+|小时|分钟|秒钟|时|分|秒|毫秒|天)(?![a-z])[\s,]*", re.IGNORECASE)
_MISSING_WORDS = "- -- --- – — / n/a na n.a. none null nan oom ? tba error failed tbd x ✗ 无"
_MISSING = {"", *_MISSING_WORDS.split()}
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴-⁹ᵃ-ᶻ]+|\\[\\^[^\\]]{1,20}\\]")
_FOOTNOTE = re.compile(r"\s*(?:\[\d{1,2}\]|\(\d\)|[*†‡§¶#↑↓↗↘⬆⬇★☆✅✓✔]|[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f])+$")
_PREFIX = re.compile(
    r"([kKMGTP万])(?=[ib]?B|b(?:it)?|FLOP|LUP|H/|\s|/|tok|img|sam|req|ops|it|elem|path|part|point|cell|row|key|pix|ray|step"
    r"|quer|hash|event|edge|node|msg|packet|rec|word|char|line|atom|vox|up)"
)
_LARGEST_EXPONENT = 30
_MOST_DIGITS = 30
_BASE = re.compile(r"\(?\b(baseline|base|ref(erence)?\.?|基准|基线)\)?", re.IGNORECASE)
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


@dataclass(frozen=True)
class Quantity:
    """One printed number.

    `kind` is `time` (seconds), `rate` (per second), `percent`, `factor` (1.65x), `other` (another unit) or nothing.
    A time may be `per` something, for example a step; of a rate or another unit, it is what is counted. `low` and
    `high` are the ends of its rounding and `step` is one of its last digit, all in the unit of `value`. `number` is
    what is printed, and `scale` the unit: value = number * scale. `spread` is a relative deviation.
    """

    number: float
    scale: float
    step: float
    kind: str = ""
    about: bool = False
    spread: float = 0.0
    digits: int = 1
    per: str = ""

    @property
    def value(self) -> float:
        """The number in base units."""
        return self.number * self.scale

    @property
    def low(self) -> float:
        """The smallest number that rounds to it."""
        return self.value - self.step * (1.0 if self.about else 0.5)

    @property
    def high(self) -> float:
        """The largest number that rounds to it."""
        return self.value + self.step * (1.0 if self.about else 0.5)


def plain(text: str) -> str:
    """Make one form of text: no superscripts, no full-width or typographic variants, single spaces."""
    text = unicodedata.normalize("NFKC", _SUPERSCRIPTS.sub("", text)).replace("\u2212", "-").replace("–", "-")
    return " ".join(text.split())


def is_missing(text: str) -> bool:
    """Return whether a cell says that there is no number."""
    return _BASE.sub("", plain(text)).strip("*_` ()<>[]").lower() in _MISSING


def says_baseline(text: str) -> bool:
    """Return whether a cell calls its row the baseline."""
    return bool(_BASE.search(plain(text)))


def read_cell(text: str, *, comma: bool = False) -> tuple[Quantity | None, Quantity | None]:
    """Read a cell: its number, and one in parentheses after it, for example `115.8 s (1.47x)`."""
    text = _BASE.sub("", plain(text)).strip()
    text = re.sub(r"\s*\[[^\]]*[,;–…][^\]]*\]", "", text)  # an interval
    text = _FOOTNOTE.sub("", text).strip(" *_`")
    whole = read(text, comma=comma)
    if whole:
        return whole, None
    found = re.fullmatch(r"(?P<first>[^()/|]+?)\s*(?:\((?P<inner>[^()]+)\)|[/|]\s*(?P<other>[^()/|]+))", text)
    if not found:
        return None, None
    first, second = read(found["first"], comma=comma), read(found["inner"] or found["other"], comma=comma)
    if not first or (found["other"] and (not second or second.kind == first.kind)):
        return None, None
    return first, second


def read(text: str, *, comma: bool = False) -> Quantity | None:
    """Read one number with its unit; None for anything else: a name, a version, a range, a bound."""
    text = text.strip()
    if len(text) > 60 or not any(letter.isdigit() for letter in text):
        return None
    value, _, spread = text.partition("±") if "±" in text else text.partition("+/-")
    if spread:
        # The unit may stand behind both: 170.2 ± 1.3 s.
        mean, deviation = read(value, comma=comma), read(spread, comma=comma)
        if not mean or not deviation or not mean.number:
            return None
        if not mean.kind:
            mean = replace(mean, kind=deviation.kind, scale=deviation.scale, step=mean.step * deviation.scale)
        in_percent = deviation.kind == "percent" != mean.kind
        return replace(mean, spread=deviation.number / 100 if in_percent else abs(deviation.number / mean.number))
    return _clock(text) or _pieces(text) or _simple(text, comma=comma)


def _simple(text: str, *, comma: bool) -> Quantity | None:
    found = _QUANTITY[comma].fullmatch(text)
    if not found:
        return None
    digits = re.sub(r"[^\d.,]", "", found["number"])
    digits = digits.replace(".", "").replace(",", ".") if comma else digits.replace(",", "")
    kind, scale = unit_of(found["unit"])
    if found["times"]:
        kind = "factor"
    exponent = int(found["e"] or found["ten"] or 0)
    if abs(exponent) > _LARGEST_EXPONENT or len(digits) > _MOST_DIGITS:
        return None
    number = float(digits) * 10.0**exponent * (-1 if found["sign"] == "-" else 1)
    step = 10.0 ** (exponent - len(digits.partition(".")[2])) * scale
    figures = len(digits.replace(".", "").lstrip("0"))
    about = bool(found["about"]) or bool(found["after"])
    return Quantity(number, scale, step, kind, about, 0.0, figures, _thing(kind, found["unit"].strip()))


def _thing(kind: str, unit: str) -> str:
    """Return what a time is per, or what another unit or a rate counts; numbers of two things have no ratio."""
    if kind == "time":
        return re.sub(r"\bper\b", "/", unit).partition("/")[2].strip().lower()
    if kind == "rate":
        unit = re.sub(r"\s*(?:/|\bper\b|每).*", "", unit)
    return unit[_multiplier(unit) != 1.0 :].strip().lower() if kind in ("rate", "other") else ""


def _clock(text: str) -> Quantity | None:
    """Read h:mm:ss, mm:ss or `1 day, 2:03:04`."""
    found = _CLOCK.fullmatch(text)
    if not found:
        return None
    seconds = int(found["d"] or 0) * 86400 + int(found["h"] or 0) * 3600 + int(found["m"]) * 60 + float(found["s"])
    return Quantity(seconds, 1.0, 10.0 ** -len(found["s"].partition(".")[2]), "time", digits=len(text))


def _pieces(text: str) -> Quantity | None:
    """Read `1h 23m 45s`; the last piece gives the rounding."""
    pieces = _PIECES.findall(text)
    if len(pieces) < 2 or _PIECES.sub("", text).strip():
        return None
    scales = [SECONDS.get(unit.lower()) for _, unit in pieces]
    known = [scale for scale in scales if scale]
    if len(known) < len(scales) or sorted(known, reverse=True) != known:
        return None
    seconds = sum(float(number.replace(",", ".")) * scale for (number, _), scale in zip(pieces, known, strict=True))
    decimals = len(re.split("[.,]", pieces[-1][0] + ".")[1])
    return Quantity(seconds, 1.0, 10.0**-decimals * known[-1], "time", digits=len(text))


def unit_of(words: str) -> tuple[str, float]:  # noqa: PLR0911 - one for each kind of unit
    """Return the kind and the scale of a unit; a unit that is not known is `other`."""
    unit = re.sub(r"\s+(?:avg|average|mean|median|total)\.?$", "", words.strip(".,;: "), flags=re.IGNORECASE)
    small = unit.lower()
    if not unit:
        return "", 1.0
    if small in ("%", "percent", "per cent", "pct") or re.fullmatch(
        r"%\s*(faster|fast|eff\w*|acc\w*|less|more)?", small
    ):
        return "percent", 1.0
    if small in _FACTORS:
        return "factor", 1.0
    if unit in _THOUSANDS and unit not in SECONDS:
        return "", _THOUSANDS[unit]
    if small in SECONDS:
        return "time", SECONDS[small]
    if small in _RATES:
        return "rate", 1.0
    above, _, below = re.sub(r"\s+per\s+|每", "/", small).partition("/")
    above, below = above.strip(), below.strip()
    times = SECONDS.get(below.partition("/")[0])
    if below and times:
        return "rate", _multiplier(words.strip()) / times
    if below and above in SECONDS:
        return "time", SECONDS[above]
    if below in ("gpu", "device", "卡"):
        return unit_of(above)
    return "other", _multiplier(words.strip())


def _multiplier(unit: str) -> float:
    """Read the k of `k tokens/s` and the M of `MB/s`."""
    found = _PREFIX.match(unit)
    return _THOUSANDS[found[1]] if found else 1.0


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
