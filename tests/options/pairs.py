"""Pairs of options of one query, generated from the rows of ``calls.py``, and what they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any

import polars as pl
from tests.options.calls import BESIDE, CALLS

import muntin as mt
from muntin import testing
from muntin.model.errors import MuntinError
from muntin.sources.source import Source, SourceReader

_DAY = "2026-01-01T"
SCHEMA = pl.Schema(
    {
        "page": pl.String(),
        "ts": pl.Datetime("us", "UTC"),
        "n": pl.Int64(),
        "part": pl.Int64(),
        "clock": pl.Datetime("us", "UTC"),
        "tz": pl.String(),
    }
)
_BATCHES = [
    [("a", "00:00:05", 0, 0, "00:00:05"), ("b", "00:00:30", 0, 1, "00:00:30"),
     ("a", "00:00:31", 10, 0, "00:00:31"), ("a", "00:00:32", 11, 0, "00:00:32"),
     ("a", "00:00:33", 12, 0, "00:00:33")],
    [],
    [("a", "00:00:55", 1, 0, "00:02:00"), ("a", "00:00:55", 1, 0, "00:02:00"),
     (None, "00:01:10", 2, 1, "00:02:10"), ("a", "00:01:30", 2, 0, "00:02:30")],
    [("a", "00:00:50", 3, 0, "00:03:00"), ("b", "00:04:00", 3, 1, "00:03:30")],
    [],
    [("a", "03:00:00", 4, 0, "00:04:00"), ("b", "00:00:52", 5, 0, "00:05:00"),
     ("b", "23:00:00", 6, 0, "00:05:10")],
]  # fmt: skip
_TICKS = ("00:00:35", "00:00:59", "00:02:00", "00:05:00", "00:16:00", "03:01:00")


class Stream(Source):
    """A stream of the messages of a test, which isn't read."""

    schema = SCHEMA

    def open(self) -> SourceReader:
        raise AssertionError("a test doesn't read it")

    def __repr__(self) -> str:
        return "a stream"


@dataclass(frozen=True)
class Setting:
    """One option of a query with its value, and others that it needs.

    Attributes:
        step: The function or method that has it.
        option: Its name.
        arguments: The arguments of the call.
    """

    step: str
    option: str
    arguments: Mapping[str, Any] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.step}({self.option}=)"


KINDS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "tumbling": ("tumbling", ("1 minute",), {}),
    "days": ("tumbling", ("1 day",), {"zone": "Europe/Paris"}),
    "zones": ("tumbling", ("1 hour",), {"zone_column": "tz"}),
    "hopping": ("hopping", ("2 minutes", "1 minute"), {}),
    "cumulating": ("cumulating", ("2 minutes", "1 minute"), {}),
    "sliding": ("sliding", ("1 minute",), {}),
    "rolling": ("rolling", ("1 minute",), {}),
    "trailing": ("trailing", ("1 minute", "1 hour"), {"every": "1 minute"}),
    "sessions": ("session", ("30 seconds",), {}),
    "cut sessions": ("session", ("30 seconds",), {"end": "n = 2"}),
    "rows": ("tumbling", (mt.rows(6),), {}),
    "hopping rows": ("hopping", (mt.rows(6), mt.rows(4)), {}),
    "sliding rows": ("sliding", (mt.rows(2),), {}),
    "rolling rows": ("rolling", (mt.rows(2),), {}),
    "sessions of offsets": ("session", (mt.rows(10),), {}),
}
# Values that suit the messages above better than those of ``calls.py``.
_VALUES: dict[tuple[str, str], Any] = {
    ("windowed", "max_ahead"): "any",
    ("windowed", "clock"): "clock",
    ("windowed", "watermark"): ["part"],
    ("windowed", "idle"): "10 seconds",
    ("windowed", "time"): None,
    (".early", "rows"): 2,
    (".early", "over"): 1,
    (".late", "rows"): 2,
    (".keep", "retention"): "5 hours",
}
_LEFT_OUT = {("windowed", "frame"), ("windowed", "host"), ("windowed", "shards")}


