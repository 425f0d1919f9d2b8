"""Aggregates whose partial is a set: approximate distinct counts, quantiles, and the user's own.

A partial holds the plain values (or register numbers) as a list as long as it is short; lists are
merged in columns. Only what has outgrown that is touched one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from muntin.engine import columns
from muntin.engine.aggregates.algebra import Copied
from muntin.model.aggregates import UserFunctions
from muntin.model.errors import MissingExtraError
from muntin.state.hashing import hash_rows

_RANK_BITS = 6
_HASH_BITS = 40

TYPES: dict[str, Any] = {
    "long": pl.Int64,
    "double": pl.Float64,
    "string": pl.String,
    "binary": pl.Binary,
    "boolean": pl.Boolean,
}


class Distinct(Copied):
    """``approx_distinct``: HyperLogLog registers as a list of (register, rank) in one number each.

    The same set of values gives the same registers in any order and any split.
    Source: Flajolet et al., "HyperLogLog", 2007, with linear counting for small sets.
    """

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
            .with_row_index("row")
            .explode(self.registers)
            .group_by("row", register=packed // (1 << _RANK_BITS))
            .agg(rank=(packed % (1 << _RANK_BITS)).max())
            .filter(pl.col("rank").is_not_null())
            .group_by("row")
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
        found = ranks.select("row", value=estimate.round().cast(pl.Int64))
        rows = frame.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
        joined = rows.join(found, on="row", how="left", maintain_order="left")
        return joined["value"].fill_null(0)


class Quantile(Copied):
    """``quantile``: the values while there are at most ``k``, beyond that a KLL sketch.

    Source: Karnin, Lang, Liberty, "Optimal quantile approximation in streams", 2016; the sketch
    is Apache DataSketches'.
    """

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
        kll = _kll()
        result = kll(self.k)
        for stored in sketches:
            result.merge(kll.deserialize(stored))
        if values:
            result.update(np.asarray(values, dtype=np.float64))
        return result

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        values = pl.col(self.values)
        place = (self.q * values.list.len()).ceil().cast(pl.Int64) - 1
        place = pl.when(place < 0).then(0).otherwise(place)
        exact = values.list.sort().list.get(place, null_on_oob=True)
        result = frame.select(exact.alias(self.values)).to_series()
        sketched = frame.select((pl.col(self.sketch).list.len() > 0).arg_true()).to_series()
        if not len(sketched):
            return result
        some = frame[sketched.to_list()]
        found = [
            self._join(v, s).get_quantile(self.q, True)
            for v, s in zip(some[self.values].to_list(), some[self.sketch].to_list(), strict=True)
        ]
        return result.scatter(sketched, found)


class User(Copied):
    """A user's initializer, aggregator and merger, called one value or state at a time.

    Every message begins a state of its own, and states meet by the merger alone. So it doesn't
    matter which messages were read together, whatever the initializer is.
    """

    def __init__(self, index: int, column: str, functions: UserFunctions) -> None:
        self.states = columns.partial(index, "u")
        self.column = column
        self.functions = functions
        self.state_type = TYPES[functions.state_type]
        self.result_type = TYPES[functions.result_type]

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        # Folded right here: the values must not be taken for states by a later merge.
        fold = pl.col(self.column).drop_nulls()
        states = fold.map_batches(self._fold, return_dtype=self.state_type, returns_scalar=True)
        return [states.drop_nulls().implode().alias(self.states)]

    def _fold(self, values: pl.Series) -> pl.Series:
        begin, add = self.functions.initializer, self.functions.aggregator
        state = self._merge(add(begin(), value) for value in values.to_list())
        return pl.Series([state], dtype=self.state_type)

    def merge(self) -> list[pl.Expr]:
        return [pl.col(self.states).explode().drop_nulls()]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        if not frame.select((pl.col(self.states).list.len() > 1).any()).item():
            return frame
        merged = [
            [s for s in (self._merge(states or ()),) if s is not None]
            for states in frame[self.states].to_list()
        ]
        return frame.with_columns(pl.Series(self.states, merged, dtype=pl.List(self.state_type)))

    def _merge(self, states: Iterable[Any]) -> Any:
        """One state of several; ``None`` is no state."""
        known = (state for state in states if state is not None)
        result = next(known, None)
        for state in known:
            result = state if result is None else self.functions.merger(result, state)
        return result

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        states = [self._merge(s or ()) for s in frame[self.states].to_list()]
        finished = [None if s is None else self.functions.finisher(s) for s in states]
        return pl.Series(self.states, finished, dtype=self.result_type)


def _kll() -> Any:
    try:
        from datasketches import kll_doubles_sketch
    except ImportError as error:
        raise MissingExtraError("quantile() over more than k values", "sketches") from error
    return kll_doubles_sketch
