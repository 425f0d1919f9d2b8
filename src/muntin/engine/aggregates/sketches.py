"""Aggregates whose partial is a set: approximate distinct counts, and quantiles.

While it is short, a partial holds the plain values (or register numbers) as a list, and lists are
merged in columns. Only partials that have outgrown this are processed one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from muntin.engine import columns
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.aggregates.collected import ROW, join_by_row
from muntin.model.errors import MissingExtraError
from muntin.state.hashing import hash_rows

_RANK_BITS = 6
_HASH_BITS = 40


class Distinct(Algebra):
    """``approx_distinct``: a list of HyperLogLog registers, each packed with its rank.

    The same set of values gives the same registers in any order and any split.
    Source: Flajolet et al., "HyperLogLog", 2007, with linear counting for small sets.
    """

    slides = False

    def __init__(self, index: int, column: str, lg_k: int) -> None:
        self.registers = columns.partial(index, "h")
        self.column = column
        self.lg_k = lg_k

    def prepare(self) -> list[pl.Expr]:
        packed = pl.col(self.column).map_batches(self._pack, return_dtype=pl.UInt32)
        return [packed.alias(self.registers)]

    def _pack(self, values: pl.Series) -> pl.Series:
        hashes = hash_rows([values])
        register = (hashes >> np.uint64(64 - self.lg_k)).astype(np.uint32)
        low = (hashes & np.uint64((1 << _HASH_BITS) - 1)).astype(np.float64)
        rank = (_HASH_BITS + 1 - np.frexp(low)[1]).astype(np.uint32)
        packed = pl.Series((register << np.uint32(_RANK_BITS)) | rank, dtype=pl.UInt32)
        return pl.select(pl.when(values.is_not_null()).then(packed)).to_series()

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        return [pl.col(self.registers).drop_nulls().unique()]

    def merge(self) -> list[pl.Expr]:
        return [pl.col(self.registers).explode().drop_nulls().unique()]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        m = 1 << self.lg_k
        packed = pl.col(self.registers)
        ranks = (
            frame.select(packed)
            .with_row_index(ROW)
            .explode(self.registers)
            .group_by(ROW, register=packed // (1 << _RANK_BITS))
            .agg(rank=(packed % (1 << _RANK_BITS)).max())
            .filter(pl.col("rank").is_not_null())
            .group_by(ROW)
            .agg(
                used=pl.len().cast(pl.Float64),
                inverse=(2.0 ** -pl.col("rank").cast(pl.Float64)).sum(),
            )
        )
        alpha = 0.7213 / (1 + 1.079 / m) if m >= 128 else {16: 0.673, 32: 0.697, 64: 0.709}[m]
        empty = m - pl.col("used")
        raw = alpha * m * m / (pl.col("inverse") + empty)
        small = m * (m / empty).log()
        estimate = pl.when((raw <= 2.5 * m) & (empty > 0)).then(small).otherwise(raw)
        estimates = ranks.select(ROW, value=estimate.round().cast(pl.Int64))
        return join_by_row(frame, estimates)["value"].fill_null(0)


class Quantile(Algebra):
    """``quantile``: the values while there are at most ``k``, and a KLL sketch beyond that.

    Source: Karnin, Lang, Liberty, "Optimal quantile approximation in streams", 2016; the sketch
    is Apache DataSketches'.
    """

    slides = False

    def __init__(self, index: int, column: str, q: float, k: int) -> None:
        self.values, self.sketch = columns.partial(index, "v"), columns.partial(index, "k")
        self.column = column
        self.q, self.k = q, k

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        values = pl.col(self.column).cast(pl.Float64).drop_nulls().drop_nans()
        empty = pl.lit(None, dtype=pl.Binary).implode().list.drop_nulls()
        return [values.alias(self.values), empty.alias(self.sketch)]

    def merge(self) -> list[pl.Expr]:
        return [
            pl.col(self.values).explode().drop_nulls(),
            pl.col(self.sketch).explode().drop_nulls(),
        ]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        sizes = pl.col(self.values).list.len()
        many = (sizes > self.k) | (pl.col(self.sketch).list.len() > 1)
        rows = frame.select(many.fill_null(False).arg_true()).to_series().to_list()
        if not rows:
            return frame
        values, sketches = frame[self.values].to_list(), frame[self.sketch].to_list()
        for row in rows:
            sketches[row] = [self._join(values[row], sketches[row]).serialize()]
            values[row] = []
        return frame.with_columns(
            pl.Series(self.values, values, dtype=pl.List(pl.Float64)),
            pl.Series(self.sketch, sketches, dtype=pl.List(pl.Binary)),
        )

    def _join(self, values: list[float], sketches: list[bytes]) -> Any:
        kll = _import_kll()
        result = kll(self.k)
        for stored in sketches:
            result.merge(kll.deserialize(stored))
        if values:
            result.update(np.asarray(values, dtype=np.float64))
        return result

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        values = pl.col(self.values)
        index = (self.q * values.list.len()).ceil().cast(pl.Int64) - 1
        index = pl.when(index < 0).then(0).otherwise(index)
        exact = values.list.sort().list.get(index, null_on_oob=True)
        result = frame.select(exact.alias(self.values)).to_series()
        sketched = frame.select((pl.col(self.sketch).list.len() > 0).arg_true()).to_series()
        if not len(sketched):
            return result
        rows = frame[sketched.to_list()]
        quantiles = [
            self._join(v, s).get_quantile(self.q, True)
            for v, s in zip(rows[self.values].to_list(), rows[self.sketch].to_list(), strict=True)
        ]
        return result.scatter(sketched, quantiles)


def _import_kll() -> Any:
    try:
        from datasketches import kll_doubles_sketch
    except ImportError as error:
        raise MissingExtraError("quantile() over more than k values", "sketches") from error
    return kll_doubles_sketch
