"""Collects the output of running queries, for pages that are open now or opened later."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from muntin.model.errors import OptionError

Look = Callable[[Sequence[str]], Mapping[str, Any]]
"""Returns the contents of the state as JSON, for a key's values as text, or none."""

# The history of each query that a newly opened page shows.
_HISTORY_LENGTHS = {"batches": 600, "windows": 500, "samples": 50}
# Number of events that a page may fall behind before it gets a new snapshot.
_LOG_LENGTH = 2000


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
        keys: The key columns of its windows.
        columns: All columns of its windows; empty if it has none.
        kinds: How to show columns of its windows: ``time`` (milliseconds) or ``count`` (with
            thousands separators). Other columns are shown unchanged.
        rejected_kinds: How to show columns of its rejected messages, in the same form.
    """

    name: str
    tiles: tuple[Tile, ...] = ()
    charts: tuple[Chart, ...] = ()
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    rejected_kinds: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _QueryHistory:
    subject: Subject
    look: Look | None = None
    state: str = "running"
    failure: str = ""
    degraded: str = ""
    rejected: dict[str, int] = field(default_factory=dict)
    newest: dict[str, deque[dict[str, Any]]] = field(
        default_factory=lambda: {
            name: deque(maxlen=most) for name, most in _HISTORY_LENGTHS.items()
        }
    )

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self.subject),
            "looks": self.look is not None,
            "state": self.state,
            "failure": self.failure,
            "degraded": self.degraded,
            "rejected": dict(self.rejected),
            **{name: list(rows) for name, rows in self.newest.items()},
        }


class Feed:
    """Collects the output of queries; thread-safe.

    Example:
        >>> feed = Feed()
        >>> feed.add(Subject("visits"))
        >>> feed.add_batch("visits", 0, at=1000, numbers={"seen": 3})
        >>> [event["kind"] for event in feed.since(0)]
        ['added', 'batch']
        >>> feed.snapshot()["queries"][0]["batches"][0]["numbers"]
        {'seen': 3}
    """

    def __init__(self) -> None:
        self._histories: dict[str, _QueryHistory] = {}
        self._log: deque[dict[str, Any]] = deque(maxlen=_LOG_LENGTH)
        self._last = 0
        self._lock = threading.Lock()

    def add(self, subject: Subject, look: Look | None = None) -> None:
        """Add a query that starts or restarts."""
        with self._lock:
            self._histories[subject.name] = _QueryHistory(subject, look)
            self._publish("added", subject.name, self._histories[subject.name].to_dict())

    def add_batch(
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
        load: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        """Add a completed batch; a repeated one replaces the previous attempt.

        ``at`` is its end in milliseconds since the epoch, ``phases`` are durations in milliseconds,
        and ``rejected`` counts the messages so far, by reason. ``windows`` and ``samples`` of
        rejected messages are some rows.
        """
        # JSON can't represent NaN and infinities.
        finite = {n: None if v is None or not isfinite(v) else v for n, v in numbers.items()}
        report = {
            "batch": number, "at": at, "numbers": finite, "phases": dict(phases or {}),
            "load": {name: dict(figures) for name, figures in (load or {}).items()},
        }  # fmt: skip
        with self._lock:
            history = self._histories[query]
            batches = history.newest["batches"]
            while batches and batches[-1]["batch"] >= number:
                batches.pop()
            batches.append(report)
            news = {
                "windows": [dict(row) for row in windows],
                "samples": [dict(row) for row in samples],
            }
            for name, rows in news.items():
                history.newest[name].extend(rows)
            history.rejected.update(rejected or {})
            self._publish("batch", query, {**report, **news, "rejected": dict(history.rejected)})

    def mark_degraded(self, query: str, reason: str) -> None:
        """Show why a query doesn't do what it should now; an empty reason if it does."""
        with self._lock:
            history = self._histories[query]
            if history.degraded != reason:
                history.degraded = reason
                self._publish("degraded", query, {"degraded": reason})

    def mark_ended(self, query: str, failure: str = "") -> None:
        """Mark a query as ended or failed."""
        with self._lock:
            history = self._histories[query]
            history.state, history.failure = ("failed" if failure else "ended"), failure
            self._publish("ended", query, {"state": history.state, "failure": failure})

    def look(self, query: str, key: Sequence[str]) -> Mapping[str, Any]:
        """Return the contents of a query's state for a key, or its summary; this may take long."""
        with self._lock:
            history = self._histories.get(query)
        if history is None or history.look is None:
            raise OptionError("query", query, "has no state to look into", "ask for another")
        return history.look(key)

    def _publish(self, kind: str, query: str, what: dict[str, Any]) -> None:
        self._last += 1
        self._log.append({"id": self._last, "kind": kind, "query": query, "what": what})

    def snapshot(self) -> dict[str, Any]:
        """Return everything, with the number of the last event in it."""
        with self._lock:
            return {
                "id": self._last,
                "queries": [history.to_dict() for history in self._histories.values()],
            }

    def since(self, last: int) -> list[dict[str, Any]] | None:
        """Return the events after the one numbered ``last``; ``None`` if some are forgotten."""
        with self._lock:
            news = [event for event in self._log if event["id"] > last]
            complete = len(news) == self._last - last
            return news if complete else None
