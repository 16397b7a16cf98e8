"""What a column holds, from its heading and its cells."""

import re
from enum import Enum

from runner.tools.audit.quantities import plain, unit_of


class Role(str, Enum):
    """The kinds of column that the audit knows; `OTHER` is a number of another kind, `LABEL` a name."""

    SPEEDUP = "speed-up"
    SLOWDOWN = "slow-down"
    CHANGE = "change"
    EFFICIENCY = "efficiency"
    TIME = "time"
    RATE = "throughput"
    COUNT = "count"
    SAMPLES = "samples"
    BATCH = "batch"
    ACCURACY = "accuracy"
    CORRECT = "correct"
    TOTAL = "total"
    UNKNOWN = "unknown"
    OTHER = "other"
    LABEL = "label"


_THING = (
    r"(?:im(?:a)?ge?s?|samples?|tok(?:en)?s?|seq(?:uence)?s?|sentences?|examples?|ex|frames?|req(?:uest)?s?"
    r"|quer(?:y|ies)|steps?|iter(?:ation)?s?|it|batch(?:es)?|words?|items?|records?|rows?|epochs?|[kmgt]?b(?:ytes?)?"
    r"|tuples?|pairs?|clips?|videos?|ops?)"
)
_CLOCK = r"(?:s|sec|secs|second|seconds|ms|min|mins|minute|minutes|h|hr|hour|hours|秒|分钟|小时)"
_RULES = r"""
other       ^(?!.*(?:speed[- _]?up|加速比)).*(?:slower|langsamer|慢)
other       co2|\$|显存|内存|功耗|参数|损失|利用率|版本|模型大小|卡时|(?:gpu|node|core)[- ]hours?|\bmfu\b|\bhfu\b|误差
other       (?:energy|power|cost|price|memory|param\w*|sample|data|fuel|loss)[- _]efficien|timeout|timestamp
other       \b(?:elements|points|cells|particles|atoms)\s*(?:/|\bper\b)\s*(?:process|rank|core|node|thread|gpu)
other       ^\W*st(?:andar)?d[ .]|stdev|deviation|variance|(?:file|model) size|\d ?% ?ci\b
other       ^\W*(?:links?|networks?|interconnect|网络)\W*$
efficiency  efficien|effizienz|eficien|эффективн|效率|\beff\b(?!-)|\beff\.|scaling\s*\(?%
slow-down   slow[- _]?down|relative (?:run)?time|normali[sz]ed (?:run)?time|time ratio|相对(?:时间|耗时)
speed-up    speed[- _]?ups?(?![a-z])|加速比|加速倍|加速效果|提速比|beschleunigung|acc[ée]l[ée]ration|\bsu\b
speed-up    scal(?:ing|e) factor|scale[- ]up|relative (?:speed|perf|through)|rel\. (?:speed|perf)|acceleration\b
speed-up    相对速度|倍数|ускорен|aceleraci
change      faster(?![- ]?r-?cnn|\s?transformer)|improve|提升|提高|提速|降低|减少|缩短|节省
change      reduction|reduced|sav(?:ing|ed)|\bgains?\b|increase|overhead
change      \bdelta\b|δ|\bdiff(?!ers?\b|ering|ered)|变化|加速(?!卡|器)|\bchange|vs\.?[ ]
time        \btime[- ]to[- ]|\btta\b|\bttt\b
accuracy    accura|genauigkeit|\bacc\b|acc[@_. ]|_acc\b|准确率|正确率|准确度|精度|top[- ]?[15]\b|error rate|错误率
accuracy    test err|\berr(?:or)? ?\(?%
correct     ^\W*(?:#|n(?:um)?[._ ])?\s*correct|correctly|正确(?:数|个数|样本)|hits\b|命中
throughput  through ?put|吞吐|пропускн|(?<![a-z])(?!<clock>\s*(?:/|per))[a-z]+\s*(?:/|\bper\b)\s*<clock>(?![a-z])
throughput  <thing>\s*(?:/|per|每)\s*<clock>(?![a-z])|\b(?:fps|qps|ips|tps|wps|rps|it/s|tok/s|tgs)\b
throughput  (?:张|样本|个|条|步|tokens?)/<clock>|每秒|[tgmk]flop/?s|\bspeed\b(?!.*\((?:s|ms)\))|速度|bandwidth|带宽
throughput  busbw|algbw
time        \btimes?\b(?!s)|время|\btiempo\b|\btempo\b|time\b|_time|耗时|zeit\b|temps\b|dur[ée]e|laufzeit|时间|时长
time        用时|时延|duration|latency|延迟|elapsed|wall|runtime|\b(?:secs?|seconds|minutes|mins?|hours|msec|ms)\b
time        _(?:s|ms|secs?|seconds|minutes|hours)\b|[\(\[](?:s|ms|us|µs|μs|min|h|hrs?|秒|分钟?|小时|毫秒)[\)\]]
time        \b<clock>\s*(?:/|per)\s*<thing>|(?:秒|分钟|小时)
batch       batch(?!\w*\s*(?:/|per)\s*s)|\bbs\b|\bmbs\b|\bgbs\b|批
total       ^\W*(?:n|total|总数|样本总数|总样本)\W*$
total       (?:test|eval|val)\w*[ _](?:samples|images|size|set size|sentences|examples|n\b)
total       测试(?:样本|集)(?:数|大小|数量)?|#\s*test|n_test
samples     ^\W*(?:#|n(?:um)?[._ ]|total |number of )?\s*(?:samples|images|tokens|examples)\W*(?:\(?total\)?)?$
samples     ^\W*(?:#|n(?:um)?[._ ]|total |number of )?\s*(?:sequences|sentences|frames|records)\W*(?:\(?total\)?)?$
samples     样本数|样本量|数据量|图片数|dataset size|trained samples
count       gpus?\b(?! (?:model|type|name|kind|型号|arch))|gpu ?(?:数|数量|个数|count|num)|\bn?gpus?\b|卡数|显卡数
count       процесс|поток|узл|\bhilos\b|\bprocesos\b|devices?\b|设备(?:数|数量|个数)|process(?:es)?\b|\bprocs?\b|进程
count       \branks?\b|world[_ -]?size|workers?\b|\bnodes?\b|节点|机器数|\bnp\b|nproc|\bcores?\b|threads?\b|核数
count       核心数|线程|\bcards?\b|\btpus?\b|accelerators?\b|chips?\b|layout|并行数|并行度|parallelism|\bdp\b
count       machines?\b|hosts?\b|npus?\b|^\W*(?:[pn]|count|number|数量)\W*$|hardware|硬件|配置|config|setup
count       环境|实验|显卡
""".replace("<thing>", _THING).replace("<clock>", _CLOCK)
"""What the headings of a role hold; the first line that fits says the role."""
_NOUNS = re.compile(
    r"(?:energy|power|watts?|costs?|price|memory|mem|vram|param(?:s|eters?)?|flops?|loss(?:es)?|utili[sz]ation|util"
    r"|perplexity|ppl|bleu|rouge|f1|map|iou|temperature|learning rate|lr|seed|version|date|std|stdev|dev"
    r"|deviation|variance|ci|interval|wer|cer|score)",
    re.IGNORECASE,
)
"""What a column holds that is no time, no throughput and no ratio, if it is the noun of its heading.

`Loss after 2 hours` is one of these; a word inside, as in `Low-power time (s)`, decides nothing.
"""
_AFTER_NOUN = re.compile(
    r"\s*[(\[].*|\s+(?:after|at|per|for|with|on|in|of|by|to|vs\.?|over|from|under|@)\s.*|\s+[-–:|]\s.*|\s*[,/:].*",
    re.IGNORECASE,
)
_EXPLICIT = re.compile(
    r"speed[- _]?up|relative speed|ускорен|эффективн"
    r"|加速比|加速倍|\beff\b(?!-)|效率|efficiency|beschleunigung|acc[ée]l[ée]ration",
    re.IGNORECASE,
)
_ASSUMED = r"""
theory      theor|ideal|\blinear|perfect|amdahl|gustafson|\bmodel+ed|\bmax(?:imum|imal)?\b|理论|理想|线性|最大
prediction  predict|\bproject(?:ed|ion)|estimat|expect|simulat|extrapolat|预期|预测|预计|估计|模拟|仿真
target      \btarget|\bgoal|目标
others      \bpaper\b|\breported|\bpublished|\bclaimed|\boriginal|论文|文献|\[\d{1,3}\]
"""
"""Words for numbers that were not measured here."""
_OF_IDEAL = re.compile(
    r"(?:\bof|\bvs\.?|\bto|\bagainst|/)\s*(?:the\s+)?(?:theor\w*|ideal|linear|perfect|max\w*)\b", re.IGNORECASE
)
_SYMBOLS = {
    Role.TIME: {"T", "T(p)", "T(n)", "T(N)", "T_p", "Tp", "t", "s", "ms", "us", "h", "min", "sec"}
    | {"h:mm:ss", "hh:mm:ss", "mm:ss"},
    Role.SPEEDUP: {"S", "S(p)", "S(n)", "S(N)", "S_p", "Sp", "x", "×"},
    Role.EFFICIENCY: {"E", "E(p)", "E(n)", "E(N)", "E_p", "Ep"},
    Role.COUNT: {"p", "P", "np", "#"},
}  # fmt: skip
_INTERVAL = re.compile(r"\[\s*\d+\s*%[^\]]*\]|\(\s*\d+\s*%\s*(?:ci|conf)[^)]*\)|±\s*\w*", re.IGNORECASE)
_UNIT = re.compile(
    r"[(\[]\s*([^()\[\]]{1,24})\s*[)\]]|[,:]\s*([a-zµ%/]{1,12})$|_([a-z]{1,7})$|\bin ([a-z/]+)$", re.IGNORECASE
)
_WITHOUT_UNIT = re.compile(r"(?:,\s*|\s+in\s+|\s*\[|\s+\()[\w%:µ/]+[\])]?$")
_WORDS = re.compile(r"毫秒|分钟|小时|秒|[a-zµ]+\s*(?:/|\bper\b)\s*[a-z]+|[a-zµ]{2,}", re.IGNORECASE)


