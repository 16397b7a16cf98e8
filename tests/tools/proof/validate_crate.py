"""Run the RO-Crate validator on a folder without a network: the context that it fetches is in the package rocrate.

It is run by the Python of an environment that has `roc-validator` and `rocrate`: python validate_crate.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import rocrate  # type: ignore[import-not-found]
from rdflib.plugins.shared.jsonld.context import Context  # type: ignore[import-not-found]
from rocrate_validator import models, services  # type: ignore[import-not-found]

ADDRESS = "https://w3id.org/ro/crate/1.1/context"
FETCHED = ("ro-crate-1.1_3.1", "ro-crate-1.1_3.2")
"""The checks that fetch the context by a way of their own: whether its address answers says nothing of a crate."""
CONTEXT = json.loads((Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_text("utf-8"))
fetch = Context._fetch_context


def from_the_package(self: Any, source: str, base: str | None, referenced_contexts: set[str]) -> Any:
    return CONTEXT if source == ADDRESS else fetch(self, source, base, referenced_contexts)


Context._fetch_context = from_the_package
settings = services.ValidationSettings(
    rocrate_uri=sys.argv[1], profile_identifier="process-run-crate", requirement_severity=models.Severity.REQUIRED
)
result = services.validate(settings)
issues = [issue for issue in result.get_issues() if issue.check.identifier not in FETCHED]
for issue in issues:
    print(f"{issue.severity.name}: {issue.check.identifier}: {issue.message}")
print(f"checked: {len(result.executed_checks)}")
sys.exit(bool(issues))
