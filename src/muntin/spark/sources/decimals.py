"""Excludes texts that Spark would take minutes to parse as decimals.

``1e10000000`` is ten bytes, and an integer of ten million digits; a million digits in quotes take
half a minute. A decimal of Spark has at most 38 digits, so a number with a long exponent or with
very many digits is a mistake or an attack. Regular expressions in Spark's plan detect it, and a
text without such a number costs one search.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

# A digit of any script, which Java accepts, or a comma, which Spark ignores in numbers.
_DIGIT = r"[\p{Nd},]"
_EXPONENT = rf"[eE][+-]?{_DIGIT}{{4}}"
MOST_DIGITS = 1000
# Spark's JSON parser treats a line as malformed if it has a text of over 20 million characters.
LONG_TEXTS = {"maxStringLen": str(2**31 - 1)}
# A possible number of that kind. An escape may hide any character. The look-behind keeps the search
# from testing a run of digits at each of its digits.
_SUSPECT = rf"{_EXPONENT}|(?<![\p{{Nd}},.])[\p{{Nd}},.]{{{MOST_DIGITS}}}|\\u"
# A JSON number without quotes that has a long exponent, between its delimiters.
_BARE = r"[:\[,]\s*-?[0-9]+(\.[0-9]+)?[eE][+-]?[0-9]{4,}\s*[,\]}]"


def has_decimals(kind: T.DataType) -> bool:
    """Return whether a type contains decimals, at any depth."""
    if isinstance(kind, T.StructType):
        return any(has_decimals(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return has_decimals(kind.elementType)
    if isinstance(kind, T.MapType):
        return has_decimals(kind.valueType)
    return isinstance(kind, T.DecimalType)


def exclude_long_numbers(
    text: Column, schema: T.StructType, form: Literal["json", "csv"]
) -> Column:
    """Return the text to parse, or null where parsing it would take long."""
    if not has_decimals(schema):
        return text
    fields_checked = T.StructType(_select_decimals(schema))
    if form == "json":
        # Spark parses a number without quotes as a double, so it may be infinite or zero here.
        parsed, bare = F.from_json(text, as_text(fields_checked), LONG_TEXTS), text.rlike(_BARE)
        # A repeated name is suspect, since only its last value would be checked.
        has_repeated_name = F.try_parse_json(text).isNull()
    else:
        columns = T.StructType([T.StructField(f.name, T.StringType()) for f in schema.fields])
        parsed, bare, has_repeated_name = (
            F.from_csv(text, columns.toDDL()),
            F.lit(False),
            F.lit(False),
        )
    long = F.when(
        text.rlike(_SUSPECT), has_repeated_name | _any_beyond(parsed, fields_checked, bare)
    )
    return F.when(~F.coalesce(long, F.lit(False)), text)


def as_text(schema: T.StructType) -> T.StructType:
    """Return a schema with text in place of decimals, at any depth."""
    fields = (T.StructField(f.name, _as_text(f.dataType), f.nullable) for f in schema.fields)
    return T.StructType([*fields])


def from_text(column: Column, kind: T.DataType) -> Column:
    """Return a column of ``as_text`` with its decimals, null where a text isn't one."""
    if not has_decimals(kind):
        return column
    if isinstance(kind, T.StructType):
        parts = [from_text(column[f.name], f.dataType).alias(f.name) for f in kind.fields]
        return F.when(column.isNotNull(), F.struct(*parts))
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        return F.transform(column, lambda one: from_text(one, element))
    if isinstance(kind, T.MapType):
        value = kind.valueType
        return F.transform_values(column, lambda _, one: from_text(one, value))
    digits = F.translate(column, ",", "")
    return F.when(~_is_beyond(column), digits.try_cast(kind))


def describe_wrong(column: Column, name: str, kind: T.DataType) -> Column:
    """Return what is wrong where a text in a column of ``as_text`` is no decimal, else null."""
    a_kind = {T.StructType: "a struct of its fields", T.ArrayType: "an array of its items",
              T.MapType: "a map of its values"}  # fmt: skip
    words = a_kind.get(type(kind), f"a {kind.simpleString()}".replace(",", ", "))
    return F.when(_any_wrong(column, kind), F.lit(f"{name} is not {words}"))


def _any_wrong(column: Column, kind: T.DataType) -> Column:
    """Return whether any text in a value, in place of a decimal, isn't one."""
    if isinstance(kind, T.StructType):
        parts = (_any_wrong(column[f.name], f.dataType) for f in _select_decimals(kind))
        return reduce(Column.__or__, parts)
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        return F.coalesce(F.exists(column, lambda one: _any_wrong(one, element)), F.lit(False))
    if isinstance(kind, T.MapType):
        values = F.map_values(column)
        return _any_wrong(values, T.ArrayType(kind.valueType))
    return column.isNotNull() & from_text(column, kind).isNull()


def _select_decimals(kind: T.StructType) -> list[T.StructField]:
    return [field for field in kind.fields if has_decimals(field.dataType)]


def _as_text(kind: T.DataType) -> T.DataType:
    if isinstance(kind, T.DecimalType):
        return T.StringType()
    if isinstance(kind, T.StructType):
        return as_text(kind)
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_as_text(kind.elementType), kind.containsNull)
    if isinstance(kind, T.MapType):
        return T.MapType(kind.keyType, _as_text(kind.valueType), kind.valueContainsNull)
    return kind


def _is_beyond(text: Column) -> Column:
    return (F.length(text) > MOST_DIGITS) | text.rlike(_EXPONENT)


def _any_beyond(column: Column, kind: T.DataType, bare: Column) -> Column:
    """Return whether any decimal in a value, read as text, would take long to parse."""
    if isinstance(kind, T.StructType):
        conditions = [
            _any_beyond(column[field.name], field.dataType, bare)
            for field in _select_decimals(kind)
        ]
        return reduce(Column.__or__, [F.coalesce(one, F.lit(False)) for one in conditions])
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        return F.exists(column, lambda one: _any_beyond(one, element, bare))
    if isinstance(kind, T.MapType):
        value = kind.valueType
        return F.exists(F.map_values(column), lambda one: _any_beyond(one, value, bare))
    number = F.translate(column, '"', "").try_cast("double")
    return _is_beyond(column) | (bare & ((number == 0.0) | (F.abs(number) == float("inf"))))
