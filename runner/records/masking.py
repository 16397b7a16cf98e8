"""Secrets in what a record takes from the raw files: masked, as far as they are known or show themselves.

A record that is parsed again does not know the values that were masked at the start. A program of the kit prints its
args, so they are learnt from there; if one is not, every text that the record would quote is withheld.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from runner.core.masking import Masker
from runner.core.secrets import secrets_in
from runner.records.schema import NodeExit, Outcome, Record

WITHHELD = "withheld: an arg is masked, and may stand in it; raw/ has it"
_ARGS = ("args.", "axes.")
_RANKS = 1_000
_PLAIN = ("host", "device", "device_name", "machine", "python", "torch", "cuda", "nccl", "backend", "env")
"""Facts that a process has from its machine and its libraries, and not from its args."""


def mask_record(record: Record, known: Iterable[str]) -> None:
    """Mask what a record has from its raw files; its launch is masked already, and `known` are secrets of the run."""
    known = tuple(known)
    masked = {name.rpartition(".")[2] for name in record.launch.masked if name.startswith(_ARGS)}
    if not masked and not any(map(Masker(known).may_apply, _encoded(record))):
        return
    learnt = secrets_in([rank.facts for rank in record.ranks[:1]])
    masker = Masker([*known, *(value for found in learnt.values() for value in found)])
    for rank in record.ranks:
        rank.facts, rank.error = masker.tree(rank.facts), _text(masker, rank.error)
    for name in ("facts", "epochs", "evaluations", "load", "printed", "malformed", "doubts"):
        setattr(record, name, masker.tree(getattr(record, name), assigned=True))
    if failure := record.failure:
        failure.cause = _text(masker, failure.cause)
        if failure.last_lines:  # together: a secret may have several lines, as a private key has
            failure.last_lines = masker.text("\n".join(failure.last_lines), assigned=True).split("\n")
    if record.outcome:
        mask_outcome(record.outcome, masker)
    if masked - {name.rpartition(".")[2] for name in learnt} and not known:
        _withhold(record)


def _encoded(record: Record) -> Iterator[bytes]:
    """Encode what is looked at, in parts: a record of many ranks is large."""
    yield msgspec.json.encode((record.facts, record.epochs, record.evaluations, record.load, record.printed))
    yield msgspec.json.encode((record.malformed, record.doubts, record.failure, record.outcome))
    for first in range(0, len(record.ranks), _RANKS):
        yield msgspec.json.encode(record.ranks[first : first + _RANKS])


def mask_exit(ended: NodeExit, masker: Masker) -> None:
    """Mask how a node ended, before it is kept; it is changed."""
    ended.why, ended.stopped_because = _text(masker, ended.why), _text(masker, ended.stopped_because)
    ended.place = masker.tree(ended.place, named=False)


def mask_outcome(outcome: Outcome, masker: Masker) -> None:
    """Mask what was seen from outside, before it is kept; it is changed."""
    if not masker.may_apply(msgspec.json.encode(outcome)):
        return
    outcome.stopped_because = _text(masker, outcome.stopped_because)
    for ended in outcome.exits:
        mask_exit(ended, masker)
    if outcome.stuck:
        outcome.stuck.says = masker.tree(outcome.stuck.says, assigned=True)
        for rank in outcome.stuck.ranks:
            rank.words, rank.event = masker.text(rank.words, assigned=True), masker.text(rank.event, assigned=True)
            rank.stack = masker.tree(rank.stack, assigned=True)


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
