"""What running queries emit, kept for pages that look at it now or come later."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from muntin.model.errors import OptionError

Look = Callable[[Sequence[str]], Mapping[str, Any]]
"""From a key's values as text, or none, to what the state holds, as JSON can say it."""

# How much of each query a page that comes later still sees.
_MOST = {"batches": 600, "windows": 500, "samples": 50, "notes": 100}
# How many events a page may fall behind before it is shown everything anew.
_LOG = 2000


@dataclass(frozen=True)
class Chart:
    """A chart over time."""

    title: str
    unit: str
    series: tuple[str, ...]


@dataclass(frozen=True)
class Tile:
    """A number of the last batch."""

    label: str
    number: str
    unit: str = ""


@dataclass(frozen=True)
class Subject:
    """A query that the page shows.

    Attributes:
        name: Its name.
        about: What it does, in a sentence.
        tiles: Its numbers.
        charts: Its charts.
        keys: The columns that say whose window it is.
        columns: All columns of its windows; empty where it has none.
        kinds: What columns of its windows hold, where that shows: ``time`` (milliseconds) or
            ``count``, a number that is shown with commas. All others are shown as they are.
        rejected_kinds: The same of its rejected messages.
    """

    name: str
    about: str = ""
    tiles: tuple[Tile, ...] = ()
    charts: tuple[Chart, ...] = ()
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    rejected_kinds: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Kept:
    subject: Subject
    look: Look | None = None
    state: str = "running"
    failure: str = ""
    rejected: dict[str, int] = field(default_factory=dict)
    newest: dict[str, deque[dict[str, Any]]] = field(
        default_factory=lambda: {name: deque(maxlen=most) for name, most in _MOST.items()}
    )

    def record(self) -> dict[str, Any]:
        return {
            **asdict(self.subject),
            "looks": self.look is not None,
            "state": self.state,
            "failure": self.failure,
            "rejected": dict(self.rejected),
            **{name: list(rows) for name, rows in self.newest.items()},
        }


class Feed:
    """Takes in what queries emit; threads may share it.

    Example:
        >>> feed = Feed()
        >>> feed.add(Subject("visits"))
        >>> feed.batch("visits", 0, at=1000, numbers={"seen": 3})
        >>> [event["kind"] for event in feed.since(0)]
        ['added', 'batch']
        >>> feed.snapshot()["queries"][0]["batches"][0]["numbers"]
        {'seen': 3}
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._log: deque[dict[str, Any]] = deque(maxlen=_LOG)
        self._last = 0
        self._lock = threading.Lock()

    def add(self, subject: Subject, look: Look | None = None) -> None:
        """A query begins, or begins again."""
        with self._lock:
            self._kept[subject.name] = _Kept(subject, look)
            self._publish("added", subject.name, self._kept[subject.name].record())

    def batch(
        self,
        query: str,
        number: int,
        *,
        at: int,
        numbers: Mapping[str, float | None],
        phases: Mapping[str, float] | None = None,
        rejected: Mapping[str, int] | None = None,
        windows: Iterable[Mapping[str, Any]] = (),
        samples: Iterable[Mapping[str, Any]] = (),
        notes: Sequence[str] = (),
    ) -> None:
        """A batch is done.

        Args:
            query: Whose.
            number: Its number; one that comes again after a failure replaces what it emitted.
            at: When, milliseconds since the epoch.
            numbers: What tiles and charts show.
            phases: How many milliseconds each part of it took.
            rejected: How many messages were rejected so far, by reason.
            windows: Windows that emitted.
            samples: Messages that were rejected.
            notes: What else is worth a line.
        """
        # JSON has no word for what is no number.
        known = {n: None if v is None or not isfinite(v) else v for n, v in numbers.items()}
        report = {"batch": number, "at": at, "numbers": known, "phases": dict(phases or {})}
        with self._lock:
            kept = self._kept[query]
            batches = kept.newest["batches"]
            while batches and batches[-1]["batch"] >= number:
                batches.pop()
            batches.append(report)
            news = {
                "windows": [dict(row) for row in windows],
                "samples": [dict(row) for row in samples],
                "notes": [{"at": at, "text": text} for text in notes],
            }
            for name, rows in news.items():
                kept.newest[name].extend(rows)
            kept.rejected.update(rejected or {})
            self._publish("batch", query, {**report, **news, "rejected": dict(kept.rejected)})

    def end(self, query: str, failure: str = "") -> None:
        """A query has ended."""
        with self._lock:
            kept = self._kept[query]
            kept.state, kept.failure = ("failed" if failure else "ended"), failure
            self._publish("ended", query, {"state": kept.state, "failure": failure})

    def look(self, query: str, key: Sequence[str]) -> Mapping[str, Any]:
        """What a query's state holds; takes as long as the query's own looking takes.

        Args:
            query: Which.
            key: A key's values, in the order of its columns; empty for the whole in figures.
        """
        with self._lock:
            kept = self._kept.get(query)
        if kept is None or kept.look is None:
            raise OptionError("query", query, "has no state to look into", "ask for another")
        return kept.look(key)

    def _publish(self, kind: str, query: str, what: dict[str, Any]) -> None:
        self._last += 1
        self._log.append({"id": self._last, "kind": kind, "query": query, "what": what})

    def snapshot(self) -> dict[str, Any]:
        """Everything, and the number of the last event that is in it."""
        with self._lock:
            return {"id": self._last, "queries": [kept.record() for kept in self._kept.values()]}

    def since(self, last: int) -> list[dict[str, Any]] | None:
        """What has happened since an event.

        Returns:
            The events; ``None`` where some are forgotten, so that a snapshot is needed.
        """
        with self._lock:
            news = [event for event in self._log if event["id"] > last]
            complete = len(news) == self._last - last
            return news if complete else None
