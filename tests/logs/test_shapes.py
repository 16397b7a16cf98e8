"""Of many lines of one kind few are read, and a log says the same as if each line were."""

import io
import random
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.logs import lines, origin, reading, scan
from runner.logs.dialect import Pattern, built_in
from runner.logs.lines import Block
from runner.logs.pattern import for_any_digits
from runner.logs.reading import Reading, read_stream
from runner.logs.scan import Scanner
from tests.support.logs import read_text

PATTERNS = [pattern for dialect in built_in() for pattern in dialect.patterns]
# {e}: an epoch, {n}: a place in it, {v}: a value, {h}: a value of any form
LINES = [
    "Train Epoch: {e} [{n}/60000 ({n}%)]\tloss={h} Train Epoch: {e} [{n}/60000 (1%)]\tLoss: 0.{v}",
    "\nTest set: Average loss: 0.{v}, Accuracy: {v}/10000 (98%)\n",
    "{{'loss': {h}, 'grad_norm': 1.{v}, 'learning_rate': 4.9e-05, 'epoch': {e}.{n}}}",
    "step:{n}/99 train_loss:{h} train_time:{v}ms step_avg:{h}ms",
    "Epoch {e}",
    "Epoch {e}/{v}, Loss: 0,{v}",
    "Epoch {e}: {n}%|████| {n}/100 [00:10<00:0{v}, 9it/s, train_loss=0.{v}, val_loss=0.{v}, val_acc=0.{v}]",
    "$ torchrun --nproc-per-node {v} train.py",
    "  File \"train.py\", line {v}\n    dist.init_process_group('nccl')",
    "Traceback (most recent call last):",
    "RuntimeError: CUDA out of memory {v}",
    "Exception ignored in: <function {v}>\nTraceback (most recent call last):\nAssertionError: x{v}",
    "Saved model to ckpt_{e}.pt",
    "Training time: {h} s",
    "node{v}-1 exited with code {n}",
    "Training completed in {h} seconds",
    ':::MLLOG {{"time_ms": 17{v}, "key": "epoch_start", "value": null, "metadata": {{"epoch_num": {e}}}}}',
    ':::MLLOG {{"time_ms": 17{v}, "key": "eval_accuracy", "value": 0.{v}, "metadata": {{"epoch_num": {e}}}}}',
    ':::MLLOG {{"time_ms": 17{v}, "key": "tracked_stats", "value": {{"loss": {v}}}, "metadata": {{}}}}',
    "loss of words {v}",
]


def template(example: str) -> str:
    """Return a line of a dialect with other numbers: the first may be an epoch, and the last has any form.

    One that begins with a time stamp stays as it is: with any numbers it would be none.
    """
    if origin.split(example)[0].kinds:
        return example.replace("{", "{{").replace("}", "}}")
    words = re.sub(r"\d+", "{v}", example.replace("{", "{{").replace("}", "}}"))
    first, *others = words.split("{v}")
    fields = ["{e}", *["{n}", "{v}"] * len(others)][: max(0, len(others) - 1)] + ["{h}"] * bool(others)
    return first + "".join(field + text for field, text in zip(fields, others, strict=True))


LINES += [template(pattern.example) for pattern in PATTERNS]
PREFIXES = [
    "",
    "",
    "[rank{w}]: ",
    "mnist-worker-{w}  | ",
    "[1,{w}]<stdout>",
    "[PID 7{w}] ",
    "2024-10-08T13:25:{s}Z INFO     ",
    "[2024-10-08 1{w}:{s}:29,123] [rank{w}]: ",
    "[2024-10-08 1{w}:{s}:29,123][train][INFO] - ",
    "I1008 10:{s}:00.12345{w} 14{w} train.py:160] ",
    "2024-10-08T13:25:{s}.12345678{w}Z stdout F ",
    "Oct 08 10:{s}:00 node17 python[12{w}]: ",
    "[10:{s}:06] INFO     ",
    "mnist-worker-{w} pytorch ",
]
ODD = [["nan", "inf"], ["1e100", "1e999"], ["2.5E+00", "1e-07", "1e5"], ["1,234", ".5", "123456789012345678901"]]
ENDS = ["\n"] * 30 + ["\r", "\r\n", "", "torn"]


