"""Resolves the expressions of users: names, fields of structs, Polars expressions and SQL text.

SQL text has the same meaning as on Spark. It supports the operators and functions for which Polars
and Spark agree, and refuses others by name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import polars as pl

from muntin.hosts.local.sql_text import read_sql, read_values
from muntin.hosts.local.sql_values import Unportable, Value, find_field, make_column_value
from muntin.hosts.statements import spell_as
from muntin.model.errors import OptionError

ColumnExpression = str | pl.Expr


class UnportableError(OptionError):
    """An expression that only Spark or only Polars can compute."""


def resolve_column(schema: pl.Schema, option: str, name: str) -> pl.Expr:
    """Return the column with a name, or the field of structs with a path (`user.country`).

    Raises:
        OptionError: When the column or field doesn't exist.
    """
    if name in schema:
        return pl.col(name)
    first, *fields = name.split(".")
    dtype: pl.DataType | None = schema.get(first)
    expression = pl.col(first)
    for field in fields:
        inner = {f.name: f.dtype for f in dtype.fields} if isinstance(dtype, pl.Struct) else {}
        if field not in inner:
            break
        dtype, expression = _instantiate(inner[field]), expression.struct.field(field)
    else:
        if fields and dtype is not None:
            return expression
    hint = f"give one of {', '.join(schema)}" if schema else "give a frame that has columns"
    if not name.replace(".", "").isidentifier():
        hint += f", or an expression: pl.sql_expr({name!r})"
    raise OptionError(option, name, "isn't a column", hint)


def resolve_condition(
    schema: pl.Schema, option: str, value: object, never_zero: Collection[str] = ()
) -> pl.Expr:
    """Return a condition on messages, from a Polars expression or SQL text.

    SQL text may divide by the columns `never_zero`.

    Raises:
        OptionError: When it can't be computed, or isn't boolean.
    """
    if isinstance(value, str):
        expression = parse_sql_expression(schema, option, value, never_zero)
    elif isinstance(value, pl.Expr):
        check_by_row(option, value)
        expression = value
    else:
        raise OptionError(option, value, "isn't a condition", "give a Polars expression, or SQL")
    kind = find_type(schema, option, expression, value)
    if kind not in (pl.Boolean(), pl.Null()):
        problem = f"has type {kind}, and a condition is true or false"
        raise OptionError(option, str(value), problem, "compare it with something")
    return expression


def parse_sql_expression(
    schema: pl.Schema, option: str, text: str, never_zero: Collection[str] = ()
) -> pl.Expr:
    """Return the Polars expression of SQL text, which may divide by the columns `never_zero`.

    Raises:
        UnportableError: When it has an operator or function that Polars and Spark don't both have
            with the same meaning; the error names it.
        OptionError: When a column doesn't exist.
    """

    def lookup(path: list[str]) -> Value:
        value = _find_sql_column(schema, option, text, path)
        return replace(value, never_zero=len(path) == 1 and path[0] in never_zero)

    try:
        return read_sql(text, lookup).finish()
    except Unportable as error:
        problem = f"has {error}, which SQL text can't have here"
        raise UnportableError(option, text, problem, _HINT) from None


def parse_literal_rows(text: str, names: Sequence[str]) -> pl.DataFrame:
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


def _find_sql_column(schema: pl.Schema, option: str, text: str, path: list[str]) -> Value:
    """Return a column or a field of structs, ignoring the case of names as SQL does."""
    name = spell_as(path[0], schema)
    if name is None:
        hint = f"give one of {', '.join(schema)}"
        raise OptionError(option, text, f"has {path[0]}, which isn't a column", hint)
    value = make_column_value(pl.col(name), schema[name])
    for field_name in path[1:]:
        field = find_field(value, field_name)
        if field is None:
            fields = (
                [f.name for f in value.dtype.fields] if isinstance(value.dtype, pl.Struct) else ()
            )
            hint = (
                f"give one of {', '.join(fields)}" if fields else f"{name} has type {value.dtype}"
            )
            raise OptionError(option, text, f"has {'.'.join(path)}, which isn't a field", hint)
        value = field
    return value


def find_type(schema: pl.Schema, option: str, expression: pl.Expr, shown_as: object) -> pl.DataType:
    """Return the type of an expression over messages.

    Raises:
        OptionError: When it can't be computed from their columns.
    """
    try:
        selected = pl.LazyFrame(schema=schema).select(expression).collect_schema()
    except (pl.exceptions.PolarsError, TypeError) as error:
        first_line = str(error).strip().partition("\n")[0]
        problem = f"can't be computed ({first_line})"
        hint = f"give an expression over {', '.join(schema)}"
        raise OptionError(option, str(shown_as), problem, hint) from error
    if len(selected) != 1:
        hint = "give an expression for each"
        raise OptionError(option, str(shown_as), "is several columns", hint)
    return next(iter(selected.values()))


def check_by_row(option: str, expression: pl.Expr) -> None:
    """Refuse an expression over columns that doesn't have a value for each row.

    An aggregate would be that of a batch, which no user chooses.
    """
    try:
        is_by_row = expression.meta.is_length_preserving() or not expression.meta.root_names()
    except pl.exceptions.PolarsError:  # a function of the user's, whose type isn't known here
        return
    if not is_by_row:
        hint = "add it to the frame as a column first, or give an expression of each row"
        raise OptionError(option, str(expression), "has no value for each row", hint)


def find_output_name(option: str, expression: pl.Expr) -> str:
    """Return the name that an expression gives to its column.

    Raises:
        OptionError: When the expression is several columns.
    """
    if expression.meta.has_multiple_outputs():
        hint = "give an expression for each"
        raise OptionError(option, str(expression), "is several columns", hint)
    return expression.meta.output_name()


def _instantiate(dtype: object) -> pl.DataType:
    instance = dtype() if isinstance(dtype, type) else dtype
    assert isinstance(instance, pl.DataType)
    return instance
