"""The error rates of the audit, on tables made by chance as people print them, right ones and ones with an error."""

import re
from dataclasses import dataclass
from random import Random

from tests.tools.audit.test_tables import audited

TABLES = 250
HEADINGS = {
    "count": "GPUs|#GPUs|GPU 数量|卡数|Processes|World size|进程数|Number of GPUs|num_gpus|Devices|p|Workers",
    "time": "Time|耗时|训练时间|Training time|Wall time|Elapsed|Runtime|Epoch time|Duration|Total time|T(p)",
    "speedup": "Speedup|Speed-up|加速比|speed up|SpeedUp (x)|Speedup vs. 1 GPU|Relative speed|S(p)",
    "efficiency": "Efficiency|效率|扩展效率|Scaling efficiency|Parallel efficiency|Eff.|并行效率",
    "rate": "Throughput|img/s|samples/s|吞吐量|Images/sec|tokens/s|Throughput (samples/s)|图片/秒 (img/s)",
    "accuracy": "Accuracy|准确率|Test accuracy|Top-1|测试准确率|acc",
    "label": "Backend|Model|GPU|硬件|Framework|模型|Hardware|Precision|Strategy",
    "extra": "Memory (GB)|Loss|Batch size|显存|Power (W)|Params (M)|Notes|Learning rate",
}
LABELS = [
    ["NCCL", "Gloo", "MPI"],
    ["ResNet-50", "VGG16", "BERT-base"],
    ["A100", "V100", "RTX 3090"],
    ["fp32", "bf16", "amp"],
]
COUNTS = [
    [1, 2, 4, 8],
    [1, 2, 4],
    [1, 2],
    [2, 4, 8, 16],
    [8, 16, 32, 64, 128],
    [1, 2, 3, 4, 5, 6],
    [1, 4, 16, 64],
    [1, 8],
]
_DIFFERENT = 0.15


@dataclass
class Made:
    """A table: its columns by what they hold, the rows that others are compared with, and what a number is of."""

    headings: list[str]
    rows: list[list[str]]
    columns: dict[str, int]
    bases: list[int]
    total: int
    comma: bool


def spell(
    value: float, decimals: int, unit: str = "", *, comma: bool = False, grouped: bool = False, mark: str = ""
) -> str:
    text = f"{value:,.{decimals}f}" if grouped else f"{value:.{decimals}f}"
    if comma:
        text = text.replace(",", " ").replace(".", ",").replace(" ", ".")
    text += unit
    marks = {"bold": "**{}**", "code": "`{}`", "link": "[{}](https://x.test/a)", "note": "{}[^1]"}
    return marks.get(mark, "{}").format(text)


def clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def make(seed: int) -> Made:
    """Make a table whose derived numbers follow from unrounded ones, printed in one of many ways."""
    chance = Random(seed)
    groups = chance.choice([1, 1, 1, 2, 2, 3])
    counts = chance.choice(COUNTS)
    labels = chance.choice(LABELS)[:groups]
    weak = chance.random() < 0.25
    order = chance.choice(["up", "up", "up", "down", "shuffled"])
    scale = chance.choice([0.02, 3.0, 120.0, 9_000.0])
    cells = []
    for label in labels:
        base = scale * chance.uniform(0.6, 1.9)
        serial = chance.uniform(0.0, 0.25)
        block = []
        for count in counts:
            relative = count / counts[0]
            time = base * (serial + (1 - serial) / relative) * chance.uniform(0.97, 1.08 if relative > 1 else 1.0)
            if weak:
                time *= relative
            block.append({"label": label, "count": count, "time": time, "first": count == counts[0]})
        if order == "down":
            block.reverse()
        elif order == "shuffled":
            chance.shuffle(block)
        cells.append(block)
    if groups > 1 and order == "up" and chance.random() < 0.3:  # rows of one count side by side
        cells = [[block[row] for block in cells] for row in range(len(counts))]
    rows = [row for block in cells for row in block]
    return _print(chance, rows, groups, weak=weak)


