"""What was heard of each rank while a run lasts: its last event, and whether it has joined the process group."""

from dataclasses import dataclass, field

from runner.core.layout import Layout
from runner.core.text import one_line
from runner.core.values import whole
from runner.logs.mlperf import OBSERVED
from runner.records.events import Event

_OF_THE_NODE = "load"
"""The event of a thread of its own, which goes on while the training hangs."""
_LONGEST_LINE = 100
_LONGEST_EPOCH = 1_000_000_000


@dataclass
class OfRank:
    """What was heard of one rank: when last, its last event, for example `epoch_start 2`, and its last other line."""

    when: float
    event: str = ""
    epoch: int | None = None
    line: str = ""

    def words(self) -> str:
        """Name the last event."""
        return f"{self.event} {self.epoch}" if self.epoch is not None else self.event


@dataclass
class Heard:
    """All ranks of the nodes that are followed; on the others somebody else listens."""

    layout: Layout
    began: float
    """The time of the launch, in seconds of a monotonic clock."""
    followed: tuple[int, ...]
    ranks: dict[int, OfRank] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    joining: set[int] = field(default_factory=set)
    """Ranks that began to join the process group."""
    joined: set[int] = field(default_factory=set)
    joining_since: float | None = None
    worlds: dict[int, int] = field(default_factory=dict)
    """The world size that the ranks of a node report, if it is another one than the layout's.

    Empty for a layout of one process, which may start as many of its own as it likes.
    """
    longest: float = 0.0
    """The longest time in which nothing was heard of any rank, until something was heard again."""

    def __post_init__(self) -> None:
        self.last = self.began

    def take(self, node: int, local_rank: int, text: bytes, event: Event | None, now: float) -> None:
        """Take in a line that a process printed."""
        if event.key == _OF_THE_NODE if event is not None else not text.strip():
            return  # an event begins with a newline, so that there are empty lines
        self.longest, self.last = max(self.longest, now - self.last), now
        self.nodes.add(node)
        rank = self.layout.first_rank(node) + local_rank
        if event is not None:
            said = whole(event.metadata.get("rank"), 0, self.layout.world_size - 1)
            rank = rank if said is None else said
        of_rank = self.ranks.setdefault(rank, OfRank(now))
        of_rank.when = now
        if event is None:
            of_rank.line = one_line(text.decode("utf-8", "replace"), _LONGEST_LINE)
            return
        if event.key == OBSERVED:
            return
        of_rank.event = event.key
        if (epoch := whole(event.metadata.get("epoch_num"), 0, _LONGEST_EPOCH)) is not None:
            of_rank.epoch = epoch
        if event.key == "run_start":
            size = whole(event.metadata.get("world_size"), 1)
            if size is not None and size != self.layout.world_size > 1:
                self.worlds[node] = size
        elif event.key == "init_start":
            self.joining.add(rank)
            self.joining_since = now if self.joining_since is None else self.joining_since
        elif event.key == "init_stop":
            self.joined.add(rank)

    @property
    def own(self) -> list[int]:
        """The ranks of the nodes that are followed."""
        return [rank for node in self.followed for rank in self.layout.ranks_of(node)]
