"""What a definition has to know of a script: whether it trains with several processes, and who shares the data out."""

from dataclasses import dataclass

from runner.tools.init.modules import Modules
from runner.tools.init.source import ACROSS, Sign

_LIGHTNING = {"lightning", "pytorch_lightning"}
_TRAINERS = {"transformers", "trl", "sentence_transformers", "setfit"}


@dataclass(frozen=True)
class Traits:
    """What the source shows; each of the texts is a comment of the definition."""

    parallel: bool
    """Torchrun may start more than one process of it."""
    why_layout: str
    cpu_alone: bool
    """On a CPU it only trains in one process."""
    events: bool
    spawns: bool
    """It starts the processes of its own process group."""


def traits(modules: Modules) -> Traits:
    """Look at all files of a script."""
    signs = modules.signs
    lightning = bool(set(modules.frameworks) & _LIGHTNING) and bool(signs & {Sign.TRAINER, Sign.FIT})
    parallel, why_layout = _layout(modules, signs, lightning=lightning)
    return Traits(
        parallel,
        why_layout,
        cpu_alone=parallel and lightning and _devices(modules) in (None, "'auto'", "-1", "'-1'"),
        events=Sign.EVENTS in signs,
        spawns={Sign.SPAWN, Sign.GROUP} <= signs or _launches(modules, signs),
    )


def _layout(modules: Modules, signs: set[str], *, lightning: bool) -> tuple[bool, str]:
    if Sign.SPAWN in signs or _launches(modules, signs):
        how = "spawn" if Sign.SPAWN in signs else Sign.LAUNCH
        return False, f"nodes x processes; the script starts its processes itself ({how})"
    if lightning:
        devices = _devices(modules)
        if devices and (devices.isdigit() or devices.startswith("[")) and "WORLD_SIZE" not in devices:
            return False, f"nodes x processes; the Trainer is given devices={devices}: WORLD_SIZE there allows 1x2"
        return True, "nodes x processes; Lightning shares the work among them"
    if found := next((sign for sign in ACROSS if sign in signs), None):
        return True, f"nodes x processes; the script shares the work among them ({found})"
    if Sign.TRAINER in signs and set(modules.frameworks) & _TRAINERS:
        return True, "nodes x processes; the Trainer shares the work among them"
    return False, "nodes x processes; add 1x2 once the script calls init_process_group() and trains with DDP"


def _launches(modules: Modules, signs: set[str]) -> bool:
    """Return whether the script itself calls torchrun; one that is a process of that group too may be started so."""
    return Sign.LAUNCH in modules.files[modules.script].signs and Sign.GROUP not in signs


def _devices(modules: Modules) -> str | None:
    return next((source.devices for source in modules.files.values() if source.devices is not None), None)
