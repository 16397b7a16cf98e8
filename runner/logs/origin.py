"""Who printed a line: what launchers, containers and loggers write before it."""

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import NamedTuple

_INDENT = " \t"
_MOST = 6
"""Prefixes before one line, for example a container's, torchrun's and a logger's."""
_LONGEST = 300
"""Letters of all prefixes together."""
_POD = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9.-]{0,80}-(?:master|worker|launcher|chief|ps|leader|node|trainer)-\d{1,4}"
    r"(?:-[a-z0-9]{1,10}){0,3}) (?:pytorch|tensorflow|jax|mpi|xgboost|paddle|trainer|node|launcher|worker|main|train) "
)
"""A pod of a training job and its container, as stern writes them."""
_LEVELS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|SUCCESS"
# Each is tried at the beginning of the line. None has a repeat within a repeat.
_PREFIXES = {
    "torchrun": re.compile(r"\[(?:default|rank|local_rank ?)(?P<rank>\d{1,6})\]:? ?"),
    "mpirun": re.compile(r"\[(?:prterun-[\w.@-]{1,120}@)?\d{1,6},(?P<rank>\d{1,6})\]<std(?:out|err)>:? ?"),
    "horovodrun": re.compile(r"\[(?P<rank>\d{1,6})\]<std(?:out|err)>:? ?"),
    "rank": re.compile(r"\[(?P<rank>\d{1,4})\]:? (?=\S)|\[[Rr]ank:? (?P<rank2>\d{1,6})\]:? ?"),
    "kubectl": re.compile(r"\[pod/(?P<name>[\w.-]{1,120}/[\w.-]{1,120})\] ?|\[Pod (?P<name2>[\w.-]{1,120})\]: ?"),
    "stern": _POD,
    "compose": re.compile(
        r"(?P<name>[A-Za-z0-9][\w.-]{0,80}[-_]\d{1,4}) {1,40}\| ?|(?P<name2>[a-z0-9][a-z0-9._-]{0,80}) {2,40}\| "
    ),
    "srun": re.compile(r" {0,4}(?P<rank>\d{1,5}): (?=\S)"),
    "process": re.compile(
        r"\[(?:PID|pid):? ?(?P<name>\d{1,9})\]\s?|\((?:\w{1,60} )?pid=(?P<name2>\d{1,9})[^)]{0,80}\) ?"
    ),
    "journal": re.compile(
        r"(?:(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d"
        r"|(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?P<zone>Z|[+-]\d\d:?\d\d))"
        r" [\w.-]{1,80} [\w./@-]{1,80}\[(?P<name>\d{1,9})\]: "
    ),
    "nemo": re.compile(r"\[NeMo [IWED] (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) [\w./-]{1,80}:\d{1,6}\] ?"),
    "glog": re.compile(
        r"[VIWEF](?:\d{4})?\d{4} \d\d:\d\d:\d\d\.\d{3,9} {1,8}\d{1,20}(?:[/-]\w{1,40})? [\w./<>-]{1,160}:\d{1,6}\] ?"
    ),
    "fvcore": re.compile(
        rf"\[\d\d/\d\d \d\d:\d\d:\d\d(?: [\w.]{{1,80}}\]: {{1,2}}|\] [\w.]{{1,80}} (?:{_LEVELS}): {{1,2}})"
    ),
    "clock": re.compile(
        r"\[\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\][ :,-]{0,3}"
        rf"|\d\d:\d\d:\d\d(?:[.,]\d{{1,6}})?[ :,-]{{1,3}}(?=\[?(?:{_LEVELS})\b)"
    ),
    "time": re.compile(
        r" {0,2}\[?(?P<time>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?P<zone>Z|[+-]\d\d:?\d\d)?"
        r"\]?[ :,-]{0,3}"
    ),
    "cri": re.compile(r"std(?:out|err) [FP] "),
    "hydra": re.compile(rf"\[[\w.]{{1,80}}\]\[(?:{_LEVELS})\](?: -)? "),
    "transformers": re.compile(
        rf"\[(?:{_LEVELS})\|[\w./-]{{1,100}}:\d{{1,6}}\] (?P<time>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{{1,9}})?) >> ?"
    ),
    "logging": re.compile(
        rf"(?:\d\d/\d\d(?:/\d{{4}})? \d\d:\d\d:\d\d - )?"
        rf"(?:(?:{_LEVELS}) - [\w.]{{1,80}} ?- {{1,4}}|[\w.]{{1,80}} - (?:{_LEVELS}) - )"
    ),
    "loguru": re.compile(rf"\| (?:{_LEVELS}) {{1,8}}\| [\w.<>:]{{1,160}} [-|] "),
    "logger": re.compile(rf"\[?(?:{_LEVELS})\]?(?::[\w.]{{0,60}}:|:)?[\s-]{{0,10}}(?=\S)"),
}
_BEGINS = frozenset("[(0123456789") | frozenset("ACDEFIJMNOSVW")


