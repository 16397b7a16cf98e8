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
    ("seen", "word"),
    [
        (event("clip"), "clipping"),
        (event("scheduler"), "learning rates"),
        (event("wrote", path="/tmp/model.pt"), "model.pt"),
        (event("collective", name="all_reduce", elements=1, gradient=False), "train.py:9"),
        (event("collective", name="all_reduce", elements=1, gradient=True), None),
        (event("collective", name="broadcast", elements=1, gradient=False), None),
    ],
)
def test_only_what_a_training_has_is_named_as_not_compared(seen: dict[str, Any], word: str | None) -> None:
    ranks = [Rank(rank, 2, [event("step", step=0, optimizer=0, rate=[0.1])]) for rank in (0, 1)]
    ranks[0].__dict__["trainings"] = []
    assert not_checked(ranks[0], ranks) == []
    ranks[0].events.append(seen)
    assert [word in text for text in not_checked(ranks[0], ranks) if word] == [True] * bool(word)


@pytest.mark.parametrize(
    ("texts", "kinds"),
    [
        (["loss 0.25", "loss 0.75"], ["wrong-loss-print"]),
        (["Rank 0, loss 0.25", "Rank 1, loss 0.75"], []),
        (["[0] loss 0.25", "[1] loss 0.75"], []),
    ],
)
def test_a_loss_with_the_name_of_its_rank_is_no_wrong_print(texts: list[str], kinds: list[str]) -> None:
    verdict = Verdict()
    ranks = [
        Rank(rank, 2, [event("backward", value=value), event("print", text=texts[rank])])
        for rank, value in enumerate((0.25, 0.75))
    ]
    judge_prints(ranks, verdict)
    assert [finding.kind for finding in verdict.findings] == kinds
