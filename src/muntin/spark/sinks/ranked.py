"""Emits the rows of each window as single rows: the first ones in an order, or all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.hosts.chain import WINDOW_TIME
from muntin.hosts.ranking import (
    SORT_KEY,
    collect_ranked,
    complete_names,
    expand_choice,
    list_ranked_columns,
    list_star,
)
from muntin.model.aggregates import Aggregate
from muntin.model.aggregates.ranked import DENSE_RANK
from muntin.model.pipeline import (
    EMISSION_COLUMNS,
    FIRST,
    LAST,
    NUMBER,
    ROW,
    ROW_INDEX,
    ROWS,
    WINDOW_BOUNDS,
    Choice,
    Ranking,
    quote_name,
)
from muntin.model.ranking import list_identity_columns
from muntin.spark.host.chain import filter_results


def rows_of(frame: DataFrame, ranking: Ranking) -> Aggregate:
    """Return the aggregate that collects the rows of a window."""
    names = list_ranked_columns(frame.columns, ranking)
    shown = [F.col(quote_name(name)) for name in names]
    by = [F.expr(text).alias(f"{SORT_KEY}{index}") for index, text in enumerate(ranking.by)]
    return collect_ranked(F.struct(*by, *shown), ranking)


def one_by_one(frame: DataFrame) -> DataFrame:
    """Return a row for each row of an emission; an emission without rows gets a null row."""
    return frame.selectExpr("*", f"posexplode_outer({ROWS}) AS ({ROW_INDEX}, {ROW})")


@dataclass(frozen=True)
class RankedShape:
    """The rows of windows, numbered.

    Attributes:
        ranking: The order and the select lists.
        per: The keys, without the bounds of the windows.
    """

    by_window: ClassVar[bool] = False

    ranking: Ranking
    per: tuple[str, ...]

    @classmethod
    def of(cls, ranking: Ranking, keys: Sequence[str]) -> RankedShape:
        """Return the shape of a query with these keys."""
        return cls(ranking, tuple(key for key in keys if key not in (FIRST, LAST)))

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that identify a row together with its window's bounds."""
        return (*self.per, *list_identity_columns(self.ranking))

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        frame_in_order, shown = self._number_rows(frame, beside)
        for choice in self.ranking.choices:
            frame_in_order, shown = self._select(frame_in_order, shown, choice, beside)
        names = complete_names(shown, self.per, self.ranking)
        return frame_in_order.selectExpr(*map(quote_name, names), *EMISSION_COLUMNS, *beside)

    def bounds(self, distances: Mapping[str, int]) -> dict[str, int]:
        # The selected bounds may be those of other windows.
        return {}

    def _number_rows(self, frame: DataFrame, beside: Sequence[str]) -> tuple[DataFrame, list[str]]:
        """Return the rows with all of their columns, and the names that ``*`` stands for."""
        kind: Any = frame.schema[ROWS].dataType
        fields = [name for name in kind.elementType.names if not name.startswith(SORT_KEY)]
        bounds = (FIRST, LAST) if self.ranking.chained else WINDOW_BOUNDS
        exploded = one_by_one(frame)
        shown = {name: f"{bound}" for name, bound in zip(WINDOW_BOUNDS, bounds, strict=True)}
        rest = {name: f"{ROW}.{quote_name(name)}" for name in fields if name not in self.per}
        whole = {key: quote_name(key) for key in self.per} | shown | rest
        whole[self.ranking.number] = _number(self.ranking)
        if self.ranking.has_ties:
            whole[NUMBER] = f"{ROW_INDEX} + 1"
        if WINDOW_TIME not in whole:
            whole[WINDOW_TIME] = f"{bounds[1]} - INTERVAL '0.001' SECOND"
        texts = [f"{text} AS {quote_name(name)}" for name, text in whole.items()]
        rows = filter_results(exploded, f"{ROW} IS NOT NULL", beside)
        names = list_star(fields, self.per, self.ranking)
        return rows.selectExpr(*texts, *EMISSION_COLUMNS, *beside), names

    def _select(
        self, frame: DataFrame, shown: list[str], choice: Choice, beside: Sequence[str]
    ) -> tuple[DataFrame, list[str]]:
        """Return the rows and columns of one select list, and always the identifying columns."""
        if choice.where is not None:
            frame = filter_results(frame, choice.where, beside)
        if choice.columns is None:
            return frame, shown
        texts = expand_choice(choice.columns, shown, self.per, self.ranking)
        shaped = [f"{text} AS {quote_name(name)}" for name, text in texts.items()]
        return frame.selectExpr(*shaped, *EMISSION_COLUMNS, *beside), [*texts]


def _number(ranking: Ranking) -> str:
    """Return the SQL of a row's number, from the rows of its window."""
    if not ranking.has_ties:
        return f"{ROW_INDEX} + 1"
    fields = [f"{{row}}.{SORT_KEY}{index}" for index in range(len(ranking.by))]
    order = f"struct({', '.join(fields)})"
    orders = f"transform({ROWS}, row -> {order.format(row='row')})"
    if ranking.function == DENSE_RANK:
        orders = f"array_distinct({orders})"
    return f"CAST(array_position({orders}, {order.format(row=ROW)}) AS INT)"
