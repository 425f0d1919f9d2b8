"""The options of the windowing application, checked before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from muntin.model.errors import OptionError

# The spans of the original's averages.
SPANS = (1.0, 5.0, 10.0, 30.0)
_DAY = 86_400
_LEAST = {
    **dict.fromkeys(("maxrows", "bucketrows", "historyseconds", "deleteyieldtime", "seed"), 0),
    **dict.fromkeys(("deletechunksize", "ratelimit", "buckets"), 1),
}
# About how many segments a bucket has, so that a batch costs the same however much is kept.
_SEGMENTS = 600


@dataclass(frozen=True)
class Options:
    """What the application is to do; the defaults are the original's.

    Attributes:
        displayinterval: Seconds between reports.
        duration: Seconds to run for.
        maxrows: How many rows the whole table keeps; 0 is any number.
        bucketrows: How many rows each bucket keeps; 0 is any number.
        historyseconds: How many seconds a row is kept; 0 is indefinite.
        deletes: A folder in which others leave calls to delete; ``None`` takes none. See
            ``muntin.apps.windowing.delete``.
        inline: Whether rows are deleted together with inserts. Otherwise a deleter of its own goes
            round, also when nothing is inserted.
        deletechunksize: How many rows one deletion takes at most. It is exact.
        deleteyieldtime: Milliseconds that the deleter waits when it has caught up.
        ratelimit: How many tuples are inserted a second at most.
        averages: The spans, in seconds, over which averages are taken.
        seed: What the random tuples follow from.
        clock: What rows are old by: the ``wall`` clock, or the greatest ``event`` time seen.
        buckets: Into how many parts the table is cut.

    Raises:
        OptionError: Naming the option, its value and how to fix it.

    Source: the VoltDB windowing example application. Its row limit and its age limit exclude each
    other; here all may be given. Where there is none, and nobody may call for deletes, the table
    would grow without end: refused.

    Example:
        >>> Options(maxrows=1000, historyseconds=0).limits
        'the newest 1,000 rows'
        >>> Options(maxrows=5, historyseconds=10).limits
        'the newest 5 rows of the last 10 s'
        >>> Options(bucketrows=5, historyseconds=0).limits
        'rows, at most 5 of each bucket'
    """

    displayinterval: float = 5.0
    duration: float = 120.0
    maxrows: int = 0
    bucketrows: int = 0
    historyseconds: float = 30.0
    deletes: str | None = None
    inline: bool = False
    deletechunksize: int = 100
    deleteyieldtime: int = 100
    ratelimit: int = 15_000
    averages: tuple[float, ...] = SPANS
    seed: int = 0
    clock: Literal["wall", "event"] = "wall"
    buckets: int = 2

    def __post_init__(self) -> None:
        for name in ("displayinterval", "duration"):
            if not (value := getattr(self, name)) > 0:
                hint = "give a number of seconds greater than 0"
                raise OptionError(name, value, "isn't greater than 0", hint)
        for name, least in _LEAST.items():
            if not (value := getattr(self, name)) >= least:
                raise OptionError(name, value, f"is less than {least}", f"give {least} or more")
        limits = self.maxrows, self.bucketrows, self.historyseconds
        if not any(limits) and self.deletes is None:
            hint = "give one of them, or a folder for deletes from outside"
            problem = "and maxrows=0 and bucketrows=0 keep every row indefinitely"
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
        """How long a row is kept, in milliseconds; ``None`` is indefinite."""
        return round(self.historyseconds * 1000) if self.historyseconds else None

    @property
    def spans(self) -> tuple[int, ...]:
        """The spans of the averages, in milliseconds."""
        return tuple(round(span * 1000) for span in self.averages)

    @property
    def width(self) -> int:
        """How many milliseconds make a segment: a second, or more where much is kept."""
        most = max(self.maxrows, self.bucketrows * self.buckets)
        seconds = max(self.historyseconds, most / self.ratelimit)
        return 1000 * max(1, round(seconds / _SEGMENTS))

    @property
    def limits(self) -> str:
        """What is kept, in words."""
        text = f"the newest {self.maxrows:,} rows" if self.maxrows else "rows"
        if self.historyseconds:
            text += f" of the last {self.historyseconds:g} s"
        if self.bucketrows:
            text += f", at most {self.bucketrows:,} of each bucket"
        return "rows until a call deletes them" if text == "rows" else text
