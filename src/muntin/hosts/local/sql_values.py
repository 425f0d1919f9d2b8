"""Values of SQL text as Polars expressions, with Spark's types and meaning.

Each function takes and returns values for which Polars and Spark have the same result, or raises
`Unportable`. Spark fails a query when an integer overflows its type. Here sums and products are
computed in 128 bits, and only a final result that doesn't fit its type is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

import polars as pl

from muntin.hosts.statements import spell_as

WIDE = pl.Int128()
_BITS: Mapping[pl.DataType, int] = {pl.Int8(): 7, pl.Int16(): 15, pl.Int32(): 31, pl.Int64(): 63}
_MOST_BITS = 126
_DAY = 86_400 * 10**6
_ZERO = pl.lit(0, WIDE)
_MOMENTS = ("timestamp", "timestamp_ntz")
_TIMES = (*_MOMENTS, "date")
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_COMPARISONS: Mapping[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<=>": lambda a, b: a.eq_missing(b),
}


class Unportable(Exception):  # noqa: N818
    """Part of an expression that Polars and Spark don't both support; the message names it."""


@dataclass(frozen=True)
class Value:
    """A value that Polars computes, with the type that it has on Spark.

    Attributes:
        expression: The Polars expression; integers may have 128 bits.
        dtype: The type on Spark.
        family: The family of that type.
        bits: The largest number of bits of an integer.
        literal: The number or text, if the value is a literal in the SQL text.
        never_zero: Whether it is a number other than 0, or NULL.
    """

    expression: pl.Expr
    dtype: pl.DataType
    family: str
    bits: int = 0
    literal: int | Decimal | str | None = None
    never_zero: bool = False

    def finish(self) -> pl.Expr:
        """Return the expression in its own type; an integer that doesn't fit is an error."""
        if self.family == "integer" and self.literal is None:
            return self.expression.cast(self.dtype)
        return self.expression

    def cast(self, dtype: pl.DataType) -> pl.Expr:
        """Return the expression in another type."""
        return self.expression.cast(dtype)


Arity = tuple[int, int, Callable[[Sequence[Value]], Value]]
"""A function, after the smallest and the largest number of its arguments."""


def make_column_value(expression: pl.Expr, dtype: pl.DataType) -> Value:
    """Return the value of a column."""
    return Value(expression, dtype, name_family(dtype), _BITS.get(dtype, 0))


def name_family(dtype: pl.DataType) -> str:
    """Return the family of a type."""
    if dtype in _BITS:
        return "integer"
    if isinstance(dtype, pl.Datetime):
        return "timestamp" if dtype.time_zone is not None else "timestamp_ntz"
    named: tuple[tuple[type[pl.DataType], str], ...] = (
        (pl.Float32, "float"), (pl.Float64, "float"), (pl.Decimal, "decimal"),
        (pl.Boolean, "boolean"), (pl.String, "string"), (pl.Date, "date"), (pl.Null, "null"),
    )  # fmt: skip
    return next((family for kind, family in named if isinstance(dtype, kind)), "other")


def find_field(value: Value, name: str) -> Value | None:
    """Return a field of a struct, ignoring the case of its name; ``None`` if there is none."""
    fields = {f.name: f.dtype for f in getattr(value.dtype, "fields", ())}
    field = spell_as(name, fields)
    if field is None:
        return None
    dtype = fields[field]
    field_type = dtype if isinstance(dtype, pl.DataType) else dtype()
    return make_column_value(value.expression.struct.field(field), field_type)


def make_condition_value(expression: pl.Expr) -> Value:
    """Return the value of a condition."""
    return Value(expression, pl.Boolean(), "boolean")


def make_text_value(expression: pl.Expr) -> Value:
    """Return the value of a computed text."""
    return Value(expression, pl.String(), "string")


def make_integer_literal(number: int) -> Value:
    """Return the value of an integer literal."""
    dtype = pl.Int32() if number.bit_length() <= 31 else pl.Int64()
    if number.bit_length() > 63:
        raise Unportable(f"the number {number}")
    return Value(pl.lit(number, dtype), dtype, "integer", number.bit_length(), number)