class Origin(NamedTuple):
    """Who printed a line, and when, as far as the line says."""

    kinds: tuple[str, ...] = ()
    rank: int | None = None
    name: str | None = None
    time: datetime | None = None
    is_number: bool = False
    """Whether the rank is a bare number, `[3]` or `3:`, which may count anything else."""

    @property
    def writer(self) -> tuple[int, int, str]:
        """Return a key that sorts writers: lower ranks and masters first, whoever has no name before all."""
        name = self.name or ""
        return (self.rank or 0, bool(name) and "master" not in name, name)


NOBODY = Origin()


def split(line: str) -> tuple[Origin, str]:
    """Return the origin of a line, and the line without its prefixes and its indentation."""
    kinds: list[str] = []
    rank = name = time = None
    at, is_number = 0, False
    for kind, found in _prefixes(line):
        groups = found.groupdict()
        number = groups.get("rank") or groups.get("rank2")
        if rank is None and number:
            rank = int(number)
            is_number = kind == "srun" or (kind == "rank" and groups["rank"] is not None)
        own = groups.get("name") or groups.get("name2")
        name = f"{name}/{own}" if name and own else name or own
        if time is None and groups.get("time"):
            time = time_of(groups["time"], groups.get("zone"))
        kinds += [kind] if kind not in kinds else []
        at = found.end()
    if not kinds:
        return NOBODY, line.lstrip(_INDENT)
    return Origin(tuple(kinds), rank, name, time, is_number), line[at:].lstrip(_INDENT)


def _prefixes(line: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the prefixes of a line in their order; each kind stands there once at most.

    A time stamp stands twice where a logger's follows on that of `docker compose logs --timestamps`.
    """
    at = len(line) - len(line.lstrip(_INDENT))
    if line[at : at + 1] not in _BEGINS and "|" not in line[:_LONGEST] and not _POD.match(line, at):
        return
    left, seen = dict(_PREFIXES), set[str]()
    while len(seen) < _MOST and at < _LONGEST:
        matches = ((kind, found) for kind, pattern in left.items() if (found := pattern.match(line, at)))
        kind, found = next(matches, ("", None))
        if found is None:
            return
        yield kind, found
        if kind in seen or kind != "time":
            del left[kind]
        seen.add(kind)
        at = found.end()


def time_of(text: str, zone: str | None) -> datetime | None:
    """Read a time stamp; without a zone it is taken for UTC, which is enough for the time between two of them."""
    words = text.replace("/", "-").replace(",", ".").replace("T", " ")
    whole, _, part = words.partition(".")
    try:
        moment = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
        moment = moment.replace(microsecond=int(f"{part[:6]:0<6}")) if part else moment
        if zone and zone != "Z":
            offset = datetime.strptime(zone.replace(":", ""), "%z").utcoffset()
            moment = moment - offset if offset else moment
    except (ValueError, OverflowError):
        return None
    return moment
