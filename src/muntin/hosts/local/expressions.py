"""Expressions as users write them: names, fields of structs, Polars expressions and SQL text.

SQL text means the same here and on Spark. It takes the operators and functions in which Polars and
Spark agree, and refuses others by name.
"""

from __future__ import annotations

import re

import polars as pl

from muntin.model.errors import OptionError

Expression = str | pl.Expr

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>\d+(?:\.\d+)?)(?![\w.])
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|[=<>+\-*(),])
    )""",
    re.VERBOSE,
)
_WORDS = frozenset({"AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "TRUE", "FALSE"})
_CASES = frozenset({"CASE", "WHEN", "THEN", "ELSE", "END"})
FUNCTIONS = frozenset({"abs", "coalesce", "lower", "upper", "ltrim", "rtrim"})
"""The SQL functions with one meaning in Polars and in Spark."""


def column_or_field(schema: pl.Schema, option: str, name: str) -> pl.Expr:
    """The column with a name, or the field of structs (`user.country`).

    Raises:
        OptionError: When there is no such column or field.
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
    """A condition on messages: a Polars expression, or SQL text.

    Raises:
        OptionError: When it can't be computed, or isn't a condition.
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
    """An expression from SQL text.

    Raises:
        OptionError: Naming what Polars and Spark don't both have with the same meaning.
    """
    parts, position, tokens = [], 0, _tokens(option, text)
    for position, (kind, token) in enumerate(tokens):
        following = tokens[position + 1][1] if position + 1 < len(tokens) else ""
        before = tokens[position - 1][1].upper() if position else ""
        if kind == "word" and following == "(" and token.upper() not in _WORDS:
            parts.append(_function(option, text, token))
        elif kind == "word" and token.upper() in _WORDS | _CASES:
            parts.append(_keyword(option, text, token.upper(), before, following))
        elif kind in ("word", "quoted"):
            parts.append(_column(schema, option, text, token))
        else:
            parts.append({"==": "=", "!=": "<>"}.get(token, token))
        if before == "LIKE" and "\\" in token:
            raise _refused(option, text, "LIKE with a backslash")
    try:
        return pl.sql_expr(" ".join(parts))
    except pl.exceptions.PolarsError as error:
        raise OptionError(option, text, f"can't be read as SQL ({_line(error)})", _HINT) from error


_HINT = "give a Polars expression, such as pl.col('delay') > 60"


def _tokens(option: str, text: str) -> list[tuple[str, str]]:
    tokens, position, stripped = [], 0, text.strip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise _refused(option, text, repr(stripped[position:].split()[0]))
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind]))
        position = match.end()
    return tokens


def _function(option: str, text: str, name: str) -> str:
    if name.lower() not in FUNCTIONS:
        raise _refused(option, text, f"{name}()")
    return name.upper()


def _keyword(option: str, text: str, word: str, before: str, following: str) -> str:
    # In a list NULL makes Spark's comparison unknown, and Polars' false.
    if word == "NULL" and before not in ("IS", "NOT", "ELSE", "THEN"):
        raise _refused(option, text, "NULL as a value")
    if word == "LIKE" and not following.startswith("'"):
        raise _refused(option, text, "LIKE with a pattern that isn't a text")
    return word


def _column(schema: pl.Schema, option: str, text: str, token: str) -> str:
    name = token[1:-1].replace("``", "`") if token.startswith("`") else token
    if name not in schema:
        # SQL knows a column whatever the case of its letters.
        matches = [one for one in schema if one.lower() == name.lower()]
        if len(matches) != 1:
            hint = f"give one of {', '.join(schema)}"
            raise OptionError(option, text, f"has {name}, which isn't a column", hint)
        name = matches[0]
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _refused(option: str, text: str, what: str) -> OptionError:
    problem = f"has {what}, which SQL text can't have here"
    return OptionError(option, text, problem, _HINT)


def type_of(schema: pl.Schema, option: str, expression: pl.Expr, given: object) -> pl.DataType:
    """The type of an expression over messages.

    Raises:
        OptionError: When it can't be computed of them.
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
    """The name that an expression gives to its column.

    Raises:
        OptionError: When it has none.
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
