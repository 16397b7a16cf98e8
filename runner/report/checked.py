"""What `runner check` said of an experiment, beside its claims."""

from runner.core.text import one_line
from runner.records.checked import Check
from runner.report.rows import Block


def checked_notes(block: Block) -> list[str]:
    """Say of each row with several processes whether it was checked that they train what one trains."""
    checks: dict[str, Check] = block.definition.get("checked", {})
    found = []
    for row in block.rows:
        check = checks.get(str(row.first.processes))
        if check is None or check.program != row.first.program:
            continue
        said = {"same": "same training", "differs": f"another training than one process: {'; '.join(check.mistakes)}"}
        what = said.get(check.verdict, "whether it is the same training could not be seen")
        if check.sources_sha256 not in row.first.same["code"].split():
            what = f"{what}, but with other code than that of these runs"
        own = {**row.first.args, **row.first.axes}
        if others := [f"{key}={value}" for key, value in check.args.items() if key in own and own[key] != value]:
            what = f"{what}; it was checked with {' '.join(others)}"
        found.append(one_line(f"{row.first.cell}: checked: {what}", 1000))
    return found