def list_settings() -> Iterator[Setting]:
    """Yield the options of a query that ``calls.py`` has, one at a time."""
    for step in ("windowed", ".early", ".late", ".fill", ".keep"):
        call = CALLS[step]
        for option, (valid, _) in call.options.items():
            if (step, option) in _LEFT_OUT:
                continue
            value = _VALUES.get((step, option), valid)
            own = {} if value is BESIDE else {option: value}
            beside = {} if step == "windowed" else call.beside.get(option, {})
            yield Setting(step, option, {**call.needed, **beside, **own})
    yield Setting(".late", "grace in rows", {"grace": mt.rows(2)})
    yield Setting(".late", "without grace", {"grace": "0 seconds", "each": True})
    yield Setting(".keep", "retention in rows", {"retention": mt.rows(9)})
    yield Setting(".full", "repeat", {"repeat": False})
    yield Setting(".deltas", "", {})
    yield Setting(".sets", "", {"": "rollup"})


SETTINGS = tuple(list_settings())


def build(kind: str, settings: tuple[Setting, ...]) -> Any:
    """Return the query with these options; it raises an error of muntin if it can't work."""
    options: dict[str, Any] = {"key": "page", "time": "ts"}
    if kind == "sessions of offsets":
        options["offset"] = ("part", "n")
    for one in settings:
        options |= one.arguments if one.step == "windowed" else {}
    method, lengths, named = KINDS[kind]
    query = getattr(mt.windowed(Stream(), **options), method)(*lengths, **named)
    for one in settings:
        if one.step != "windowed":
            arguments = dict(one.arguments)
            # The value that fills all aggregates, and the sets, have no name.
            unnamed = [arguments.pop(name) for name in ("value", "") if name in arguments]
            query = getattr(query, one.step[1:])(*unnamed, **arguments)
    return query.agg(views=mt.count(), total=mt.sum("n"))


Build = Callable[[str, tuple[Any, ...]], Any]


@cache
def describe(kind: str, settings: tuple[Any, ...], build: Build = build) -> str | None:
    """Return the description of a query; ``None`` if it is refused."""
    try:
        return str(build(kind, settings).explain())
    except MuntinError:
        return None


@cache
def emit(kind: str, settings: tuple[Setting, ...]) -> str | None:
    """Return what a query emits, rejects and counts; ``None`` if it is refused."""
    ticks = [f"{_DAY}{clock}Z" for clock in _TICKS]
    try:
        ran = testing.run(build(kind, settings), list_messages(), ticks=ticks, final=False)
    except MuntinError:
        return None
    emissions, rejected = ran.emissions, ran.rejected
    return str((emissions.schema, emissions.rows(), rejected.rows(), ran.progress.counts))


@cache
def list_messages() -> list[pl.DataFrame]:
    """Return the batches."""
    times = pl.col("ts", "clock").str.to_datetime(time_unit="us", time_zone="UTC")
    batches = []
    for rows in _BATCHES:
        texts = [
            (page, f"{_DAY}{ts}Z", n, part, f"{_DAY}{clock}Z", "Asia/Tokyo")
            for page, ts, n, part, clock in rows
        ]
        kinds = {n: pl.String() if isinstance(k, pl.Datetime) else k for n, k in SCHEMA.items()}
        batches.append(pl.DataFrame(texts, schema=kinds, orient="row").with_columns(times))
    return batches


def list_settings_of(kind: str) -> list[Setting]:
    """Return the options that a query of a kind doesn't have anyway."""
    return [one for one in SETTINGS if kind != "sessions of offsets" or one.option != "offset"]


def list_pairs(kind: str) -> list[tuple[Setting, Setting]]:
    """Return all pairs of options that aren't of one step, which takes its options at once."""
    return [
        (one, other)
        for one, other in combinations(list_settings_of(kind), 2)
        if one.step != other.step or one.step == "windowed"
    ]
