"""The image that the containers of hosts run: brought from this machine's engine by its id, or pulled by the hosts'.

Rule: an image that this machine's engine has under the name is the one that runs everywhere, whatever the hosts have
under that name; a host that lacks its id gets it by `docker save`. One that this machine lacks is what the hosts have
under the name, or else pull, and has to be the same on all. All this is done before anything is started or written.

Source: the image's id is the hash of its configuration, which has the hashes of its layers (OCI image specification).
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import listed, one_line, shown
from runner.targets.ssh.host_container import image
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.session import HostError, LostError, Session, Sessions, on_all
from runner.targets.ssh.verdicts import OK, WRONG, Engine, Facts, Verdict, Wanted, number, oldest_python, text

BLOCK = 262_144
_NAME = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,399}", re.ASCII)
"""What is a name of an image, an id or a digest, and neither an option nor anything else to an engine or a shell."""
_ID = re.compile(r"sha256:[0-9a-f]{64}")
_TOOLKIT = "install the NVIDIA Container Toolkit there, or use --device cpu"
_WAYS_OUT = (
    (r"there is no (docker|podman) on", "install it there, or choose another engine by container_runtime"),
    (r"permission denied", "let this user use it, for example as a member of the group docker"),
    (r"Cannot connect to the|daemon running", "start it there"),
    (r"could not select device driver|nvidia\.com/gpu|nvidia-container", _TOOLKIT),
    (r"could not find the init|(catatonit|docker-init).*not found", "install it there: the package catatonit, or tini"),
    (r"image .* run ended with (1|12[67])\b", "choose an image with python3 and torch"),
    (
        r"access denied|requested access|unauthorized|not found|manifest unknown|such host|short-name|lookup|refused",
        "check its name, and whether the host may pull it; or have it in this machine's engine",
    ),
)


def require_name(name: str) -> None:
    """Refuse what cannot be the name of an image."""
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"--with container={shown(name)}: it is no name of an image: for example registry.example/team/image:tag"
        )


def find_here(wanted: Wanted) -> Wanted:
    """Look for an image in this machine's engine."""
    try:
        found = image(wanted.runtime, wanted.name)
    except OSError:  # there is no such engine here
        return wanted
    return replace(wanted, id=found["id"], bytes=found["bytes"], type=found["type"]) if found else wanted


def ask_engine(session: Session, wanted: Wanted) -> tuple[Engine, Verdict]:
    """Ask a host for its engine, and whether that has the image; HostError if the engine cannot be used."""
    with _explained():
        said = session.ask("engine", runtime=wanted.runtime, image=wanted.id or wanted.name)
    engine = Engine(
        wanted.runtime, text(said, "kind"), text(said, "version"), said.get("rootless") is True, _id_of(said)
    )
    size, free = 2 * wanted.bytes, number(said, "store_bytes")  # as an archive, and unpacked
    seen = f"{wanted.runtime} {engine.version}"
    if engine.image:
        seen += f" has the image {wanted.name}"
    elif not wanted.id:
        seen += f"; the image {wanted.name} is to be pulled"
    elif free >= size:
        seen += f"; the image {wanted.name} is to be brought, {wanted.bytes / 1e6:,.0f} MB"
    else:
        where = one_line(text(said, "store"), 200)
        seen = f"{free / 1e6:,.0f} MB free in {where}, bringing the image {wanted.name} needs {size / 1e6:,.0f} MB"
        return engine, Verdict(session.host, "container", WRONG, seen, "make room")
    return engine, Verdict(session.host, "container", OK, seen)


def provide(
    ssh: OpenSsh, python: str, facts: Sequence[Facts], wanted: Wanted, *, gpus: bool, say: Callable[[str], None]
) -> list[Facts]:
    """See to it that all hosts have the image, and that a container of it can run there; return what is in it.

    `facts` are what each host has said of itself and of its engine, and `say` takes a line to show. RequestError names
    each host on which that is impossible.
    """
    for host in facts:
        if host.engine and not host.engine.image:
            how = f"brought, {wanted.bytes / 1e6:,.0f} MB" if wanted.id else "pulled there"
            say(f"host {host.host}: the image {wanted.name} is {how}")
    sessions = Sessions()

    def provided(facts: Facts) -> Facts:
        with sessions.connect(ssh, facts.host, python) as session:
            return _provide(session, facts, wanted, gpus=gpus)

    try:
        found = on_all(provided, facts, sessions.abort)
    except HostError as error:
        raise RequestError(one_line(error)) from None
    if wrong := [verdict.line for verdict in judge_images(found, wanted)]:
        raise RequestError(listed(wrong, "; "))
    return found


