"""``sum`` and ``mean`` of decimals: exact, in the precision and with the rounding of Spark SQL."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.aggregates import wide
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.windows.compose import Line
from muntin.engine.windows.dense import Scatter

_MOST = 38
# Number of digits before the point that a mean keeps, if its values have them.
_WHOLE = 16
# Number of digits after the point to which Spark divides before it rounds to those of the type.
_DIVIDED = 39


class DecimalSum(Algebra):
    """``sum`` of ``decimal(p, s)``: a ``decimal(p + 10, s)``, of 38 digits at most.

    The partial is the number of values and their sum in limbs, which no number of messages
    overflows. Whether a sum fits its type is checked when a window emits, for its own values only.
    """

    scatters = True

    def __init__(self, index: int, column: str, dtype: pl.Decimal) -> None:
        self.column = column
        self.length = wide.length_of(dtype.precision)
        self.n = columns.partial(index, "n")
        self.limbs = [columns.partial(index, f"l{i}") for i in range(self.length)]
        self.given = dtype
        self.dtype = pl.Decimal(min(_MOST, dtype.precision + 10), dtype.scale)

    def prepare(self) -> list[pl.Expr]:
        fields = {name: pl.Int64() for name in self.limbs}
        limbs = pl.col(self.column).map_batches(self._limbs, return_dtype=pl.Struct(fields))
        return [limbs.struct.unnest()]

    def _limbs(self, decimals: pl.Series) -> pl.Series:
        found = wide.limbs_of(decimals, self.length)
        return pl.DataFrame(dict(zip(self.limbs, found, strict=True))).to_struct(self.column)

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        counted = pl.col(self.column).count().cast(pl.Int64).alias(self.n)
        return [counted, *(pl.col(limb).sum() for limb in self.limbs)]

    def scatter(self, messages: pl.DataFrame, places: Scatter) -> list[pl.Series] | None:
        column = messages[self.column]
        counted = column.is_not_null().cast(pl.Int64).to_numpy()
        limbs = [counted, *wide.limbs_of(column, self.length)]
        named = zip((self.n, *self.limbs), limbs, strict=True)
        return [pl.Series(name, places.add(values)) for name, values in named]

    def merge(self) -> list[pl.Expr]:
        return [pl.col(name).sum() for name in (self.n, *self.limbs)]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        whole = wide.carried(self._held(frame))
        return frame.with_columns(
            pl.Series(name, limb) for name, limb in zip(self.limbs, whole, strict=True)
        )

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        parts = zip((self.n, *self.limbs), [self._count(cells), *self._held(cells)], strict=True)
        return [pl.Series(name, line.add_integers(values)) for name, values in parts]

    def overflowed(self, frame: pl.DataFrame) -> pl.Series:
        number, _ = wide.magnitude(self._held(frame))
        return pl.Series(wide.reaches(number, self.dtype.precision))

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        fits = ~self.overflowed(frame).to_numpy() & (self._count(frame) > 0)
        # Sums that don't fit become null, but the conversion needs a valid number.
        limbs = [np.where(fits, limb, 0) for limb in self._held(frame)]
        return self._shown(limbs, fits)

    def _shown(self, limbs: wide.Limbs, fits: NDArray[np.bool_]) -> pl.Series:
        values = wide.decimals_of(limbs, self.dtype)
        return pl.select(pl.when(pl.Series(fits)).then(values).alias(self.n)).to_series()

    def _held(self, frame: pl.DataFrame) -> wide.Limbs:
        return [frame[name].fill_null(0).to_numpy() for name in self.limbs]

    def _count(self, frame: pl.DataFrame) -> NDArray[np.int64]:
        return frame[self.n].fill_null(0).to_numpy()


class DecimalMean(DecimalSum):
    """``mean`` of ``decimal(p, s)``: a ``decimal(p + 4, s + 4)``, rounded half up.

    Beyond 38 digits the scale shrinks, so that up to 16 digits before the point remain. A mean lies
    between its values, so it doesn't overflow unless they have more digits than that.
    """

    def __init__(self, index: int, column: str, dtype: pl.Decimal) -> None:
        super().__init__(index, column, dtype)
        precision = min(_MOST, dtype.precision + 4)
        whole = min(dtype.precision - dtype.scale, _WHOLE)
        self.dtype = pl.Decimal(precision, min(dtype.scale + 4, precision - whole))

    def overflowed(self, frame: pl.DataFrame) -> pl.Series:
        number, _ = self._mean(frame)
        return pl.Series(wide.reaches(number, self.dtype.precision))

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        number, sign = self._mean(frame)
        fits = ~wide.reaches(number, self.dtype.precision) & (self._count(frame) > 0)
        return self._shown([np.where(fits, limb * sign, 0) for limb in number], fits)

    def _mean(self, frame: pl.DataFrame) -> tuple[wide.Limbs, NDArray[np.int64]]:
        """Return the magnitudes of the rounded means, and their signs."""
        number, sign = wide.magnitude(self._held(frame))
        count = np.maximum(self._count(frame), 1)
        more = 10 ** (self.dtype.scale - self.given.scale)
        whole, left = wide.divided(number, count)
        whole, left = wide.times(whole, more), left * more
        whole[0] = whole[0] + left // count + self._is_up(left % count, count)
        return wide.carried(whole), sign

    def _is_up(self, left: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the remainder of a division rounds up."""
        up = 2 * left >= count
        digits = _DIVIDED - self.dtype.scale
        if digits > 9:
            return up
        # With few digits, Spark's first rounding may turn less than a half into a half.
        small = np.minimum(count, 1 << 31)
        first = (2 * left * np.int64(10**digits) + small) // (2 * small)
        return np.where(count == small, 2 * first >= 10**digits, up)
