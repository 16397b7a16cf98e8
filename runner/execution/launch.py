"""Describe a run before its start: Run -> Launch."""

import hashlib
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from runner.core.secrets import mask_text
from runner.core.values import spell_non_finite
from runner.definitions.plan import Run
from runner.records import provenance
from runner.records.folder import new_id
from runner.records.schema import SCHEMA, Launch
from runner.targets.base import NodeSpec, axes_of

DIFF = "request/code.diff"


def describe_surroundings(run: Run) -> tuple[dict[str, Any], str]:
    """Return a description of this runner, machine and code, and the uncommitted diff without secrets."""
    root = run.experiment.root
    code, diff = provenance.describe_code(root, run.cell.program.sources(root))
    kept = mask_text(diff)
    if kept != diff and _sha256(diff) == code.get("diff_sha256"):  # a truncated diff keeps the whole diff's hash
        code["diff_sha256"] = _sha256(kept)
    described = {"runner": provenance.describe_runner(), "host": provenance.describe_host(), "code": code}
    return {**described, "masked": [DIFF] if kept != diff else []}, kept


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def describe_launch(
    run: Run, target: str, nodes: list[NodeSpec], surroundings: dict[str, Any], options: Any = None
) -> Launch:
    """Return a Launch that describes how a run will be started. Target options without a value are left out."""
    experiment, cell = run.experiment, run.cell
    chosen = {name: value for name, value in asdict(options).items() if value not in (None, "")} if options else {}
    return Launch(
        schema=SCHEMA,
        id=new_id(target),
        experiment=experiment.name,
        target=target,
        layout=str(cell.layout),
        axes=spell_non_finite(cell.axes),
        repeat=run.repeat,
        repeats=run.repeats,
        program=cell.program.name,
        args=spell_non_finite(cell.args),
        scaling=experiment.scaling,
        measure=experiment.measure,
        device=run.device,
        timeout_seconds=experiment.timeout_seconds,
        patience_seconds=experiment.patience_seconds,
        definition=spell_non_finite(experiment.resolved()),
        definition_sha256=experiment.sha256(),
        argv=[node.argv for node in nodes],
        started=utc_now(),
        options=chosen,
        option_axes=axes_of(options) if options else {},
        dialects=experiment.dialects,
        metrics=experiment.patterns,
        side=run.side,
        **surroundings,
    )


def utc_now() -> str:
    """Return the current time in the format of records."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
