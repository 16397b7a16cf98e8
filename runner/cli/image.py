"""`runner image`, and `runner image pin`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from runner.cli.lines import say, show, show_document
from runner.cli.options import project_root
from runner.core.errors import RequestError
from runner.core.output import write_outputs

if TYPE_CHECKING:
    from runner.supply.packages import Package

app = typer.Typer(rich_markup_mode=None, help="The images that containers run.")


@app.callback(invoke_without_command=True)
def image(
    context: typer.Context,
    name: Annotated[
        Optional[str],
        typer.Option("--image", metavar="IMAGE", help="Another image than the project's own, which has to be built."),
    ] = None,
    device: Annotated[str, typer.Option(metavar="cpu|cuda", help="Which of the project's images.")] = "cpu",
    lock: Annotated[
        bool, typer.Option("--lock", help="Show what requirements.lock pins, and ask no engine for an image.")
    ] = False,
    sbom: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Write the bill of materials (CycloneDX 1.5, JSON); - is stdout."),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Look up advisories, by pip-audit over the network; 1 if there are any.")
    ] = False,
) -> None:
    """Show what an image consists of: packages, licences, and what is publicly known against them.

    The image is asked in a container without a network. Without one, requirements.lock says what it would hold.
    """
    if context.invoked_subcommand:
        return
    if device not in ("cpu", "cuda"):
        msg = f"--device {device}: cpu or cuda"
        raise RequestError(msg)
    if lock and name:
        msg = f"--lock asks no engine: leave out --image {name}"
        raise RequestError(msg)
    from runner.supply.advisories import look_up
    from runner.supply.sbom import bill
    from runner.supply.shown import counted, licences

    packages, subject, version, is_image = _consists_of(name, device, lock=lock)
    found = look_up(packages) if audit else None
    lines = [*counted(packages, subject, version), *licences(packages)]
    lines += found.lines() if found else ["advisories: not checked: --audit looks them up, by pip-audit"]
    text = bill(packages, subject, version, image=is_image) if sbom else ""
    if str(sbom) == "-":
        show_document(text)
    elif sbom:
        write_outputs({sbom: text.encode("utf-8", "backslashreplace")})
    for line in lines:
        say(line) if str(sbom) == "-" else show(line)
    if found and found.known:
        raise typer.Exit(1)


def _consists_of(name: str | None, device: str, *, lock: bool) -> tuple[list[Package], str, str, bool]:
    """Return the packages of an image, or else of the lock file; its name, its hash, and whether it is an image."""
    import hashlib

    from runner.definitions.settings import settings_of
    from runner.supply.packages import LOCK, of_image, read_lock, with_hashes
    from runner.targets.compose.inventory import inventory
    from runner.targets.compose.service import image_of

    root = None if name else project_root()
    locked = read_lock(root / LOCK) if root and (lock or (root / LOCK).exists()) else []
    if not lock:
        wanted = name or image_of(settings_of(root).image if root else "", device)
        try:
            told, identity = inventory(wanted)
            return with_hashes(of_image(told), locked), wanted, identity, True
        except RequestError as error:
            if name or not locked:
                raise
            say(f"{error}; shown is what {LOCK} pins")
    if root is None or not locked:
        locked = read_lock(project_root() / LOCK)
    return locked, LOCK, f"sha256:{hashlib.sha256((project_root() / LOCK).read_bytes()).hexdigest()}", False


@app.command()
def pin(
    base: Annotated[Optional[str], typer.Option(metavar="IMAGE", help="Another base for the GPU image.")] = None,
    cpu_base: Annotated[Optional[str], typer.Option(metavar="IMAGE", help="Another base for the CPU image.")] = None,
) -> None:
    """Lock the base images to the digests that the engine has read from their registry.

    They go into image.lock, and from there into the Dockerfile and compose/.
    """
    from runner.targets.committed_files import write
    from runner.targets.compose import engine
    from runner.targets.compose.base_images import pin as lock

    root = project_root()
    named = {"BASE_IMAGE": base, "CPU_BASE_IMAGE": cpu_base}
    locked = lock(root, engine.reach(), {name: value for name, value in named.items() if value})
    write(root)
    for name, value in locked.items():
        show(f"{name}={value}" + ("" if "@" in value else "  (not held by the engine: not pinned)"))
