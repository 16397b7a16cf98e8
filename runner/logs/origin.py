"""Find the writer of a line from prefixes of launchers, containers and loggers."""

import re
from datetime import datetime, timezone
from typing import NamedTuple

MOST_WRITERS = 4_096
Who = tuple[int, int, str]
"""Sort key of a writer: the rank, then whether there is a name without `master`, then the name."""
_INDENT = " \t\ufeff"
_MOST = 6
"""Maximum prefixes of a line, such as a container's, torchrun's and a logger's."""
_LONGEST = 300
_POD = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9.-]{0,80}-(?:master|worker|launcher|chief|ps|leader|node|trainer)-\d{1,4}"
    r"(?:-[a-z0-9]{1,10}){0,3}) (?:pytorch|tensorflow|jax|mpi|xgboost|paddle|trainer|node|launcher|worker|main|train) "
)
"""Pod and container of a training job, as stern prints them."""
_LEVELS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|SUCCESS"
# No expression nests repeats, so hostile lines take no longer.
_PREFIXES = {
    "torchrun": r"\[(?:default|rank|local_rank ?)(?P<rank>\d{1,6})\]:? ?",
    "mpirun": r"\[(?:prterun-[\w.@-]{1,120}@)?\d{1,6},(?P<rank>\d{1,6})\]<std(?:out|err)>:? ?",
    "horovodrun": r"\[(?P<rank>\d{1,6})\]<std(?:out|err)>:? ?",
    "rank": r"\[[Rr]ank:? (?P<rank>\d{1,6})\]:? ?",
    "number": r"\[(?P<rank>\d{1,4})\]:? (?=\S)| {0,4}(?P<rank2>\d{1,5}): (?=\S)",  # srun's too
    "kubectl": r"\[pod/(?P<name>[\w.-]{1,120}/[\w.-]{1,120})\] ?|\[Pod (?P<name2>[\w.-]{1,120})\]: ?",
    "stern": _POD.pattern,
    "compose": (
        r"(?P<name>[A-Za-z0-9][\w.-]{0,80}[-_]\d{1,4}) {1,40}\| ?|(?P<name2>[a-z0-9][a-z0-9._-]{0,80}) {2,40}\| "
    ),
    "process": r"\[(?:PID|pid):? ?(?P<name>\d{1,9})\]\s?|\((?:\w{1,60} )?pid=(?P<name2>\d{1,9})[^)]{0,80}\) ?",
    "journal": (
        r"(?:(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d"
        r"|(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?P<zone>Z|[+-]\d\d:?\d\d))"
        r" [\w.-]{1,80} [\w./@-]{1,80}\[(?P<name>\d{1,9})\]: "
    ),
    "nemo": r"\[NeMo [IWED] (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) [\w./-]{1,80}:\d{1,6}\] ?",
    "glog": (
        r"[VIWEF](?:\d{4})?\d{4} \d\d:\d\d:\d\d\.\d{3,9} {1,8}\d{1,20}(?:[/-]\w{1,40})? [\w./<>-]{1,160}:\d{1,6}\] ?"
    ),
    "fvcore": rf"\[\d\d/\d\d \d\d:\d\d:\d\d(?: [\w.]{{1,80}}\]: {{1,2}}|\] [\w.]{{1,80}} (?:{_LEVELS}): {{1,2}})",
    "clock": (
        r"\[\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\][ :,-]{0,3}"
        rf"|\d\d:\d\d:\d\d(?:[.,]\d{{1,6}})?[ :,-]{{1,3}}(?=\[?(?:{_LEVELS})\b)"
    ),
    "time": (
        r" {0,2}\[?(?P<time>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?P<zone>Z|[+-]\d\d:?\d\d)?"
        r"\]?[ :,-]{0,3}"
    ),
    "cri": r"std(?:out|err) [FP] ",
    "hydra": rf"\[[\w.]{{1,80}}\]\[(?:{_LEVELS})\](?: -)? ",
    "transformers": (
        rf"\[(?:{_LEVELS})\|[\w./-]{{1,100}}:\d{{1,6}}\] (?P<time>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{{1,9}})?) >> ?"
    ),
    "logging": (
        rf"(?:\d\d/\d\d(?:/\d{{4}})? \d\d:\d\d:\d\d - )?"
        rf"(?:(?:{_LEVELS}) - [\w.]{{1,80}} ?- {{1,4}}|[\w.]{{1,80}} - (?:{_LEVELS}) - )"
    ),
    "loguru": rf"\| (?:{_LEVELS}) {{1,8}}\| [\w.<>:]{{1,160}} [-|] ",
    "logger": rf"\[?(?:{_LEVELS})\]?(?::[\w.]{{0,60}}:|:)?[\s-]{{0,10}}(?=\S)",
}
_COMPILED = {kind: re.compile(pattern) for kind, pattern in _PREFIXES.items()}
_BEGINS = frozenset("[(0123456789ACDEFIJMNOSVW")


class Origin(NamedTuple):
    """Writer and time of a line, as far as its prefixes state them."""

    rank: int | None = None
    name: str = ""
    time: datetime | None = None
    is_number: bool = False
    """Whether the rank is a bare number, `[3]` or `3:`, which may mean something else."""

    @property
    def writer(self) -> Who:
        """Return the sort key of the writer."""
        return (self.rank or 0, bool(self.name) and "master" not in self.name, self.name)


NOBODY = Origin()


def split(line: str) -> tuple[Origin, str]:
    """Return the origin of a line, and the line without prefixes and indentation."""
    begin = at = len(line) - len(line.lstrip(_INDENT))
    if line[at : at + 1] not in _BEGINS and "|" not in line[:_LONGEST] and not _POD.match(line, at):
        return NOBODY, line[at:]
    rank, names, time, is_number = None, [], None, False
    left = dict(_COMPILED)
    for _ in range(_MOST):
        matches = ((kind, match) for kind, pattern in left.items() if (match := pattern.match(line, at)))
        kind, match = next(matches, ("", None))
        if match is None or at >= _LONGEST:
            break
        said = {name.rstrip("2"): text for name, text in match.groupdict().items() if text}
        if rank is None and "rank" in said:
            rank, is_number = int(said["rank"]), kind == "number"
        names += [said["name"]] if "name" in said else []
        if kind != "time" or time:  # a logger's time may follow that of `docker compose logs --timestamps`
            del left[kind]
        time = time or _time_of(said.get("time"), said.get("zone"))
        at = match.end()
    if at == begin:
        return NOBODY, line[at:]
    return Origin(rank, "/".join(names), time, is_number), line[at:].lstrip(_INDENT)


def _time_of(text: str | None, zone: str | None) -> datetime | None:
    if not text:
        return None
    whole, _, part = text.replace("/", "-").replace(",", ".").replace("T", " ").partition(".")
    zone = zone if zone and zone != "Z" else "+0000"
    try:
        moment = datetime.strptime(f"{whole}.{part[:6] or 0} {zone.replace(':', '')}", "%Y-%m-%d %H:%M:%S.%f %z")
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
