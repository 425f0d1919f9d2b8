"""``count``, ``sum``, and the aggregates based on means and deviations."""

from __future__ import annotations

import numpy as np
import polars as pl

from muntin.engine import columns
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.dtypes import fits_in_64_bits
from muntin.engine.windows.compose import Line
from muntin.engine.windows.dense import Scatter, dense_numbers
from muntin.state.rows import fill_nulls

_INT64_SPAN = 2.0**64


def _null_over_nothing(sums: list[pl.Expr], value: pl.Expr) -> list[pl.Expr]:
    """Replace sums without values by null, as in SQL; Polars has 0."""
    return [pl.when(value.count() > 0).then(total) for total in sums]


class Tally(Algebra):
    """``count`` and ``count_if``: an integer that adds."""

    scatters = True

    def __init__(self, index: int, counts: pl.Expr) -> None:
        self.n = columns.partial(index, "n")
        self.counts = counts

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        return [self.counts.sum().cast(pl.Int64).alias(self.n)]

    def scatter(self, messages: pl.DataFrame, groups: Scatter) -> list[pl.Series] | None:
        ones = messages.select(self.counts.fill_null(False).cast(pl.Int64)).to_series()
        return [pl.Series(self.n, groups.add(ones.to_numpy()))]

    def merge(self) -> list[pl.Expr]:
        return [pl.col(self.n).sum()]

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        return [pl.Series(self.n, line.add_integers(cells[self.n].to_numpy()))]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return fill_nulls(frame[self.n], 0)


class MessageCount(Algebra):
    """``count()`` without a column: the count that every partial has anyway."""

    scatters = True

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        return []

    def scatter(self, messages: pl.DataFrame, groups: Scatter) -> list[pl.Series] | None:
        return []

    def merge(self) -> list[pl.Expr]:
        return []

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        return []

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return fill_nulls(frame[columns.MESSAGES], 0)


class IntegerSum(Algebra):
    """``sum`` of integers: exact, with detection of overflows of 64 bits.

    The partial is the sum modulo 2**64 and a rounded double. If the two differ by a multiple of
    2**64, the true sum doesn't fit.
    """

    scatters = True

    def __init__(self, index: int, column: str) -> None:
        self.s = columns.partial(index, "s")
        self.rounded = columns.partial(index, "r")
        self.column = column

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        value, column = pl.col(self.column), messages[self.column]
        # Values of wider types may exceed signed 64 bits: they wrap, as sums do.
        total = value.cast(pl.Int64, wrap_numerical=not fits_in_64_bits(column.dtype)).sum()
        if self._may_wrap(column):
            rounded = value.cast(pl.Float64).sum()
        else:
            rounded = total.cast(pl.Float64)
        lifted = [total.alias(self.s), rounded.alias(self.rounded)]
        return _null_over_nothing(lifted, value) if column.null_count() else lifted

    def scatter(self, messages: pl.DataFrame, groups: Scatter) -> list[pl.Series] | None:
        column = messages[self.column]
        values = dense_numbers(column)
        if values is None or self._may_wrap(column):
            return None
        total = groups.add(values.astype(np.int64, copy=False))
        return [pl.Series(self.s, total), pl.Series(self.rounded, total.astype(np.float64))]

    @staticmethod
    def _may_wrap(column: pl.Series) -> bool:
        """Return whether a sum over the column could exceed 64 bits; if not, a pass is saved."""
        least, greatest = column.min() or 0, column.max() or 0
        bound = max(abs(int(least)), abs(int(greatest)))  # type: ignore[arg-type]
        return bound * len(column) >= 2**63

    def merge(self) -> list[pl.Expr]:
        summed = [pl.col(self.s).sum(), pl.col(self.rounded).sum()]
        return _null_over_nothing(summed, pl.col(self.s))

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        present = line.add_integers(cells[self.s].is_not_null().to_numpy().astype(np.int64)) > 0
        total = line.add_integers(cells[self.s].fill_null(0).to_numpy())
        rounded = line.add_floats(cells[self.rounded].fill_null(0.0).to_numpy())
        pair = pl.DataFrame({self.s: total, self.rounded: rounded, "present": present})
        sums = pair.select(pl.when("present").then(pl.col(self.s, self.rounded)))
        return [sums[self.s], sums[self.rounded]]

    def find_overflows(self, frame: pl.DataFrame) -> pl.Series:
        gap, half = frame[self.rounded] - frame[self.s].cast(pl.Float64), _INT64_SPAN / 2
        return (gap >= half) | (gap <= -half)

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        overflows, sums = self.find_overflows(frame), frame[self.s]
        return sums.set(overflows, None) if overflows.any() else sums


