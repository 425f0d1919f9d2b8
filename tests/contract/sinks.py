"""Where sinks write to, and what is found there; a batch as sinks see it, without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import duckdb
import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from tests.spark.feed import DAY, STAMP, at

import muntin as mt
from muntin.spark.sinks.files import Sink
from muntin.spark.sinks.unstorable import Letters
from muntin.testing.oracle.emitting import nulls_first


@dataclass
class Written:
    """A batch of a few windows."""

    number: int
    said: list[tuple[str | None, int, int | None, int]]
    kind: str = "results"
    keys: tuple[str, ...] | None = ("key",)
    query: str = "a query"

    @property
    def empty(self) -> bool:
        """Whether there are no rows."""
        return not self.said

    @property
    def identity(self) -> tuple[str, ...] | None:
        """What identifies a window."""
        return None if self.keys is None else (*self.keys, "window_start", "window_end")

    def table(self) -> pa.Table:
        """Key, start of the window, count and revision."""
        emissions = ["retract" if n is None else "full" for _, _, n, _ in self.said]
        columns = {
            "key": pa.array([key for key, _, _, _ in self.said], pa.string()),
            "window_start": pa.array([at(start) for _, start, _, _ in self.said], STAMP),
            "window_end": pa.array([at(start + 10) for _, start, _, _ in self.said], STAMP),
            "n": pa.array([n for _, _, n, _ in self.said], pa.int64()),
            "emission": pa.array(emissions, pa.string()),
            "revision": pa.array([revision for _, _, _, revision in self.said], pa.int32()),
        }
        return pa.table(columns)

    @property
    def frame(self) -> DataFrame:
        """The rows, as sinks that write from the executors take them."""
        return SparkSession.active().createDataFrame(self.table())


@dataclass
class Rows:
    """A batch of one Arrow table."""

    rows: pa.Table
    keys: tuple[str, ...] | None = None
    number: int = 0
    kind: str = "rejected"
    empty: bool = False
    letters: Letters = field(default_factory=lambda: Letters("rejected"))

    @property
    def identity(self) -> tuple[str, ...] | None:
        """What identifies a row."""
        return self.keys

    def table(self) -> pa.Table:
        """The rows."""
        return self.rows

    def aside(self) -> list[tuple[str, str, dict[str, Any]]]:
        """What was set aside: where, why, and the row."""
        rows = [row for frame in self.letters.frames for row in frame.to_pylist()]
        return [(row["sink"], row["why"], json.loads(row["row"])) for row in rows]


class Place(Protocol):
    """Where sinks write to."""

    def sink(self, table: str, history: str | None) -> Sink:
        """A sink."""

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """What is in a table, in order."""


class DuckDBPlace:
    """A file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_duckdb(str(self.path), table, history=history)

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        names = ", ".join(map(_quoted, columns))
        with duckdb.connect(str(self.path)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.execute(f"SELECT {names} FROM {_quoted(table)}").fetchall()
        return in_order(found)


class PostgresPlace:
    """A database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_postgres(self.dsn, table, history=history)

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(table))
        with psycopg.connect(self.dsn) as connection:
            return in_order(connection.execute(query).fetchall())


class DeltaPlace:
    """Tables in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_delta(self._path(table), history=history and self._path(history))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = self.spark.read.format("delta").load(self._path(table)).select(*columns)
        return in_order([tuple(row.values()) for row in found.toArrow().to_pylist()])

    def _path(self, table: str) -> str:
        return f"{self.folder}/{table}"


def in_order(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in order, NULL first, moments as seconds of the day that they are about."""
    rows = [
        tuple((v - DAY).total_seconds() if hasattr(v, "tzinfo") else v for v in row)
        for row in found
    ]
    return sorted(rows, key=nulls_first)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