def _print(chance: Random, rows: list[dict], groups: int, *, weak: bool) -> Made:  # noqa: C901, PLR0912, PLR0915
    comma = chance.random() < 0.15
    has_rate, has_time = chance.choice([(False, True), (False, True), (True, True), (True, False)])
    has_efficiency = chance.random() < 0.55
    has_speedup = not weak or chance.random() < 0.6
    has_efficiency |= not has_speedup
    samples = chance.choice([50_000, 60_000, 1_281_167, 10_000])
    by_label = {row["label"]: row for row in rows if row["first"]}
    for row in rows:
        base = by_label[row["label"]]
        relative = row["count"] / base["count"]
        work = samples * (relative if weak else 1)
        row["rate"] = work / row["time"]
        row["speedup"] = row["rate"] / samples * base["time"]
        row["efficiency"] = row["speedup"] / relative
    decimals = {
        "time": chance.choice([1, 2, 2, 3]) if rows[0]["time"] < 1000 else chance.choice([0, 1, 2]),
        "speedup": chance.choice([1, 2, 2, 3]),
        "rate": chance.choice([0, 1, 2]),
    }
    unit = chance.choice(["cell", "heading", "none"])
    clocked = min(row["time"] for row in rows) > 600 and chance.random() < 0.4
    milli = max(row["time"] for row in rows) < 2
    eff_style = chance.choice(["percent", "share", "bare"])
    suffix = chance.choice(["", "", "x", "×", " 倍"])
    mark = chance.choice(["", "", "", "bold", "code", "note", "link"])
    gap = chance.random() < 0.1
    names = ["count"] + (["label"] if groups > 1 or chance.random() < 0.3 else [])
    names += (["time"] if has_time else []) + (["rate"] if has_rate else [])
    names += (["speedup"] if has_speedup else []) + (["efficiency"] if has_efficiency else [])
    names += ["extra"] if chance.random() < 0.4 else []
    total = chance.choice([1067, 360, 2000, 10_000, 872])
    names += ["accuracy"] if chance.random() < 0.4 else []
    if chance.random() < 0.4:
        chance.shuffle(names)
    headings = {name: chance.choice(HEADINGS[name].split("|")) for name in names}
    time_unit = "ms" if milli else "s"
    if "time" in headings and unit == "heading" and not clocked:
        headings["time"] += chance.choice([f" ({time_unit})", f" [{time_unit}]", f", {time_unit}"])
    if "accuracy" in headings:
        headings["accuracy"] += chance.choice(
            [f" (N={total})", f" ({total} test images)", "", f" on {total} test samples"]
        )
    printed_rows = []
    for row in rows:
        printed = []
        for name in names:
            if name == "time":
                value = row["time"] * (1000 if milli else 1)
                ending = f"{chance.choice(['', ' '])}{time_unit}" if unit == "cell" else ""
                text = spell(value, decimals["time"], ending, comma=comma, grouped=value >= 1000)
                printed.append(clock(value) if clocked else text)
            elif name == "rate":
                printed.append(spell(row["rate"], decimals["rate"], comma=comma, grouped=True))
            elif name == "speedup":
                text = spell(row["speedup"], decimals["speedup"], suffix, comma=comma, mark=mark)
                printed.append("-" if gap and row["first"] else text)
            elif name == "efficiency":
                value = row["efficiency"]
                scale, digits, sign = {"percent": (100, 1, "%"), "share": (1, 2, ""), "bare": (100, 1, "")}[eff_style]
                printed.append(spell(scale * value, digits, sign, comma=comma))
            elif name == "accuracy":
                right = round(total * chance.uniform(0.8, 0.99))
                printed.append(spell(100 * right / total, 2, "%", comma=comma))
            elif name == "extra":
                printed.append(spell(chance.uniform(1, 40), 1, comma=comma))
            else:
                printed.append(str(row[name]))
        printed_rows.append(printed)
    columns = {name: place for place, name in enumerate(names)}
    bases = [place for place, row in enumerate(rows) if row["first"]]
    return Made([headings[name] for name in names], printed_rows, columns, bases, total, comma)