def log(seed: int, count: int) -> bytes:
    """Lines of few kinds in any order, so that many are alike: of few writers, and the epoch changes now and then."""
    dice = random.Random(seed)
    kinds = [(dice.choice(LINES), dice.choice(PREFIXES)) for _ in range(dice.randint(1, 4))]
    odd, change, writers = dice.choice([0, 0, 0.05, 0.5]), dice.choice([0.02, 0.1, 0.5]), dice.randint(1, 3)
    forms = dice.choice(ODD)
    ends = ENDS if dice.random() < 0.3 else ["\n"]
    epoch, place, texts = 1, 10, []
    for _ in range(count):
        template, prefix = dice.choice(kinds)
        if dice.random() < change:
            epoch = dice.choice([0, 1, 2, epoch + 1])
        place = max(0, place + dice.choice([-7, -1, 0, 0, 1, 2])) if dice.random() > odd else dice.choice([0, 99, 100])
        value = dice.randint(1, 3) * 11
        form = f"0.{value}" if dice.random() > odd else dice.choice(forms)
        second = dice.choice(["25", "26", "59"])
        words = template.format(e=epoch, n=place, v=value, h=form)
        end = dice.choice(ends)
        line = prefix.format(w=dice.randint(1, writers), s=second) + words
        texts.append(line[: dice.randint(0, len(line))] + "\n" if end == "torn" else line + end)
    return "".join(texts).encode() + dice.choice([b"", b"\xff torn loss: 0.5"])


class LineByLine(Scanner):
    """Reads each line in which a pattern's fixed text stands."""

    def lines(self, text: bytes, *, at_end: bool) -> Iterator[tuple[int, bytes, list[Pattern], int]]:
        start = 0
        fragments = self.fragments(at_end=at_end)
        for line in text.split(b"\n"):
            found = [fragment for fragment in fragments if fragment in line]
            pairs = [] if b":::ML" in line else [pair for fragment in found for pair in fragments[fragment]]
            patterns = [pattern for literal, pattern in pairs if literal in line]
            is_event = b":::ML" in line and scan.is_event_of_use(line)
            if patterns or (found and (is_event if b":::ML" in line else self._is_general)):
                yield start, line, patterns, 1
            start += len(line) + 1


def read(data: bytes, *, block: int = 1 << 18, dense: int = 20, ends: int = 4, plain: bool = False) -> Reading:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        patch.setattr(scan, "_DENSE", dense)
        patch.setattr(scan, "ENDS", ends)
        patch.setattr(reading, "Scanner", LineByLine if plain else Scanner)
        return read_stream(io.BytesIO(data).read)


@given(st.integers(0, 1 << 64), st.integers(0, 60), st.sampled_from([70, 400, 3_000, 1 << 18]))
@settings(max_examples=150, deadline=None)
def test_a_log_says_what_it_says_line_by_line(seed: int, count: int, block: int) -> None:
    data = log(seed, count)
    dense, ends = (0, 1_000)[seed % 2], (1, 4)[seed // 2 % 2]
    fast, plain = (read(data, block=block, dense=dense, ends=ends, plain=is_plain) for is_plain in (False, True))
    assert repr(fast) == repr(plain)  # nan is not equal to itself


def test_a_log_with_digits_of_other_scripts_says_what_it_says_line_by_line() -> None:
    for seed in range(40):
        data = log(seed, 40).decode("utf-8", "replace").translate({ord("2"): "\uff12", ord("3"): "\u0663"}).encode()
        assert repr(read(data)) == repr(read(data, plain=True)), seed


def test_a_pattern_is_known_to_look_at_the_digits_or_not() -> None:
    for pattern in PATTERNS:
        text = origin.split(pattern.example)[1]
        wide = for_any_digits(pattern.regex)
        for digit in "0123456789":
            other = re.sub(r"\d", digit, text)
            assert wide.search(other), pattern.example
            if wide is pattern.regex:
                found, again = pattern.regex.search(text), pattern.regex.search(other)
                assert found
                assert again
                assert found.regs == again.regs, pattern.example


@pytest.mark.parametrize(
    "line", ["Train Epoch: 1 [{0}/60000 (1%)]\tLoss: 0.{0}\n", "{{'loss': 0.{0}, 'epoch': 0.{0}}}\n"]
)
def test_most_lines_of_one_kind_are_not_read(line: str) -> None:
    scanner = Scanner(PATTERNS)
    data = "".join(line.format(number) for number in range(10_000, 14_000)).encode()
    found = list(scanner.candidates(Block(data, 1), at_end=True))
    assert len(found) < 10
    assert sum(candidate.lines for candidate in found) == 4_000
    assert (found[0].line, found[-1].line) == (1, 4_000)


def test_time_stamps_that_are_none_leave_the_others_of_their_shape() -> None:
    right = [f"2024-03-01 10:{minute:02}:00" for minute in range(10, 20)]
    stamps = ["2024-02-30 10:00:00", *right, "2024-03-01 24:00:00"]
    log = "".join(f"{stamp} step {number} loss: 0.{number:02}\n" for number, stamp in enumerate(stamps, 10))
    found = read_text(log)["timestamps_span_s"]
    assert found["value"] == 540
