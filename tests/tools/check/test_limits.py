"""What a verdict does not speak of, and what is noted of it, from the events of ranks."""

from typing import Any

import pytest

from runner.tools.check.checking import not_checked
from runner.tools.check.judge_evaluation import judge_prints
from runner.tools.check.mistakes import Verdict
from runner.tools.check.observation import Rank

PLACE = [["train.py", 9, "main"]]


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "place": PLACE, **fields}


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (event("clip"), ["clipping"]),
        (event("scheduler"), ["learning rates"]),
        (event("wrote", path="/tmp/model.pt"), ["model.pt"]),
        (event("collective", name="all_reduce", elements=1, gradient=False), ["train.py:9"]),
        (event("collective", name="all_reduce", elements=1, gradient=True), []),
        (event("collective", name="broadcast", elements=1, gradient=False), []),
    ],
)
def test_only_parts_that_a_training_has_are_named_as_not_compared(seen: dict[str, Any], words: list[str]) -> None:
    ranks = [Rank(rank, 2, [event("step", step=0, optimizer=0, rate=[0.1]), seen]) for rank in (0, 1)]
    ranks[0].__dict__["trainings"] = []
    named = not_checked(ranks[0], ranks)
    assert len(named) == len(words)
    assert all(map(str.__contains__, named, words))


@pytest.mark.parametrize(
    ("text", "kinds"), [("loss {}", ["wrong-loss-print"]), ("Rank 0, loss {}", []), ("[{rank}] loss {}", [])]
)
def test_a_loss_with_the_name_of_its_rank_is_no_wrong_print(text: str, kinds: list[str]) -> None:
    verdict, ranks = Verdict(), []
    for rank, value in enumerate((0.25, 0.75)):
        events = [event("backward", value=value), event("print", text=text.format(value, rank=rank))]
        ranks.append(Rank(rank, 2, events))
    judge_prints(ranks, verdict)
    assert [finding.kind for finding in verdict.findings] == kinds
