"""Resolves the expressions of users: names, fields of structs, Polars expressions and SQL text.

SQL text has the same meaning as on Spark. It supports the operators and functions for which Polars
and Spark agree, and refuses others by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.hosts.local.sql_text import read_sql, read_values
from muntin.hosts.local.sql_values import Unportable, Value, column_value
from muntin.hosts.statements import spell_as
from muntin.model.errors import OptionError

Expression = str | pl.Expr


class UnportableError(OptionError):
    """An expression that only Spark or only Polars can compute."""


def column_or_field(schema: pl.Schema, option: str, name: str) -> pl.Expr:
    """Return the column with a name, or the field of structs with a path (`user.country`).

    Raises:
        OptionError: When the column or field doesn't exist.
    """
    if name in schema:
        return pl.col(name)
    first, *fields = name.split(".")
    found: pl.DataType | None = schema.get(first)
    expression = pl.col(first)
    for field in fields:
        inner = {f.name: f.dtype for f in found.fields} if isinstance(found, pl.Struct) else {}
        if field not in inner:
            break
        found, expression = _instance(inner[field]), expression.struct.field(field)
    else:
        if fields and found is not None:
            return expression
    hint = f"give one of {', '.join(schema)}"
    if not name.replace(".", "").isidentifier():
        hint += f", or an expression: pl.sql_expr({name!r})"
    raise OptionError(option, name, "isn't a column", hint)


def condition(schema: pl.Schema, option: str, given: object) -> pl.Expr:
    """Return a condition on messages, from a Polars expression or SQL text.

    Raises:
        OptionError: When it can't be computed, or isn't boolean.
    """
    if isinstance(given, str):
        expression = sql_expression(schema, option, given)
    elif isinstance(given, pl.Expr):
        expression = given
    else:
        raise OptionError(option, given, "isn't a condition", "give a Polars expression, or SQL")
    kind = type_of(schema, option, expression, given)
    if kind not in (pl.Boolean(), pl.Null()):
        problem = f"has type {kind}, and a condition is true or false"
        raise OptionError(option, _shown(given), problem, "compare it with something")
    return expression


def sql_expression(schema: pl.Schema, option: str, text: str) -> pl.Expr:
    """Return the Polars expression of SQL text.

    Raises:
        UnportableError: When it has an operator or function that Polars and Spark don't both have
            with the same meaning; the error names it.
        OptionError: When a column doesn't exist.
    """

    def lookup(path: list[str]) -> Value:
        return _column(schema, option, text, path)

    try:
        return read_sql(text, lookup).finish()
    except Unportable as error:
        problem = f"has {error}, which SQL text can't have here"
        raise UnportableError(option, text, problem, _HINT) from None


def literal_rows(text: str, names: Sequence[str]) -> pl.DataFrame:
    """Return the rows after `VALUES`, with Spark's default names for columns without a name.

    Raises:
        UnportableError: When a value isn't a literal, or rows have different types.
        OptionError: When rows have different numbers of values.
    """
    try:
        rows = read_values(text)
        shown = names or [f"col{index + 1}" for index in range(len(rows[0]))]
        if any(len(row) != len(shown) for row in rows):
            hint = "give each row as many values as there are columns"
            raise OptionError("VALUES", text, "has rows of different lengths", hint)
        frames = [
            pl.select(value.finish().alias(name) for name, value in zip(shown, row, strict=True))
            for row in rows
        ]
        families = [{row[index].family for row in rows} - {"null"} for index in range(len(shown))]
    except Unportable as error:
        problem = f"has {error}, which SQL text can't have here"
        raise UnportableError("VALUES", text, problem, _LITERALS) from None
    for name, kinds in zip(shown, families, strict=True):
        if len(kinds) > 1 or kinds == {"decimal"}:
            problem = f"has {', '.join(sorted(kinds))} in {name}, which SQL text can't have here"
            raise UnportableError("VALUES", text, problem, _LITERALS)
    return pl.concat(frames, how="vertical_relaxed")


_LITERALS = "give the rows as a frame, by its name"
_HINT = "give a Polars expression, such as pl.col('delay') > 60"


def _column(schema: pl.Schema, option: str, text: str, path: list[str]) -> Value:
    """Return a column or a field of structs, ignoring the case of names as SQL does."""
    name = spell_as(path[0], schema)
    if name is None:
        hint = f"give one of {', '.join(schema)}"
        raise OptionError(option, text, f"has {path[0]}, which isn't a column", hint)
    expression, dtype = pl.col(name), schema[name]
    for wanted in path[1:]:
        fields = (
            {one.name: one.dtype for one in dtype.fields} if isinstance(dtype, pl.Struct) else {}
        )
        field = spell_as(wanted, fields)
        if field is None:
            hint = f"give one of {', '.join(fields)}" if fields else f"{name} has type {dtype}"
            raise OptionError(option, text, f"has {'.'.join(path)}, which isn't a field", hint)
        expression, dtype = expression.struct.field(field), _instance(fields[field])
    return column_value(expression, dtype)


def type_of(schema: pl.Schema, option: str, expression: pl.Expr, given: object) -> pl.DataType:
    """Return the type of an expression over messages.

    Raises:
        OptionError: When it can't be computed from their columns.
    """
    try:
        selected = pl.LazyFrame(schema=schema).select(expression).collect_schema()
    except (pl.exceptions.PolarsError, TypeError) as error:
        problem = f"can't be computed ({_line(error)})"
        hint = f"give an expression over {', '.join(schema)}"
        raise OptionError(option, _shown(given), problem, hint) from error
    if len(selected) != 1:
        hint = "give an expression for each"
        raise OptionError(option, _shown(given), "is several columns", hint)
    return next(iter(selected.values()))


def name_of(option: str, expression: pl.Expr) -> str:
    """Return the name that an expression gives to its column.

    Raises:
        OptionError: When the expression is several columns.
    """
    if expression.meta.has_multiple_outputs():
        hint = "give an expression for each"
        raise OptionError(option, str(expression), "is several columns", hint)
    return expression.meta.output_name()


def _shown(given: object) -> str:
    return str(given)


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _instance(dtype: object) -> pl.DataType:
    made = dtype() if isinstance(dtype, type) else dtype
    assert isinstance(made, pl.DataType)
    return made