def make_decimal_literal(digits: str) -> Value:
    """Return the value of a decimal literal, or of a floating-point one if it has an exponent."""
    if re.search(r"[eEdD]", digits):
        return Value(pl.lit(float(digits.rstrip("dD"))), pl.Float64(), "float", literal=None)
    number = Decimal(digits)
    scale = -int(number.as_tuple().exponent)
    dtype = pl.Decimal(max(len(number.as_tuple().digits), scale), scale)
    return Value(pl.lit(number, dtype), dtype, "decimal", literal=number)


NULL_VALUE = Value(pl.lit(None), pl.Null(), "null")


def compare(sign: str, left: Value, right: Value) -> Value:
    """Compare two values of one family, two numbers, or a time with a text that is one."""
    left, right = _read_time(left, right.family), _read_time(right, left.family)
    left_operand, right_operand = _align_operands(sign, left, right)
    return make_condition_value(_COMPARISONS[sign](left_operand, right_operand))


def parse_moment(text: str) -> datetime | None:
    """Return the moment that a text in ISO form names, in UTC without a zone, or ``None``."""
    try:
        moment = datetime.fromisoformat(text) if _MOMENT.fullmatch(text) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _read_time(value: Value, family: str) -> Value:
    """Return a literal text as a time of a family, as Spark does where it is compared with one."""
    if not isinstance(value.literal, str) or family not in _TIMES:
        return value
    moment, text = parse_moment(value.literal), value.literal
    if moment is None or (family == "date" and len(text) > 10):
        raise Unportable(f"the text {text!r} beside {family}")
    if family == "date":
        return Value(pl.lit(moment.date()), pl.Date(), "date")
    if family == "timestamp_ntz":
        if datetime.fromisoformat(text).tzinfo is not None:
            raise Unportable(f"the text {text!r} with a zone beside {family}")
        return Value(pl.lit(moment.replace(tzinfo=None)), pl.Datetime("us"), family)
    dtype = pl.Datetime("us", "UTC")
    return Value(pl.lit(moment).cast(dtype), dtype, "timestamp")


def add(sign: str, left: Value, right: Value) -> Value:
    """Compute a sum, a difference or a product of numbers, or the time between two moments."""
    if {left.family, right.family} == {"integer"}:
        bits = left.bits + right.bits if sign == "*" else max(left.bits, right.bits) + 1
        if bits > _MOST_BITS:
            raise Unportable("a product of so many numbers")
        dtype = max(left.dtype, right.dtype, key=lambda kind: _BITS[kind])
        one, other = left.cast(WIDE), right.cast(WIDE)
        return Value(_compute(sign, one, other), dtype, "integer", bits)
    if sign == "-" and left.family == right.family and left.family in _MOMENTS:
        length = pl.Duration("us")
        return Value((left.expression - right.expression).cast(length), length, "interval")
    dtype = _find_float_type(sign, left, right)
    return Value(_compute(sign, left.cast(dtype), right.cast(dtype)), dtype, "float")


def shift(sign: str, value: Value, micros: int) -> Value:
    """Move a moment by less than a day; Spark adds whole days in the session's zone."""
    if value.family not in _MOMENTS:
        raise Unportable(f"INTERVAL beside {value.family}")
    if abs(micros) >= _DAY:
        raise Unportable("INTERVAL of a day or more")
    length = pl.lit(micros if sign == "+" else -micros, pl.Duration("us"))
    return replace(value, expression=value.expression + length, literal=None)


def format_local_time(value: Value) -> Value:
    """Return a time without a zone as text; its fraction has no zeros at the end."""
    time = value.cast(pl.Datetime("us"))
    fraction = time.dt.strftime("%6f").str.strip_chars_end("0")
    point = pl.when(fraction == "").then(pl.lit("")).otherwise(pl.lit("."))
    whole = time.dt.strftime("%Y-%m-%d %H:%M:%S")
    return make_text_value(pl.concat_str(whole, point, fraction))


