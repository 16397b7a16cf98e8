"""Lines that no dialect knows, of any kind: read or not, within bounds, and the same whatever stands before them."""

import io
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.logs.explanation import Explanation
from runner.logs.reading import read_stream
from runner.logs.summary import summary
from tests.fuzz.sizes import LOGS, MOST_SECONDS

pytestmark = pytest.mark.slow

WORDS = ["epoch", "Epoch", "step", "iter", "loss", "train_loss", "val_acc", "valid", "Test", "accuracy", "total time"]
WORDS += ["epochs", "acc1", "best", "ppl", "F1 score", "Rank", "avg", "Loss (Avg", "xent", "total images/sec"]
MARKS = [*" \t[](){}/%\r\n'", '"', ": ", "=", " = ", " | ", ", ", "##", "\n\n"]
NUMBERS = "0 1 2 3/20 [3/20] 0.5 1e-5 1e999 nan inf -1 1,234 0,5 97.1% 0:03:59 12.5s ٣ 1.2.3 5e 000 2.0 1/0 nan/5 .5 +3"
NUMBERS = [*NUMBERS.split(), "9" * 25, "56h 8m"]
PARTS = st.one_of(st.sampled_from(WORDS), st.sampled_from(MARKS), st.sampled_from(NUMBERS), st.text(max_size=4))
LINES = st.lists(PARTS, max_size=14).map("".join)


@given(st.lists(LINES, max_size=6), st.integers(1, 4), st.booleans())
@settings(max_examples=LOGS, deadline=None)
def test_any_lines_are_read_without_a_defect(lines: list[str], times: int, explains: bool) -> None:
    data = "\n".join(line for line in lines for _ in range(times)).encode("utf-8", "replace")
    explanation = Explanation() if explains else None
    begun = time.process_time()
    log = summary("a.log", read_stream(io.BytesIO(data).read, explanation=explanation))
    assert time.process_time() - begun < MOST_SECONDS
    json.dumps(log, allow_nan=False)
    assert all(len(line) < 1_000 for line in (explanation.lines(log["dialects"]) if explanation else ()))