def judge_images(facts: Sequence[Facts], wanted: Wanted) -> Iterator[Verdict]:
    """Refuse hosts that have different images under one name."""
    have = [(host.host, host.engine.image) for host in facts if host.engine and host.engine.image]
    for host, own in have[1:]:
        if own != have[0][1]:
            seen = f"the image {wanted.name} is {own} there, and {have[0][1]} on {have[0][0]}"
            yield Verdict(host, "image", WRONG, seen, "name it by its digest, or pull it on both again")


def save(wanted: Wanted) -> Generator[bytes, None, None]:
    """Yield an image of this machine's engine as an archive, in blocks; HostError if the engine fails."""
    form = ["--format=oci-archive"] if "oci.image" in wanted.type else []
    with tempfile.TemporaryFile() as said:
        words = [wanted.runtime, "save", *form, wanted.id]
        saving = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True
        )
        assert saving.stdout  # noqa: S101 - it was asked for
        try:
            while block := saving.stdout.read(BLOCK):
                yield block
            if saving.wait():
                said.seek(0)
                why = one_line(said.read(10_000).decode("utf-8", "replace"), 300)
                raise HostError(f"this machine's {wanted.runtime} save ended with {saving.returncode}: {why}")
        finally:
            saving.kill()
            saving.wait()
            saving.stdout.close()


def _provide(session: Session, facts: Facts, wanted: Wanted, *, gpus: bool) -> Facts:
    """Bring or pull what a host lacks, and look into it."""
    if facts.engine is None or facts.engine.image:
        return probe(session, facts, wanted, gpus=gpus)
    with _explained(f"image {wanted.name}: "):
        if wanted.id:
            with closing(save(wanted)) as blocks:
                said = session.ask("load", blocks, runtime=wanted.runtime, image=wanted.id)
        else:
            said = session.ask("pull", runtime=wanted.runtime, image=wanted.name)
    if not _id_of(said) or (wanted.id and _id_of(said) != wanted.id):
        raise HostError(
            f"host {session.host}: the image {wanted.name} has another id there than here: {wanted.id or 'none'}",
            mend="the two engines store images in different ways: pull it from a registry",
        )
    return probe(session, replace(facts, engine=replace(facts.engine, image=_id_of(said))), wanted, gpus=gpus)


def probe(session: Session, facts: Facts, wanted: Wanted, *, gpus: bool) -> Facts:
    """Look into the image that a host has, in a container that ends at once; return its facts with those of the image.

    HostError if a run in it cannot succeed.
    """
    assert facts.engine  # noqa: S101 - it was asked for
    with _explained(f"image {wanted.name}: "):
        said = session.ask("probe", container=facts.engine.request(gpus=gpus), folder=facts.folder)
    python, torch, trouble = (text(said, name) for name in ("python", "torch", "trouble"))
    place, another = f"host {session.host}: image {wanted.name}", "choose another image"
    if not torch:
        raise HostError(f"{place}: torch is not installed for its python3", mend=another)
    if older := oldest_python(python):
        raise HostError(
            f"{place}: its python3 is Python {python}, {older} is the oldest that the kit runs on", mend=another
        )
    if trouble:
        raise HostError(
            f"{place}: a container cannot write to {facts.folder}: {trouble}",
            mend="choose a folder that it can write to with --with folder=PATH",
        )
    return replace(facts, python=python, torch=torch)


@contextmanager
def _explained(about: str = "") -> Iterator[None]:
    """Add to an error of an engine what it is about, and what mends it if that is known."""
    try:
        yield
    except LostError:
        raise
    except HostError as error:
        host, colon, seen = error.seen.partition(": ")
        msg = f"{host}{colon}{about}{seen}"
        mend = next((way for words, way in _WAYS_OUT if re.search(words, msg, re.IGNORECASE)), "")
        raise HostError(msg, mend=error.mend or mend) from None


def _id_of(said: dict[str, Any]) -> str:
    """Return the id in what a host says of an image; empty if there is none."""
    return found if _ID.fullmatch(found := text(said, "id")) else ""
