"""Secrets in what a record takes from the raw files: masked, as far as they are known or show themselves.

A record that is parsed again does not know the values that were masked at the start. A program of the kit prints its
args, so they are learnt from there; if one is not, every text that the record would quote is withheld.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from runner.core.secret_values import Masker, secrets_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.records.schema import Failure, Record

WITHHELD = "withheld: an arg is masked, and may stand in it; raw/ has it"
_ARGS = ("args.", "axes.")
_PLAIN = ("host", "device", "device_name", "machine", "python", "torch", "cuda", "nccl", "backend", "env")
"""Facts that a process has from its machine and its libraries, and not from its args."""


def mask_record(record: Record, known: Iterable[str]) -> None:
    """Mask what a record has from its raw files; its launch is masked already.

    Args:
        record: it is changed.
        known: the secrets of the run, as far as they are known.
    """
    masked = {name.rpartition(".")[2] for name in record.launch.masked if name.startswith(_ARGS)}
    parsed = (record.ranks, record.facts, record.epochs, record.evaluations, record.load, record.printed)
    texts = (record.malformed, record.doubts, record.failure, record.outcome)
    encoded = msgspec.json.encode((parsed, texts))
    if not masked and not Masker(known).may_apply(encoded):
        return
    learnt = secrets_in([rank.facts for rank in record.ranks[:1]])
    values = [*known, *(value for found in learnt.values() for value in found)]
    masker = Masker(values)
    for rank in record.ranks:
        rank.facts, rank.error = masker.tree(rank.facts), _text(masker, rank.error)
    for name in ("facts", "epochs", "evaluations", "load", "printed", "malformed", "doubts"):
        setattr(record, name, masker.tree(getattr(record, name), assigned=True))
    if record.failure:
        _mask_failure(record.failure, masker)
    if record.outcome:
        record.outcome.stopped_because = _text(masker, record.outcome.stopped_because)
        for one in record.outcome.exits:
            one.why, one.place = _text(masker, one.why), masker.tree(one.place, named=False)
    if masked - {name.rpartition(".")[2] for name in learnt} and not tuple(known):
        _withhold(record)


def _mask_failure(failure: Failure, masker: Masker) -> None:
    failure.cause = _text(masker, failure.cause)
    failure.last_lines = masker.text("\n".join(failure.last_lines), assigned=True).split("\n")


def _withhold(record: Record) -> None:
    """Leave out every text of the processes: one of them may quote a secret that nobody knows here."""
    for rank in record.ranks:
        rank.error = rank.error and WITHHELD
        rank.facts = _without_texts(rank.facts)
    record.facts = _without_texts(record.facts)
    if record.printed.get("notes"):
        record.printed = {**record.printed, "notes": [WITHHELD]}
    record.malformed = [WITHHELD] if record.malformed else []
    record.doubts = [WITHHELD] if record.doubts else []
    if record.failure:
        record.failure.cause = record.failure.cause and WITHHELD
        record.failure.last_lines = [WITHHELD] if record.failure.last_lines else []


def _without_texts(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in facts.items()
        if name in _PLAIN or name.endswith("_sha256") or not isinstance(value, str | dict | list)
    }


def _text(masker: Masker, text: str | None) -> str | None:
    return text and masker.text(text, assigned=True)
