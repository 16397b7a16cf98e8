"""What the processes of a run were seen to do with torch (`runner/targets/hooks`): why it is no training of its layout.

A program may end well and print losses though each of its processes trained alone, or none trained at all.
"""

from collections.abc import Iterator

from runner.core.text import listed
from runner.records.checks import NO_TRAINING
from runner.records.folder import RunFolder
from runner.records.raw_files import RawFiles
from runner.records.schema import Launch

_MOST_BYTES = 10_000


def doubts_of(folder: RunFolder, raw: RawFiles, launch: Launch) -> Iterator[str]:
    """Yield why a run that ended well is no training of its layout; nothing where nothing was noted."""
    world = raw.layout.world_size
    paths = {rank: path for rank in range(world) if (path := raw.output(rank, "seen"))}
    seen = {rank: folder.end_of(path, _MOST_BYTES).splitlines() for rank, path in paths.items()}
    noted = {line for lines in seen.values() for line in lines}
    if "spawned 0" in noted:
        yield f"{NO_TRAINING}torch.multiprocessing.spawn was told to start 0 processes"
    elif "optimizer" in noted and "gradient" not in noted:
        yield f"{NO_TRAINING}no gradient was computed: was it done before, by a checkpoint that it went on from?"
    if launch.definition.get("launcher") == "python":  # which starts as many as it wants
        return
    groups = {rank: [line.split()[1:] for line in lines if line.startswith("group ")] for rank, lines in seen.items()}
    sizes = {size for found in groups.values() for _, size in found}
    joined = {int(rank) for found in groups.values() for rank, size in found if size == str(world)}
    alone = [rank for rank, found in groups.items() if not any(size == str(world) for _, size in found)]
    if world > 1 and alone:
        what = f"joined a group of {listed(sorted(sizes))}" if sizes else "joined no process group"
        yield f"{NO_TRAINING}rank {listed(alone)} of {world} {what}, so each process may have trained by itself"
    elif (world > 1 and len(seen) == world and len(joined) < world) or (world == 1 and sizes - {"1"}):
        yield f"{NO_TRAINING}it has {world} processes, and groups of {listed(sorted(sizes))} were formed"
