"""Secrets of a run: the processes get them, and its record, its request and its changes show a mask instead."""

import hashlib
from dataclasses import replace

from runner.core.masking import Masker
from runner.core.secrets import secrets_in
from runner.definitions.definition import hash_resolved
from runner.definitions.plan import Run
from runner.records.schema import Launch

DIFF = "request/code.diff"


class Masked:
    """A run as its record shows it.

    Args:
        run: the run as it is started.

    `run` is the same one with every secret masked in its args, so that a target's spec of it, which is pure, is the
    request to keep; `found` are the names of what was masked, and `values` the secrets.
    """

    def __init__(self, run: Run) -> None:
        cell = run.cell
        secrets = secrets_in({"args": cell.args, "axes": cell.axes, "definition": run.experiment.resolved()})
        self.found = list(secrets)
        self.values = tuple(dict.fromkeys(value for values in secrets.values() for value in values))
        self.masker = Masker(self.values)
        if self.found:
            args, axes = self.masker.tree(cell.args), self.masker.tree(cell.axes)
            run = replace(run, cell=replace(cell, args=args, axes=axes))
        self.run = run

    def apply(self, launch: Launch, request: str, diff: str) -> tuple[str, str]:
        """Mask what else is known before the start, and name it in `launch.masked`; return the request and the changes.

        Args:
            launch: of `run`; it is changed.
            request: the text of the spec of `run`.
            diff: the uncommitted changes.
        """
        masker, masked = self.masker, list(self.found)
        if self.found:
            launch.definition = masker.tree(launch.definition)
            launch.definition_sha256 = hash_resolved(launch.definition)
            launch.dialects = masker.tree(launch.dialects, named=False)
        launch.options = masker.tree(launch.options, named=False)
        if launch.side:
            launch.side.label = masker.text(launch.side.label, assigned=True)
        kept = masker.text(diff, assigned=True)
        if kept != diff:
            masked.append(DIFF)
            whole = _sha256(diff) == launch.code.get("diff_sha256")  # else it is cut, and its hash is meant to say so
            launch.code = {**launch.code, **({"diff_sha256": _sha256(kept)} if whole else {})}
        launch.masked = masked
        return masker.text(request), kept


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
