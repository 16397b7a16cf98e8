"""A family that brings its own data: one folder, and nothing else is touched."""

import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.definitions import data
from runner.definitions.experiment import files, load
from tests.support import fork_server

ROOT = Path(__file__).parents[2]
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
    from trainkit.errors import Refusal, reason
    from trainkit.prepare import read_prepared
    from trainkit.run import running


    def main() -> None:
        parser = program_parser(__doc__)
        add_data_dir(parser, data_folder(__file__), "the numbers are in its folder line/")
        args = parser.parse_args()
        with running("line.fit", args) as run:
            folder = Path(args.data_dir) / "line"
            try:
                source, _ = read_prepared(folder)
            except (OSError, ValueError) as error:
                message = f"no whole numbers in {folder} ({reason(error)}): run `runner prepare line`"
                raise Refusal(message) from error
            with run.phase("train") as clock:
                total = sum(map(float, (folder / "numbers.txt").read_text().split()))
            run.log.point("dataset", source)
            run.log.point("tracked_stats", {"train_seconds": clock.stop_clock() + 1e-6, "final_loss": total})


    if __name__ == "__main__":
        main()
'''
DEFINITION = """
    name: line
    summary: What do the numbers add up to?
    program: line.fit
    data: line
    scaling: strong
    matrix:
      layout: [1x1]
    repeat: 1
    timeout_seconds: 600
"""


def write_family(root: Path) -> Path:
    """Add a family with a definition, a program and its data: three files in one folder."""
    folder = root / "experiments" / "line"
    folder.mkdir()
    for name, text in {"prepare.py": PREPARE, "fit.py": PROGRAM, "line.yaml": DEFINITION}.items():
        (folder / name).write_text(textwrap.dedent(text).lstrip(), "utf-8")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of this project, less what is not needed."""
    root = tmp_path / "a project"
    shutil.copytree(ROOT / "experiments", root / "experiments", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "trainkit", root / "trainkit", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "runner.toml").touch()
    return root


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


def test_an_experiment_with_its_own_data_is_one_folder_and_touches_nothing_else(project: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*") if path.is_file()}
    write_family(project)
    assert data.families(project) == ["bert", "line", "mnist"]
    assert "line" in [path.stem for path in files(project)]
    listed = run(project, fork_server.command("runner"), "list")
    assert (listed.returncode, listed.stderr) == (0, f"project {project} (runner.toml)\n")
    assert "line\tWhat do the numbers add up to?" in listed.stdout.splitlines()
    planned = run(project, fork_server.command("runner"), "plan", "line")
    assert planned.returncode == 0, planned.stderr
    assert "torchrun -m experiments.line.fit" in planned.stdout

    early = run(project, fork_server.command("runner"), "run", "line", "--device", "cpu")
    assert early.returncode == 1
    assert "run `runner prepare line`" in early.stderr
    shutil.rmtree(project / "results")

    (tmp_path / "source").mkdir()
    command = data.prepare_command(project, "line", ["--from", "../source", "--numbers", "3 4"])
    prepared = subprocess.run(
        command, cwd=project, env=data.environment(project), capture_output=True, text=True, check=False
    )
    assert (prepared.returncode, prepared.stderr) == (0, "two numbers\n")
    done = run(project, fork_server.command("runner"), "run", "line", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    [record] = (json.loads(path.read_bytes()) for path in project.glob("results/line/*/run.json"))
    assert (record["status"], record["metrics"]["final_loss"]) == ("completed", 7.0)
    summary = run(project, fork_server.command("runner"), "summarize", "--format", "csv")
    assert summary.returncode == 0, summary.stderr
    assert summary.stdout.splitlines()[1].startswith("line,")
    after = {path: path.stat().st_mtime_ns for path in project.rglob("*") if path.is_file()}
    assert {path: time for path, time in after.items() if path in before} == before


@pytest.mark.parametrize(("name", "meant"), [("lime", "; did you mean 'line'?"), ("a.b", "; known: bert, line, mnist")])
def test_data_that_no_family_prepares_is_one_line(name: str, meant: str, project: Path) -> None:
    path = write_family(project) / "line.yaml"
    path.write_text(path.read_text().replace("data: line", f"data: {name}"))
    with pytest.raises(RequestError) as wrong:
        load(path, project)
    said = str(wrong.value)
    if name == "lime":
        there = f"(there is no experiments/{name}/prepare.py){meant}"
        assert said == f"{path}:4: no family prepares the data '{name}' {there}"
    else:
        assert said == f"{path}:4: data 'a.b' has to be the name of a family, for example mnist"
    with pytest.raises(RequestError, match="no family prepares the data"):
        data.prepare_command(project, name, [])


def test_data_is_part_of_the_resolved_definition_if_it_is_said(project: Path) -> None:
    path = write_family(project) / "line.yaml"
    assert load(path, project).resolved()["data"] == "line"
    path.write_text(path.read_text().replace("data: line\n", ""))
    assert "data" not in load(path, project).resolved()


@pytest.mark.parametrize("family", data.families(ROOT))
def test_every_family_s_own_help_shows_its_options(family: str) -> None:
    done = subprocess.run(
        data.prepare_command(ROOT, family, ["--help"]),
        env=data.environment(ROOT), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: runner prepare {family}")
    assert {"--from", "--data-dir", "--unattended"} <= set(done.stdout.replace("[", " ").replace("]", " ").split())
