"""Select lists over results: computed columns and ``HAVING``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from muntin.engine import columns
from muntin.hosts.pair_columns import PairColumns
from muntin.model.joins import JoinSpec
from muntin.model.pipeline import (
    NUMBER,
    ROW,
    SIDE_COLUMNS,
    Column,
    JoinRelation,
    WindowRelation,
    quote_name,
)
from muntin.sinks.batch import Batch
from muntin.sinks.sink import Sink, SinkLike, to_sink
from muntin.spark.host.chain import filter_results, find_end_columns
from muntin.spark.lookups import TableBeside
from muntin.spark.sinks.batch import EmittedRows
from muntin.spark.sinks.ranked import RankedShape, one_by_one
from muntin.spark.sinks.writers import check_destination, table_schema

_HOLDS = "__muntin_holds"
# A plain column, or a field of a side, without any computation.
_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_COLUMN = re.compile(rf"{_NAME}(?:\.{_NAME})*")


@dataclass(frozen=True)
class WindowShape:
    """A select list over the emissions of windows.

    Attributes:
        having: The condition of ``HAVING``; ``None`` selects every firing.
        accumulate: Whether an emission has the whole result.
        retracts: Whether windows may vanish.
        tables: The tables that are looked up for each firing.
    """

    columns: tuple[Column, ...]
    having: str | None
    identity: tuple[str, ...]
    accumulate: bool
    retracts: bool
    tables: tuple[TableBeside, ...] = ()

    @property
    def by_window(self) -> bool:
        """True if an emission stays one row; a looked-up table may have several rows for it."""
        return not self.tables

    @classmethod
    def of(
        cls, windowing: WindowRelation, tables: tuple[TableBeside, ...] = ()
    ) -> WindowShape | None:
        """Return the select list of a query; ``None`` where it selects emissions unchanged."""
        if windowing.columns is None:
            return None
        return cls(
            windowing.columns,
            windowing.having,
            (*windowing.spec.keys, columns.WINDOW_START, columns.WINDOW_END, columns.REVISION),
            windowing.spec.firing.accumulate,
            windowing.spec.windows.retracts,
            tables,
        )

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        """Return the selected columns of emissions.

        An emission that doesn't meet ``HAVING`` becomes a retraction if an earlier one of its
        window may have met it. The columns ``beside`` stay unchanged; the first is null in
        emissions only.
        """
        for table in self.tables:
            frame = table.of_frame(frame, beside)
        if self.having is None:
            # The computed columns of a retraction are null, whatever their expressions yield.
            alive = f"{columns.EMISSION} <> 'retract'" if self.retracts else None
            return frame.selectExpr(*(self._select_text(c, alive) for c in self.columns), *beside)
        frame = frame.selectExpr("*", f"coalesce(({self.having}), false) AS {_HOLDS}")
        shown = f"{_HOLDS} OR {columns.EMISSION} = 'retract'"
        if self.accumulate:
            shown += f" OR {columns.REVISION} > 0"
        rows = filter_results(frame, shown, beside)
        return rows.selectExpr(*(self._select_text(c, _HOLDS) for c in self.columns), *beside)

    def bounds(self, distances: Mapping[str, int]) -> dict[str, int]:
        return find_end_columns(((c.name, c.text) for c in self.columns), distances)

    def _select_text(self, column: Column, alive: str | None) -> str:
        name, text = quote_name(column.name), column.text
        if alive is None or (column.bare and column.name in self.identity):
            return f"{text} AS {name}"
        if column.text == columns.EMISSION and self.having is not None:
            return f"CASE WHEN {_HOLDS} THEN {columns.EMISSION} ELSE 'retract' END AS {name}"
        if column.text in (columns.WINDOW_START, columns.WINDOW_END, columns.EMISSION):
            return f"{text} AS {name}"
        return f"CASE WHEN {alive} THEN {text} END AS {name}"


@dataclass(frozen=True)
class EachShape:
    """A select list over the single messages that a window ends with.

    Attributes:
        having: The condition of ``HAVING``; ``None`` selects every row.
        identity: The columns that identify a row together with its window's bounds.
        tables: The tables that are looked up for each row.
    """

    by_window: ClassVar[bool] = False

    columns: tuple[Column, ...]
    having: str | None
    identity: tuple[str, ...]
    tables: tuple[TableBeside, ...] = ()

    @classmethod
    def of(cls, windowing: WindowRelation, tables: tuple[TableBeside, ...] = ()) -> EachShape:
        """Return the select list of a query."""
        assert windowing.columns is not None
        return cls(windowing.columns, windowing.having, (*windowing.spec.keys, NUMBER), tables)

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        frame = one_by_one(frame)
        for table in self.tables:
            frame = table.of_frame(frame, beside)
        shown = f"{ROW} IS NOT NULL"
        if self.having is not None:
            shown += f" AND {self.having}"
        rows = filter_results(frame, shown, beside)
        return rows.selectExpr(
            *(f"{c.text} AS {quote_name(c.name)}" for c in self.columns), *beside
        )

    def bounds(self, distances: Mapping[str, int]) -> dict[str, int]:
        return find_end_columns(((c.name, c.text) for c in self.columns), distances)


@dataclass(frozen=True)
class PlainShape:
    """A select list over the messages of a query without windows.

    Attributes:
        columns: The columns, in order; ``None`` is all of them.
        identity: Nothing identifies a row: sinks append it.
    """

    by_window: ClassVar[bool] = False
    identity: ClassVar[None] = None

    columns: tuple[Column, ...] | None

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        rows = filter_results(one_by_one(frame), f"{ROW} IS NOT NULL", beside)
        rows = rows.selectExpr(f"{ROW}.*", *beside)
        return rows if self.columns is None else select_columns(rows, self.columns, beside)

    def bounds(self, distances: Mapping[str, int]) -> dict[str, int]:
        # Rows without windows have no bounds.
        return {}


def select_columns(
    frame: DataFrame, shown: Sequence[Column], beside: Sequence[str] = ()
) -> DataFrame:
    """Return the selected columns of rows; ``*`` among them includes the columns ``beside``."""
    texts = ["*" if c.text == "*" else f"{c.text} AS {quote_name(c.name)}" for c in shown]
    return frame.selectExpr(*texts, *(() if "*" in texts else beside))


@dataclass(frozen=True)
class PairShape:
    """A select list over pairs.

    Attributes:
        columns: The columns, in order; ``None`` is all of them.
        where: The condition of ``WHERE``; ``None`` selects every pair.
        names: The names in the statement for the columns of pairs.
    """

    by_window: ClassVar[bool] = False

    columns: tuple[Column, ...] | None
    where: str | None
    names: PairColumns

    @classmethod
    def of(
        cls, joining: JoinRelation, spec: JoinSpec, left: Sequence[str], right: Sequence[str]
    ) -> PairShape:
        """Return the select list of a join, whose spec has the frames' own column names."""
        return cls(joining.columns, joining.where, PairColumns.of(joining, spec, left, right))

    @property
    def computes(self) -> bool:
        """True if it filters pairs or computes a column."""
        shown = self.columns or ()
        return self.where is not None or not all(_COLUMN.fullmatch(one.text) for one in shown)

    def name_pairs(self, frame: DataFrame) -> DataFrame:
        """Return pairs with every name by which expressions may refer to their columns."""
        shown = []
        for name, other in self.names.list_unqualified(frame.columns):
            text = quote_name(name)
            shown.append(
                text if other is None else f"coalesce({text}, {quote_name(other)}) AS {text}"
            )
        for side, names in self.names.list_sides(frame.columns):
            fields = ", ".join(
                f"{_text(own)}, {quote_name(column)}" for own, column in names.items()
            )
            # A struct with the name of the side lets expressions qualify its columns.
            shown.append(f"named_struct({fields}) AS {quote_name(side)}")
        return frame.selectExpr(*shown)

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        whole = self.name_pairs(frame)
        if self.where is not None:
            whole = filter_results(whole, self.where, beside)
        if self.columns is None:
            return whole.drop(*SIDE_COLUMNS, *self.names.payloads)
        shown = map(self._select_text, self.names.select(self.columns))
        return whole.selectExpr(*shown, *self.names.emission_columns, *beside)

    def _select_text(self, column: Column) -> str:
        if not self.names.is_null_in_retractions(column):
            return f"{column.text} AS {quote_name(column.name)}"
        alive = f"{columns.EMISSION} <> 'retract'"
        return f"CASE WHEN {alive} THEN {column.text} END AS {quote_name(column.name)}"

    def bounds(self, distances: Mapping[str, int]) -> dict[str, int]:
        # Pairs have no windows.
        return {}


