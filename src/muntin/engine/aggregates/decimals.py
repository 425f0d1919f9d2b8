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

_MAX_PRECISION = 38
# Number of digits before the point that a mean keeps, if its values have them.
_WHOLE_DIGITS = 16
# Number of digits after the point to which Spark divides before it rounds to those of the type.
_QUOTIENT_SCALE = 39


class DecimalSum(Algebra):
    """``sum`` of ``decimal(p, s)``: a ``decimal(p + 10, s)``, of 38 digits at most.

    The partial is the number of values and their sum in limbs, which no number of messages
    overflows. Whether a sum fits its type is checked when a window emits, for its own values only.
    """

    scatters = True

    def __init__(self, index: int, column: str, dtype: pl.Decimal) -> None:
        self.column = column
        self.length = wide.count_limbs(dtype.precision)
        self.n = columns.partial(index, "n")
        self.limbs = [columns.partial(index, f"l{i}") for i in range(self.length)]
        self.column_dtype = dtype
        self.dtype = pl.Decimal(min(_MAX_PRECISION, dtype.precision + 10), dtype.scale)

    def prepare(self) -> list[pl.Expr]:
        fields = {name: pl.Int64() for name in self.limbs}
        limbs = pl.col(self.column).map_batches(self._limbs, return_dtype=pl.Struct(fields))
        return [limbs.struct.unnest()]

    def _limbs(self, decimals: pl.Series) -> pl.Series:
        limbs = wide.to_limbs(decimals, self.length)
        return pl.DataFrame(dict(zip(self.limbs, limbs, strict=True))).to_struct(self.column)

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        count = pl.col(self.column).count().cast(pl.Int64).alias(self.n)
        return [count, *(pl.col(limb).sum() for limb in self.limbs)]

    def scatter(self, messages: pl.DataFrame, groups: Scatter) -> list[pl.Series] | None:
        column = messages[self.column]
        is_present = column.is_not_null().cast(pl.Int64).to_numpy()
        limbs = [is_present, *wide.to_limbs(column, self.length)]
        columns_by_name = zip((self.n, *self.limbs), limbs, strict=True)
        return [pl.Series(name, groups.add(values)) for name, values in columns_by_name]

    def merge(self) -> list[pl.Expr]:
        return [pl.col(name).sum() for name in (self.n, *self.limbs)]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        whole = wide.carry(self._read_limbs(frame))
        return frame.with_columns(
            pl.Series(name, limb) for name, limb in zip(self.limbs, whole, strict=True)
        )

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        parts = zip(
            (self.n, *self.limbs), [self._count(cells), *self._read_limbs(cells)], strict=True
        )
        return [pl.Series(name, line.add_integers(values)) for name, values in parts]

    def find_overflows(self, frame: pl.DataFrame) -> pl.Series:
        number, _ = wide.split_sign(self._read_limbs(frame))
        return pl.Series(wide.reaches(number, self.dtype.precision))

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        fits = ~self.find_overflows(frame).to_numpy() & (self._count(frame) > 0)
        # Sums that don't fit become null, but the conversion needs a valid number.
        limbs = [np.where(fits, limb, 0) for limb in self._read_limbs(frame)]
        return self._to_series(limbs, fits)

    def _to_series(self, limbs: wide.Limbs, fits: NDArray[np.bool_]) -> pl.Series:
        values = wide.to_decimals(limbs, self.dtype)
        return pl.select(pl.when(pl.Series(fits)).then(values).alias(self.n)).to_series()

    def _read_limbs(self, frame: pl.DataFrame) -> wide.Limbs:
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
        precision = min(_MAX_PRECISION, dtype.precision + 4)
        whole = min(dtype.precision - dtype.scale, _WHOLE_DIGITS)
        self.dtype = pl.Decimal(precision, min(dtype.scale + 4, precision - whole))

    def find_overflows(self, frame: pl.DataFrame) -> pl.Series:
        number, _ = self._mean(frame)
        return pl.Series(wide.reaches(number, self.dtype.precision))

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        number, sign = self._mean(frame)
        fits = ~wide.reaches(number, self.dtype.precision) & (self._count(frame) > 0)
        return self._to_series([np.where(fits, limb * sign, 0) for limb in number], fits)

    def _mean(self, frame: pl.DataFrame) -> tuple[wide.Limbs, NDArray[np.int64]]:
        """Return the magnitudes of the rounded means, and their signs."""
        number, sign = wide.split_sign(self._read_limbs(frame))
        count = np.maximum(self._count(frame), 1)
        factor = 10 ** (self.dtype.scale - self.column_dtype.scale)
        whole, remainder = wide.divide_limbs(number, count)
        whole, remainder = wide.multiply(whole, factor), remainder * factor
        whole[0] = whole[0] + remainder // count + self._is_up(remainder % count, count)
        return wide.carry(whole), sign

    def _is_up(self, remainder: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the remainder of a division rounds up."""
        is_up = 2 * remainder >= count
        digits = _QUOTIENT_SCALE - self.dtype.scale
        if digits > 9:
            return is_up
        # With few digits, Spark's first rounding may turn less than a half into a half.
        small = np.minimum(count, 1 << 31)
        first = (2 * remainder * np.int64(10**digits) + small) // (2 * small)
        return np.where(count == small, 2 * first >= 10**digits, is_up)