def divide(left: Value, right: Value) -> Value:
    """Compute a quotient in floating point; the divisor must be a literal, or never 0."""
    safe = right.literal not in (None, 0) or (right.never_zero and right.family != "decimal")
    if not safe or left.family not in ("integer", "float"):
        raise Unportable("/ by what may be 0 (here x / nullif(y, 0) and x / 2 are taken)")
    if (right.family == "decimal" and left.family == "integer") or left.dtype == pl.Float32():
        raise Unportable("/ of these types")
    double = pl.Float64()
    return Value(divide_exactly(left.cast(double), right.cast(double)), double, "float")


def divide_exactly(dividend: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    """Return the double next to a quotient, also by a literal.

    Polars multiplies a column by the reciprocal of a single number, and so rounds twice. It divides
    a column by a column, and a single number by another one.
    """
    if not dividend.meta.root_names():
        return dividend / divisor
    return dividend / (divisor + 0 * pl.int_range(pl.len()))


def compute_remainder(left: Value, right: Value) -> Value:
    """Compute the remainder of a division by an integer; it has the sign of the dividend."""
    if right.family != "integer" or right.literal in (None, 0) or left.family != "integer":
        raise Unportable("% of these values (here a whole number % 2 is taken)")
    dtype = max(left.dtype, right.dtype, key=lambda kind: _BITS[kind])
    number = left.cast(WIDE)
    rest = number.abs() % abs(int(right.literal))
    return Value(
        pl.when(number < 0).then(_ZERO - rest).otherwise(rest), dtype, "integer", right.bits
    )


def negate(value: Value) -> Value:
    """Return a number with the opposite sign."""
    if isinstance(value.literal, int):
        return replace(make_integer_literal(-value.literal), dtype=value.dtype)
    if isinstance(value.literal, Decimal):
        return replace(value, expression=-value.expression, literal=-value.literal)
    if value.family not in ("integer", "float"):
        raise Unportable(f"- of {value.family}")
    if value.family == "float":
        return replace(value, expression=-value.expression)
    return replace(value, expression=_ZERO - value.cast(WIDE), bits=value.bits + 1)


def join_texts(values: Sequence[Value]) -> Value:
    """Concatenate texts; the result is NULL if one of them is."""
    for value in values:
        if value.family not in ("string", "null"):
            raise Unportable(f"|| of {value.family}")
    return make_text_value(pl.concat_str([value.cast(pl.String()) for value in values]))


def match(value: Value, pattern: Value) -> Value:
    """Match a text with a pattern of LIKE."""
    if not isinstance(pattern.literal, str):
        raise Unportable("LIKE with a pattern that isn't a text")
    if value.family not in ("string", "null"):
        raise Unportable(f"LIKE of {value.family}")
    signs = {"%": ".*", "_": "."}
    body = "".join(signs.get(sign) or re.escape(sign) for sign in pattern.literal)
    return make_condition_value(value.cast(pl.String()).str.contains(f"(?s)^{body}$"))


def negate_condition(value: Value) -> Value:
    """Return the negation of a condition."""
    return make_condition_value(~require_condition("NOT", value))


def require_condition(word: str, value: Value) -> pl.Expr:
    """Return a value as a condition, if it is boolean or NULL."""
    if value.family not in ("boolean", "null"):
        raise Unportable(f"{word} of {value.family}")
    return value.cast(pl.Boolean())


def choose(branches: Sequence[tuple[pl.Expr, Value]], rest: Value) -> Value:
    """Return the first value whose condition holds."""
    values = unify("CASE", [*(value for _, value in branches), rest])
    chosen = values[-1].expression
    for (holds, _), value in zip(reversed(branches), reversed(values[:-1]), strict=True):
        chosen = pl.when(holds).then(value.expression).otherwise(chosen)
    return replace(values[0], expression=chosen, never_zero=False)


def coalesce(values: Sequence[Value]) -> Value:
    """Return the first value that isn't NULL."""
    unified = unify("coalesce", values)
    return replace(unified[0], expression=pl.coalesce([value.expression for value in unified]))


def unify(word: str, values: Sequence[Value]) -> list[Value]:
    """Return values in the common type that Spark derives for them."""
    families = {value.family for value in values} - {"null"}
    if not families:
        return list(values)
    if families == {"integer"}:
        numbers = [value for value in values if value.family == "integer"]
        dtype = max((value.dtype for value in numbers), key=lambda kind: _BITS[kind])
        bits = max(value.bits for value in numbers)
        return [Value(value.cast(WIDE), dtype, "integer", bits) for value in values]
    if "float" in families and families <= {"float", "integer", "decimal"}:
        doubles = [value for value in values if value.family == "float"]
        double = max(doubles, key=lambda value: value.dtype == pl.Float64())
        dtype = max((_find_float_type(word, double, one) for one in values), key=str)
        return [Value(value.cast(dtype), dtype, "float") for value in values]
    dtypes = {value.dtype for value in values if value.family != "null"}
    if len(dtypes) > 1:
        raise Unportable(f"{word} of {' and '.join(sorted(map(str, dtypes)))}")
    (dtype,) = dtypes
    return [Value(value.cast(dtype), dtype, name_family(dtype)) for value in values]


def _align_operands(sign: str, left: Value, right: Value) -> tuple[pl.Expr, pl.Expr]:
    """Return two values in a type in which they can be compared."""
    families = {left.family, right.family} - {"null"}
    if len(families) < 2 and "null" in (left.family, right.family):
        dtype = left.dtype if right.family == "null" else right.dtype
        return left.cast(dtype), right.cast(dtype)
    if families == {"integer"}:
        return left.cast(WIDE), right.cast(WIDE)
    if families <= {"integer", "decimal"} and families:
        scale = max(_find_scale(left), _find_scale(right))
        if any(_count_digits(value) + scale > 38 for value in (left, right)):
            raise Unportable(f"{sign} of numbers with so many digits")
        both = pl.Decimal(38, scale)
        return left.cast(both), right.cast(both)
    if "float" in families:
        dtype = _find_float_type(sign, left, right)
        return left.cast(dtype), right.cast(dtype)
    if len(families) == 1 and families <= {"boolean", "string", *_TIMES}:
        if families <= {"timestamp", "timestamp_ntz"} and left.dtype != right.dtype:
            raise Unportable(f"{sign} of {left.dtype} and {right.dtype}")
        return left.expression, right.expression
    hint = ""
    if families == {"timestamp", "string"}:
        hint = " (here to_timestamp(x) and a literal such as '2026-01-31 00:00:00' are taken)"
    raise Unportable(f"{sign} of {left.family} and {right.family}{hint}")


def _find_scale(value: Value) -> int:
    return value.dtype.scale if isinstance(value.dtype, pl.Decimal) else 0


def _count_digits(value: Value) -> int:
    """Return the largest number of digits before the point of a number."""
    if isinstance(value.dtype, pl.Decimal):
        return (value.dtype.precision or 38) - value.dtype.scale
    return 38 if value.bits > 63 else 19


def _find_float_type(sign: str, left: Value, right: Value) -> pl.DataType:
    """Return the floating-point type of an operation on two numbers."""
    kinds = {value.dtype for value in (left, right) if value.family == "float"}
    others = {value.family for value in (left, right)} - {"float"}
    decimals = [v for v in (left, right) if v.family == "decimal" and v.literal is None]
    if not kinds or decimals or not others <= {"integer", "decimal", "null"}:
        raise Unportable(f"{sign} of {left.family} and {right.family}")
    if pl.Float32() in kinds and "integer" in others:
        raise Unportable(f"{sign} of single precision and a whole number")
    return pl.Float32() if kinds == {pl.Float32()} and not others - {"null"} else pl.Float64()


def _compute(sign: str, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return {"+": left + right, "-": left - right, "*": left * right}[sign]
