"""Commands as a user types them: exit code, stdout and stderr."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from runner.cli.app import app
from runner.cli.command_table import FURTHER, MAIN
from runner.cli.next_step import next_step
from runner.targets import TARGETS
from tests.support.projects import RUNNER, Project, complete

GOLDEN = Path(__file__).parent / "golden"
SNAPSHOTS = {
    "list": "plan",
    "plan": "plan tiny --device cpu --set seed=7 --repeat 2",
    "dry-run": "run tiny --only layout=1x2 --device cpu --dry-run",
    "summary": "summarize",
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_command_s_outcome_is_its_snapshot(finished: Project, name: str, golden: Callable[..., None]) -> None:
    golden(GOLDEN / f"{name}.txt", finished.snapshot(finished.runner(*SNAPSHOTS[name].split())))


def test_without_a_command_the_help_is_shown(project: Project) -> None:
    helped = project.runner("-h").stdout
    assert project.runner().stdout.partition("Next: ")[0] == helped
    commands = helped.partition("\nCommands:\n")[2]
    assert "..." not in commands  # each summary is short enough to be shown in full
    for listed, table in zip(commands.split("\nFurther commands:\n"), (MAIN, FURTHER), strict=True):
        assert [line.split()[0] for line in listed.splitlines()] == [*table]


def test_without_a_command_the_next_sensible_one_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def following() -> str:
        return next_step(project.root).partition("    ")[0]

    monkeypatch.chdir(project.root)
    (project.root / "runner.toml").unlink()
    assert "name one: runner run " in following()
    (project.root / "train.py").write_text("import torch\nloss.backward()\noptimizer.step()\nmain()\n")
    assert following().startswith("runner run train.py --layout 1x1")
    assert project.runner().stdout.endswith(f"\nNext: {next_step(project.root)}\n")
    (project.root / "runner.toml").write_text("definitions = 'studies'\n")
    small = project.root / "studies" / "small.yaml"
    small.parent.mkdir()
    small.touch()
    assert following() == "runner run small"
    record = project.root / "results" / "small" / "a" / "run.json"
    record.parent.mkdir(parents=True)
    record.touch()
    assert following() == "runner summarize results/"


BAD_REQUESTS = {
    "run bad": "<experiments>/bad.yaml:8: unknown key 'sumary'; did you mean 'summary'?",
    "run tiny --device cuda": "the layout needs 1 GPUs",
    "explain nowhere": "nowhere/run.json: No such file or directory",
    "node tiny --device cpu --layout 1x2 --results experiments --node 1": "--node 1: layout 1x2",
    "run tiny --on compose --with memry=1": "--with memry=1: target compose has no option 'memry'",
    "run tiny --nothing": "; see runner run --help\n",
    "run train.py --lr 1": "; the arguments of train.py itself come last",
    "rum": "; see runner --help\n",
}


@pytest.mark.parametrize("words", BAD_REQUESTS)
def test_a_bad_request_is_one_line_and_nothing_is_started_or_written(project: Project, words: str) -> None:
    folder = project.define(name="bad", sumary="x").parent
    before = project.written()
    assert BAD_REQUESTS[words] in project.refused(*words.split()).replace(str(folder), "<experiments>")
    assert project.written() == before


def test_without_a_name_plan_lists_what_is_good_and_names_what_is_not(project: Project) -> None:
    project.define(name="broken", repeat=0)
    project.define(name="other", published={"source": "paper, table 2", "rows": [{"hardware": "x", "speedup": 2}]})
    done = project.runner("plan")
    assert (done.code, done.stdout) == (2, "other\tA tiny experiment\tpaper, table 2\ntiny\tA tiny experiment\n")
    assert "broken.yaml:6: 'repeat' has" in done.stderr


def test_a_pipe_that_is_closed_early_is_no_error(finished: Project) -> None:
    shell = f"{{ '{RUNNER}' summarize --format json; echo $? >&2; }} | true"
    done = complete(["/bin/sh", "-c", shell], finished.root, finished.environment())
    assert done.stderr == "0\n"


def test_a_terminal_that_knows_ascii_only_is_written_to_all_the_same(finished: Project) -> None:
    assert finished.runner("summarize", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}).code == 0


def test_on_a_terminal_there_is_a_table_and_live_progress_with_nothing_eaten_as_markup(project: Project) -> None:
    project.define(summary="[bold]brackets[/bold] stay", matrix={"layout": ["1x1"]})
    for words, expected in ((["run", "tiny"], "✓ 1x1"), (["summarize"], "[bold]brackets[/bold] stay")):
        assert expected in project.on_a_terminal(*words)[1]


@pytest.mark.real_processes
def test_a_defect_of_ours_is_one_line_with_a_log_to_send(project: Project, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import runner.definitions.experiment as d\nd.files = 0\n")
    done = project.runner("plan", env={"PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)})
    assert (done.code, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert "defect" in line
    assert "TypeError: 'int' object is not callable" in Path(line.split()[-1]).read_text()


def test_the_folder_from_which_it_is_called_may_be_gone(tmp_path: Path) -> None:
    done = complete(["/bin/sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && exec '{RUNNER}' plan"], tmp_path)
    assert (done.code, done.stderr.partition(":")[2]) == (
        2,
        " the current folder is gone: go to the project's folder\n",
    )


def test_the_table_says_of_each_command_what_its_own_help_says() -> None:
    group: Any = get_command(app)
    for name, (_, summary) in (MAIN | FURTHER).items():
        _, command, _ = group.resolve_command(typer.Context(group), [name])
        assert command.get_short_help_str(80) == group.commands[name].get_short_help_str(80) == summary


def test_the_targets_and_their_options_are_listed(project: Project) -> None:
    assert [line.split("\t")[0] for line in project.runner("targets").stdout.splitlines()] == [*TARGETS]
    options = project.runner("targets", "kubernetes").stdout
    assert options.startswith("name\ttype\tdefault\twhat it is\n")
    assert "\njob\tpytorchjob|trainjob|indexed\tpytorchjob\t" in options
    assert project.runner("targets", "local").stdout == "target local has no options\n"


def test_shells_complete_commands_experiments_and_targets(project: Project) -> None:
    begun = {"re": "report reproduce recover render", "plan t": "tiny", "run tiny --on k": "kubernetes"}
    for words, found in begun.items():
        env = {"COMP_WORDS": f"runner {words}", "COMP_CWORD": str(len(words.split()))}
        assert project.runner(env=env | {"_RUNNER_COMPLETE": "complete_bash"}).stdout.split() == found.split()


ECHO = """
import os
import sys

print(sys.argv[1:], os.getcwd())
print("on stderr", file=sys.stderr)
sys.exit(int(sys.argv[-1]) if sys.argv[-1].isdigit() else 0)
"""


def test_all_words_and_the_exit_code_are_the_family_s_own(project: Project) -> None:
    project.program("toys.prepare", ECHO)
    words = ["--from", "a b", "--help", "--", "-h", "7"]
    done = project.runner("prepare", "toys", *words)
    assert (done.code, done.stdout, done.stderr) == (7, f"{words} {project.root}\n", "on stderr\n")
    assert project.runner("prepare").stdout == "toys\trunner prepare toys --help\n"
