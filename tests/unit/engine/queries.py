"""Small queries and messages that the tests of the engine share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.windows.combine import Combined, Combiner
from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.kinds import Kind
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows
from muntin.state.blobs import MemoryBlobs

SCHEMA = pl.Schema(
    {
        "key": pl.String(),
        "value": pl.Int64(),
        "amount": pl.Float64(),
        "flag": pl.Boolean(),
        columns.TIME: pl.Int64(),
    }
)


def combiner(
    windows: Kind | None = None,
    aggs: dict[str, Aggregate] | None = None,
    *,
    schema: dict[str, Any] | None = None,
    keys: tuple[str, ...] = ("key",),
    **options: Any,
) -> Combiner:
    """Return a query over ``SCHEMA``; by default, it counts and sums in tumbling windows of 10."""
    spec = WindowSpec(
        keys=keys,
        time="time",
        windows=windows or Windows(10, 10),
        aggregates=aggs or {"n": aggregates.count(), "sum": aggregates.sum("value")},
        **options,
    )
    return Combiner(spec, pl.Schema({**SCHEMA, **(schema or {})}))


def messages(
    rows: Iterable[tuple[Any, ...]], schema: dict[str, Any] | None = None, **flags: list[Any]
) -> pl.DataFrame:
    """Return messages from tuples ``(key, time, value, amount, flag)``; the end may be omitted."""
    names = ["key", columns.TIME, "value", "amount", "flag"]
    padded = [dict(zip(names, [*row, *[None] * 5], strict=False)) for row in rows]
    types = pl.Schema({**SCHEMA, **(schema or {})})
    frame = pl.DataFrame([{c: row[c] for c in types} for row in padded], schema=types)
    return frame.with_columns(pl.Series(name, flag) for name, flag in flags.items())


def batch(query: Combiner, watermark: int | None, *rows: tuple[Any, ...]) -> list[Combined]:
    """Combine the messages of a batch, given the watermark before it."""
    return [query.combine(messages(rows), watermark)]


def compute_value(
    agg: Aggregate, rows: Iterable[tuple[Any, ...]], cuts: tuple[int, ...] = ()
) -> Any:
    """Return the aggregate of one window whose messages arrive in batches, split at cuts."""
    query = combiner(aggs={"x": agg})
    frame = messages(rows)
    edges = [0, *cuts, len(frame)]
    parts = [query.lift(frame[a:b]) for a, b in pairwise(edges)]
    merged = query.merge(parts, by=query.keys)
    return lower_partials(merged, query)[0]["x"]


def lower_partials(partials: pl.DataFrame, query: Combiner) -> list[dict[str, Any]]:
    """Return the values of rows of partials, without keys and panes."""
    named = zip(query.algebras, query.spec.aggregates, strict=True)
    return pl.DataFrame([a.lower(partials).alias(name) for a, name in named]).to_dicts()


class CountingBlobs(MemoryBlobs):
    """A store that counts its calls and the bytes written."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.written = 0

    def get(self, number: int) -> bytes:
        self.calls["get"] += 1
        return super().get(number)

    def put(self, number: int, blob: bytes) -> None:
        assert number not in self.blobs, "a number is never written twice"
        self.calls["put"] += 1
        self.written += len(blob)
        super().put(number, blob)

    def remove(self, number: int) -> None:
        self.calls["remove"] += 1
        super().remove(number)

    def copy(self) -> CountingBlobs:
        """Return a store with equal content, as a restart from the last commit reads it."""
        blobs_copy = CountingBlobs()
        blobs_copy.manifest, blobs_copy.blobs = self.manifest, dict(self.blobs)
        return blobs_copy