class FloatSum(Algebra):
    """``sum`` of doubles; it slides by two stacks, since differences of doubles would drift."""

    scatters = True

    def __init__(self, index: int, column: str) -> None:
        self.s = columns.partial(index, "s")
        self.column = column

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        value = pl.col(self.column).cast(pl.Float64)
        summed = [value.sum().alias(self.s)]
        return _null_over_nothing(summed, value) if messages[self.column].null_count() else summed

    def scatter(self, messages: pl.DataFrame, groups: Scatter) -> list[pl.Series] | None:
        values = dense_numbers(messages[self.column])
        if values is None:
            return None
        return [pl.Series(self.s, groups.add_floats(values.astype(np.float64, copy=False)))]

    def merge(self) -> list[pl.Expr]:
        return _null_over_nothing([pl.col(self.s).sum()], pl.col(self.s))

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        present = line.add_integers(cells[self.s].is_not_null().to_numpy().astype(np.int64)) > 0
        total = line.add_floats(cells[self.s].fill_null(0.0).to_numpy())
        frame = pl.DataFrame({self.s: total, "present": present})
        return [frame.select(pl.when("present").then(self.s).alias(self.s)).to_series()]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return frame[self.s]


class Moments(Algebra):
    """``mean``, ``variance``, ``stddev``: count, mean and squared deviations, merged pairwise.

    The mean of whole numbers is their sum, divided once: a product of count and mean is within a
    rounding error of the sum, which is a whole number. So it doesn't depend on the batches.

    Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm", 1979.
    """

    scatters = True

    def __init__(self, index: int, column: str, kind: str, dtype: pl.DataType) -> None:
        self.n, self.m, self.d = (columns.partial(index, x) for x in ("n", "m", "d"))
        self.column = column
        self.kind = kind
        self.is_whole = dtype.is_integer()

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        value = pl.col(self.column).cast(pl.Float64)
        deviations = value.var(ddof=0) * value.count()
        return [
            value.count().cast(pl.Int64).alias(self.n),
            value.mean().fill_null(0.0).alias(self.m),
            deviations.fill_null(0.0).alias(self.d),
        ]

    def scatter(self, messages: pl.DataFrame, groups: Scatter) -> list[pl.Series] | None:
        values = dense_numbers(messages[self.column])
        if values is None:
            return None
        means, deviations = groups.moments(values.astype(np.float64, copy=False))
        partials = (groups.count(), means, deviations)
        return [pl.Series(c, x) for c, x in zip((self.n, self.m, self.d), partials, strict=True)]

    def merge(self) -> list[pl.Expr]:
        n, m, d = pl.col(self.n), pl.col(self.m), pl.col(self.d)
        total, sums = n.sum(), n * m
        sums = sums.round() if self.is_whole else sums
        mean = pl.when(total > 0).then(sums.sum() / total).otherwise(0.0)
        return [
            total.alias(self.n),
            mean.alias(self.m),
            (d + n * (m - mean) * (m - mean)).sum().alias(self.d),
        ]

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        parts = [cells[c].cast(pl.Float64).to_numpy() for c in (self.n, self.m, self.d)]
        n, m, d = line.combine(parts, _combine_whole if self.is_whole else _combine)
        return [pl.Series(self.n, n.astype(np.int64)), pl.Series(self.m, m), pl.Series(self.d, d)]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        n, mean = pl.col(self.n), pl.col(self.m)
        variance = pl.when(n > 1).then(pl.col(self.d) / (n - 1))
        value = {
            "mean": pl.when(n > 0).then(mean),
            "variance": variance,
            "stddev": variance.sqrt(),
        }[self.kind]
        return frame.select(value.alias(self.m)).to_series()


def _combine(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    """Combine counts, means and squared deviations."""
    (na, ma, da), (nb, mb, db) = a, b
    n = na + nb
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.divide(nb, n, out=np.zeros_like(n), where=n > 0)
        gap = mb - ma
        # The gap to an infinity is useless; the mean is then the weighted mean of both.
        mean = np.where(np.isfinite(gap), ma + gap * share, ma * (1 - share) + mb * share)
        deviations = da + db + np.where(np.isinf(ma) | np.isinf(mb), np.nan, gap * gap * na * share)
    # An empty side doesn't change the other one, even an infinity.
    mean = np.where(na == 0, mb, np.where(nb == 0, ma, mean))
    deviations = np.where(na == 0, db, np.where(nb == 0, da, deviations))
    return [n, mean, deviations]


def _combine_whole(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    """Combine those of whole numbers, whose sums are whole numbers."""
    n, mean, deviations = _combine(a, b)
    sums = np.rint(a[0] * a[1]) + np.rint(b[0] * b[1])
    return [n, np.divide(sums, n, out=mean, where=n > 0), deviations]
