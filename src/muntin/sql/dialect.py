"""The SQL dialect: Spark's, in which window functions may stand inside expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from muntin.model.errors import SqlError
from muntin.sql.cursor import Cursor, IntervalNode, WindowNode
from muntin.sql.intervals import parse_interval
from muntin.sql.window_functions import (
    BOUND_FUNCTIONS,
    ROUNDING_FUNCTIONS,
    SPARK_FUNCTIONS,
    TABLE_FUNCTIONS,
    parse_rounding,
    parse_window_call,
)

# The functions whose arguments aren't a list of expressions.
_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY")
_WINDOW_FUNCTIONS = (*TABLE_FUNCTIONS, *BOUND_FUNCTIONS, *SPARK_FUNCTIONS)


def _parse_window_function(cursor: Cursor, name: str) -> exp.Expr:
    node = WindowNode(this=name)
    node.meta["call"] = parse_window_call(cursor, name, cursor.function_name.start)
    return node


def _parse_rounding_function(cursor: Cursor, name: str) -> exp.Expr:
    """Parse ``FLOOR(ts TO HOUR)`` as a window, and ``FLOOR(x)`` as Spark's function."""
    function, arguments = cursor.function_name, cursor.parse_arguments()
    if len(arguments) != 1 or not cursor.accept("TO"):
        return exp.Anonymous(this=function.text, expressions=arguments)
    node = WindowNode(this=name)
    node.meta["call"] = parse_rounding(cursor, name, function.start, arguments[0])
    return node


class StatementParser(Cursor):
    """The cursor over a whole text, which parses statement by statement.

    Attributes:
        problems: Collects the errors of statements that can't be parsed; ``None`` raises the first.
    """

    FUNCTION_PARSERS: ClassVar[Any] = {
        **{name: SparkParser.FUNCTION_PARSERS[name] for name in _OWN_SYNTAX},
        **{name: partial(_parse_window_function, name=name) for name in _WINDOW_FUNCTIONS},
        **{name: partial(_parse_rounding_function, name=name) for name in ROUNDING_FUNCTIONS},
    }
    statement: Callable[[Cursor], Any]
    problems: list[SqlError] | None = None

    def parse_frame_bound(self) -> Any:
        """Parse ``UNBOUNDED``, ``CURRENT ROW`` or an interval."""
        if self.accept("UNBOUNDED"):
            return "UNBOUNDED"
        if self.accept("CURRENT", "ROW"):
            return "CURRENT ROW"
        value = IntervalNode(this="interval")
        value.meta["interval"] = parse_interval(self)
        return value

    def parse_statement(self) -> Any:
        """Parse a statement, or collect its error."""
        try:
            return self.statement(self)
        except SqlError as error:
            if self.problems is None:
                raise
            self.problems.append(error)
            self.skip_all()
            return None


_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


class Dialect(Spark):
    """Spark's SQL dialect, with window functions."""

    Parser = StatementParser

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens; no word makes the rest of a statement one token, as EXPLAIN would."""

        COMMANDS: ClassVar[set[TokenType]] = set()


def parse_statements(
    text: str,
    statement: Callable[[Cursor], Any],
    placeholder_values: Mapping[str, str] | None = None,
    problems: list[SqlError] | None = None,
) -> tuple[list[Any], Cursor]:
    """Return the statements of a text that aren't empty, and the cursor that read them.

    ``statement`` parses one of them. ``problems`` collects the errors of statements that can't be
    parsed, which are left out; ``None`` raises the first.
    """
    cursor = StatementParser(dialect=Dialect)
    cursor.statement, cursor.problems = statement, problems
    cursor.placeholder_values, cursor.used_placeholders = placeholder_values or {}, set()
    cursor.depth, cursor.expression_spans = 0, {}
    try:
        tokens = Dialect().tokenize(text)
    except TokenError as error:
        end = (error.end or len(text) or 1) - 1
        problem = "this can't be read: a quote or a comment doesn't end"
        raise SqlError(text, (end, end + 1), problem, "end it") from error
    _refuse_hints(text, tokens)
    try:
        statements = cursor.parse(tokens, text)
    except RecursionError as error:
        raise SqlError(text, (0, 1), "this is nested too deep", "write it in steps") from error
    # The END of a set of statements, which are run side by side without it, too.
    return [one for one in statements if not isinstance(one, exp.EndStatement | None)], cursor


def _refuse_hints(text: str, tokens: Sequence[Token]) -> None:
    """Refuse hints, ``/*+ OPTIONS(...) */``, most of which the tokenizer takes for comments."""
    ends = [0, *(token.end + 1 for token in tokens)]
    starts = [*(token.start for token in tokens), len(text)]
    gaps = list(zip(ends, starts, strict=True))
    gaps += [(t.start, t.end + 1) for t in tokens if t.token_type == TokenType.HINT]
    for start, end in gaps:
        for comment in _COMMENT.finditer(text, start, end):
            if comment.group().startswith("/*+"):
                hint = "leave it out, and write options into WITH (...) or SET"
                raise SqlError(text, comment.span(), "hints aren't supported", hint)


def find_semicolons(text: str) -> list[int]:
    """Return the positions of the semicolons that end statements."""
    try:
        tokens = Dialect().tokenize(text)
    except TokenError:
        return []
    return [token.start for token in tokens if token.token_type == TokenType.SEMICOLON]