def markdown(made: Made) -> str:
    lines = ["| " + " | ".join(made.headings) + " |", "|" + "---|" * len(made.headings)]
    return "# Results\n\n" + "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in made.rows)]) + "\n"


def _number(text: str, comma: bool) -> float:
    digits = "".join(re.findall("[0-9.,]", text.partition("]")[0].partition("(")[0].replace("[^1", "")))
    return float(digits.replace(".", "").replace(",", ".") if comma else digits.replace(",", ""))


def spoil(made: Made, seed: int) -> tuple[int, int] | None:
    """Put one error in: a wrong or swapped speed-up, a wrong efficiency, an accuracy that no count gives.

    Returns the row and column of a cell that is wrong now, or None if the table has nothing to spoil.
    """
    chance = Random(seed)
    kinds = [kind for kind in ("speedup", "efficiency", "accuracy") if kind in made.columns]
    said = any(str(made.total) in heading for heading in made.headings)
    if "accuracy" in kinds and (made.total not in (360, 872, 1067) or not said):
        kinds.remove("accuracy")
    if not kinds:
        return None
    kind = chance.choice(kinds)
    column = made.columns[kind]
    rows = [row for row in range(len(made.rows)) if row not in made.bases and made.rows[row][column] != "-"]
    row = chance.choice(rows)
    text = made.rows[row][column]
    if kind == "accuracy":
        return _impossible(made, row, column)
    own = _number(text, made.comma)
    others = [other for other in rows if abs(_number(made.rows[other][column], made.comma) / own - 1) > _DIFFERENT]
    if others and chance.random() < 0.4:
        other = chance.choice(others)
        made.rows[row][column], made.rows[other][column] = made.rows[other][column], text
        return row, column
    wrong = own * chance.choice([0.6, 0.75, 1.3, 1.5, 1.8])
    digits = "".join(re.findall("[0-9.,]", text.replace("[^1]", "").partition("](")[0]))
    decimals = len(digits.rpartition("," if made.comma else ".")[2]) if ("," if made.comma else ".") in digits else 0
    made.rows[row][column] = text.replace(digits, spell(wrong, decimals, comma=made.comma), 1)
    return row, column


def _impossible(made: Made, row: int, column: int) -> tuple[int, int] | None:
    for hundredths in range(9_800, 8_000, -1):
        near = round(hundredths / 10_000 * made.total)
        if min(abs(k / made.total * 10_000 - hundredths) for k in (near - 1, near, near + 1)) > 2:
            made.rows[row][column] = spell(hundredths / 100, 2, "%", comma=made.comma)
            return row, column
    return None


def test_of_consistent_tables_at_most_1_percent_are_accused_and_nearly_all_are_checked() -> None:
    accused = empty = 0
    for seed in range(TABLES):
        findings = audited(markdown(make(seed))).findings
        accused += any(finding.wrong for finding in findings)
        empty += not findings
    assert accused <= 0.01 * TABLES
    assert empty <= 0.1 * TABLES


def test_of_tables_with_one_error_at_least_95_percent_are_found_at_the_cell() -> None:
    found = tables = others = 0
    for seed in range(TABLES):
        made = make(seed)
        before = [list(row) for row in made.rows]
        cell = spoil(made, seed)
        if cell is None:
            continue
        tables += 1
        findings = audited(markdown(made)).findings
        wrong = {(finding.row - 1, finding.column) for finding in findings if finding.wrong}
        found += (cell[0], made.headings[cell[1]]) in wrong
        changed = sum(
            old != new for was, now in zip(before, made.rows, strict=True) for old, new in zip(was, now, strict=True)
        )
        others += len(wrong) > changed
    assert tables > 0.8 * TABLES
    assert found >= 0.95 * tables
    assert others <= 0.02 * tables
