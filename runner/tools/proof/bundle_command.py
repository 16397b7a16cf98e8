"""`runner bundle`."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import project_root_or_here
from runner.cli.printing import say, show


def bundle(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="The folder of the records, or of one run.")
    ] = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The archive.")] = Path("kit.tar"),
    code: Annotated[
        bool,
        typer.Option(help="Include the project's files at each commit; not needed by readers who have the repository."),
    ] = True,
) -> None:
    """Make one archive of the records that others can check.

    It also holds the code, the tables, and a README that lists what is left out. Secrets are masked. The same results
    always give the same bytes. Then: runner verify kit.tar, runner summarize kit.tar.
    """
    import hashlib

    from runner.tools.proof.bundle import write_bundle
    from trainkit.files import open_file

    write_bundle(results, project_root_or_here(), output, say, code=code)
    with open_file(output) as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
        show(f"{output}: {file.tell():,} bytes, sha256 {digest.hexdigest()}")