def _text(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


AnyShape = WindowShape | RankedShape | EachShape | PlainShape | PairShape


class SelectedSink:
    """A sink that receives the selected columns of results."""

    def __init__(self, target: Sink, shape: AnyShape, shown: StructType) -> None:
        self.target = target
        self.shape = shape
        self.shown = shown

    @cached_property
    def _columns(self) -> pa.Schema:
        return table_schema(self.shown)

    @property
    def location(self) -> str:
        """The table in messages."""
        return str(getattr(self.target, "location", ""))

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        tables = self.shape.tables if isinstance(self.shape, WindowShape | EachShape) else ()
        for table in tables:
            table.check()
        check_destination(self.target, self.shown, self._keys(keys))

    def write(self, batch: Batch) -> None:
        assert isinstance(batch.rows, EmittedRows)
        rows = replace(batch.rows, shape=self.shape.of_frame)
        keys = self._keys(batch.keys)
        self.target.write(replace(batch, schema=self._columns, keys=keys, rows=rows))

    def _keys(self, keys: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the columns that identify a selected row together with its window's bounds."""
        if isinstance(self.shape, RankedShape | EachShape | PlainShape):
            return self.shape.identity
        return keys


def wrap_sink(target: SinkLike | None, shape: AnyShape, shown: StructType) -> Sink | None:
    """Return a sink that receives the selected columns of results; ``None`` without a sink."""
    sink = to_sink(target)
    return None if sink is None else SelectedSink(sink, shape, shown)