def _patterns(lines: str) -> list[tuple[str, re.Pattern[str]]]:
    """Read lines of a name and a pattern."""
    pairs = [line.split(maxsplit=1) for line in lines.strip().splitlines()]
    return [(name, re.compile(pattern, re.IGNORECASE)) for name, pattern in pairs]


_ROLE_PATTERNS, _ASSUMED_PATTERNS = _patterns(_RULES), _patterns(_ASSUMED)


def role_of(heading: str) -> Role:
    """Return the role that a heading names; `UNKNOWN` if it names none."""
    words = _INTERVAL.sub("", plain(heading)).strip()
    for role, symbols in _SYMBOLS.items():
        if words in symbols or _WITHOUT_UNIT.sub("", words) in symbols:
            return role
    words = words.lower()
    noun = _AFTER_NOUN.sub("", words.replace("_", " ")).strip("# *`").rpartition(" ")[2]
    if _NOUNS.fullmatch(noun.rpartition("-")[2]):
        return Role.OTHER
    both = (words, words.replace("_", " "), words.replace("_", " _"))
    found = (name for name, pattern in _ROLE_PATTERNS if any(pattern.search(form) for form in both))
    return Role(next(found, Role.UNKNOWN))


def is_explicit(heading: str) -> bool:
    """Return whether a heading says outright that a column is a speed-up or an efficiency."""
    words = plain(heading)
    return bool(_EXPLICIT.search(words)) or any(words in _SYMBOLS[role] for role in (Role.SPEEDUP, Role.EFFICIENCY))


def assumed(heading: str) -> str:
    """Return by which kind of word a heading says that its numbers were not measured here; empty if by none.

    An efficiency of the ideal is measured.
    """
    words = plain(heading)
    if role_of(heading) is Role.EFFICIENCY:
        words = _OF_IDEAL.sub("", words)
    return next((word for word, pattern in _ASSUMED_PATTERNS if pattern.search(words)), "")


def heading_unit(heading: str) -> tuple[str, float]:
    """Return the kind and scale of the unit that a heading states, for example of `Time (ms)`."""
    words = _INTERVAL.sub("", plain(heading)).strip()
    pieces = [next(group for group in found.groups() if group) for found in _UNIT.finditer(words)]
    for piece in [words, *pieces, *_WORDS.findall(words)]:
        kind, scale = unit_of(piece)
        if kind not in ("", "other"):
            return kind, scale
    return ("percent", 1.0) if "%" in words else ("", 1.0)
