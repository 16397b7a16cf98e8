"""A family of programs with its own data is one folder, and needs no other change."""

import pytest

from runner.core.errors import RequestError
from runner.definitions import data
from runner.definitions.experiment import files, load
from tests.support.projects import Project

PREPARE = '''
    """Bring two numbers to the data folder."""

    from trainkit.prepare import install, prepare_parser, say, start


    def main() -> None:
        parser = prepare_parser(__file__, __doc__)
        parser.add_argument("--numbers", default="1 2")
        args = parser.parse_args()
        install(args.data_dir / "line", args.source.name, {"numbers.txt": args.numbers.encode()})
        say("two numbers")


    if __name__ == "__main__":
        start(main)
'''
PROGRAM = '''
    """Add up the numbers, in as many processes as one likes."""

    from pathlib import Path

    from trainkit.arguments import add_data_dir, data_folder, program_parser
    from trainkit.prepare import read_prepared
    from trainkit.run import running


    def main() -> None:
        parser = program_parser(__doc__)
        add_data_dir(parser, data_folder(__file__), "the numbers are in its folder line/")
        args = parser.parse_args()
        with running("line.fit", args) as run:
            folder = Path(args.data_dir) / "line"
            source, _ = read_prepared(folder)
            with run.phase("train") as clock:
                total = sum(map(float, (folder / "numbers.txt").read_text().split()))
            run.log.point("dataset", source)
            run.log.point("tracked_stats", {"train_seconds": clock.stop_clock() + 1e-6, "final_loss": total})


    if __name__ == "__main__":
        main()
'''


def test_an_experiment_with_its_own_data_is_one_folder_and_touches_nothing_else(project: Project) -> None:
    before = {path: path.stat().st_mtime_ns for path in project.root.rglob("*") if path.is_file()}
    folder = project.program("line.prepare", PREPARE).parent
    project.program("line.fit", PROGRAM)
    (folder / "__init__.py").unlink()
    written = project.define(name="line", program="line.fit", data="line", matrix={"layout": ["1x1"]})
    written.rename(folder / "line.yaml")
    assert data.families(project.root) == ["line"]
    assert "line" in [path.stem for path in files(project.root)]
    (project.root.parent / "source").mkdir()
    assert project.runner("prepare", "line", "--help").stdout.startswith("usage: runner prepare line")
    prepared = project.runner("prepare", "line", "--from", "../source", "--numbers", "3 4")
    assert (prepared.code, prepared.stderr) == (0, "two numbers\n")
    project.runner("run", "line")
    record = project.record(*project.runs("line"))
    assert (record["status"], record["metrics"]["final_loss"]) == ("completed", 7.0)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_data_is_part_of_the_resolved_definition_if_a_family_prepares_it(project: Project) -> None:
    project.program("line.prepare", "")
    for family in ("lime", "toys", "../line", "toys.ok"):
        with pytest.raises(RequestError, match="no family prepares the data"):
            load(project.define(data=family), project.root)
    assert load(project.define(data="line"), project.root).resolved()["data"] == "line"
    assert "data" not in load(project.define(), project.root).resolved()
