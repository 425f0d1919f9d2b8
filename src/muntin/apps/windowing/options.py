"""The options of the windowing application, checked before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from muntin.model.errors import OptionError

# The spans of the original's averages.
SPANS = (1.0, 5.0, 10.0, 30.0)
_DAY = 86_400
_LEAST = {
    **dict.fromkeys(("maxrows", "shardrows", "historyseconds", "deleteyieldtime", "seed"), 0),
    **dict.fromkeys(("deletechunksize", "ratelimit", "shards"), 1),
}
# The approximate number of segments of a shard, which bounds the cost of a batch.
_SEGMENTS = 600


@dataclass(frozen=True)
class Options:
    """The options of the application; the defaults are the original's.

    Attributes:
        displayinterval: Seconds between reports.
        duration: Seconds to run for.
        maxrows: Number of rows to keep in the whole table; 0 for unlimited.
        shardrows: Number of rows to keep in each shard; 0 for unlimited.
        historyseconds: How long to keep a row, in seconds; 0 for forever.
        deletes: A folder for calls to delete from outside; ``None`` for none. See
            ``muntin.apps.windowing.delete``.
        inline: Whether rows are deleted together with inserts. If not, a separate deleter runs
            in each batch, even without inserts.
        deletechunksize: The maximum number of rows of one deletion.
        deleteyieldtime: Milliseconds that the deleter waits when it has no backlog.
        ratelimit: The maximum number of tuples inserted per second.
        averages: The spans, in seconds, over which averages are taken.
        seed: The seed of the random tuples.
        clock: The clock that rows age by: the ``wall`` clock, or the greatest ``event`` time seen.
        shards: The number of parts of the table.

    Raises:
        OptionError: Naming the option, its value and how to fix it.

    Source: the VoltDB windowing example application. Its row limit and its age limit exclude each
    other; here they can be combined. Without any limit and without ``deletes``, the table
    would grow forever: refused.

    Example:
        >>> Options(maxrows=1000, historyseconds=0).limits
        'the newest 1,000 rows'
        >>> Options(maxrows=5, historyseconds=10).limits
        'the newest 5 rows of the last 10 s'
        >>> Options(shardrows=5, historyseconds=0).limits
        'rows, at most 5 of each shard'
    """

    displayinterval: float = 5.0
    duration: float = 120.0
    maxrows: int = 0
    shardrows: int = 0
    historyseconds: float = 30.0
    deletes: str | None = None
    inline: bool = False
    deletechunksize: int = 100
    deleteyieldtime: int = 100
    ratelimit: int = 15_000
    averages: tuple[float, ...] = SPANS
    seed: int = 0
    clock: Literal["wall", "event"] = "wall"
    shards: int = 2

    def __post_init__(self) -> None:
        for name in ("displayinterval", "duration"):
            if not (value := getattr(self, name)) > 0:
                hint = "give a number of seconds greater than 0"
                raise OptionError(name, value, "isn't greater than 0", hint)
        for name, least in _LEAST.items():
            if not (value := getattr(self, name)) >= least:
                raise OptionError(name, value, f"is less than {least}", f"give {least} or more")
        limits = self.maxrows, self.shardrows, self.historyseconds
        if not any(limits) and self.deletes is None:
            hint = "give one of them, or a folder for deletes from outside"
            problem = "and maxrows=0 and shardrows=0 keep every row indefinitely"
            raise OptionError("historyseconds", 0, problem, hint)
        if not self.averages:
            raise OptionError("averages", "", "names no span", "give for example 1,5,10,30")
        for span in self.averages:
            if not 0.001 <= span <= _DAY:
                hint = "give seconds from 0.001 to 86400, for example 1,5,10,30"
                raise OptionError("averages", f"{span:g}", "isn't a span", hint)
        if self.clock not in ("wall", "event"):
            raise OptionError("clock", self.clock, "isn't a clock", "give wall or event")

    @property
    def history(self) -> int | None:
        """The retention of a row in milliseconds; ``None`` for forever."""
        return round(self.historyseconds * 1000) if self.historyseconds else None

    @property
    def spans(self) -> tuple[int, ...]:
        """The spans of the averages, in milliseconds."""
        return tuple(round(span * 1000) for span in self.averages)

    @property
    def width(self) -> int:
        """The length of a segment in milliseconds: a second, or more if much is kept."""
        most = max(self.maxrows, self.shardrows * self.shards)
        seconds = max(self.historyseconds, most / self.ratelimit)
        return 1000 * max(1, round(seconds / _SEGMENTS))

    @property
    def limits(self) -> str:
        """A description of the rows that are kept."""
        text = f"the newest {self.maxrows:,} rows" if self.maxrows else "rows"
        if self.historyseconds:
            text += f" of the last {self.historyseconds:g} s"
        if self.shardrows:
            text += f", at most {self.shardrows:,} of each shard"
        return "rows until a call deletes them" if text == "rows" else text
