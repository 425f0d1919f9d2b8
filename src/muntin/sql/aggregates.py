"""Lowers SQL's aggregate functions to the model's aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any, NoReturn

from sqlglot import exp

from muntin.model.aggregates import Aggregate
from muntin.model.aggregates.entry import ENTRIES, Entry
from muntin.model.errors import OptionError, SqlError
from muntin.model.pipeline import Expression
from muntin.sql.cursor import Span
from muntin.sql.dialect import parse_statements
from muntin.sql.expressions import Scope, walk

_BY_NAME = {name: entry for entry in ENTRIES.values() for name in entry.sql.names}
_WITHIN = {name: entry for entry in ENTRIES.values() for name in entry.sql.within}
_DISTINCT = {name: entry for entry in ENTRIES.values() for name in entry.sql.distinct}
AGGREGATE_NAMES = (*_BY_NAME, *_WITHIN)
# Spark's other aggregates, which are refused so that they aren't read as scalar functions.
_UNSUPPORTED = {
    "ANY", "BIT_AND", "BIT_OR", "BIT_XOR", "CORR", "COUNT_MIN_SKETCH", "COVAR_POP",
    "COVAR_SAMP", "HISTOGRAM_NUMERIC", "HLL_SKETCH_AGG", "KURTOSIS",
    "LISTAGG", "PERCENTILE", "PERCENTILE_CONT", "REGR_SLOPE", "SKEWNESS", "STDDEV_POP",
    "STRING_AGG", "TRY_AVG", "TRY_SUM", "VAR_POP",
}  # fmt: skip
_ROW_FUNCTIONS = {
    "CUME_DIST", "DENSE_RANK", "LAG", "LEAD", "NTH_VALUE", "NTILE", "PERCENT_RANK", "RANK",
    "ROW_NUMBER",
}  # fmt: skip
_JOINED = "write array_join(collect_list(x), ', ')"
_REPLACEMENTS = {
    "LISTAGG": _JOINED,
    "STRING_AGG": _JOINED,
    "PERCENTILE": "write exact_quantile(x, 0.5), one of the values, or median(x)",
    "PERCENTILE_CONT": "write percentile_disc(0.5) WITHIN GROUP (ORDER BY x), or median(x)",
    "STDDEV_POP": "write sqrt(avg(x * x) - avg(x) * avg(x)); stddev(x) is that of a sample",
    "VAR_POP": "write avg(x * x) - avg(x) * avg(x); variance(x) is that of a sample",
    "TRY_SUM": "write sum(x), which is NULL and reported where it overflows",
    "TRY_AVG": "write avg(x)",
}
# ksqlDB's names for the newest and the oldest value that isn't NULL.
_BY_OFFSET = {"LATEST_BY_OFFSET": "LAST", "EARLIEST_BY_OFFSET": "FIRST"}
_NAMES_HINT = "the aggregates are " + ", ".join(name.lower() for name in AGGREGATE_NAMES)


def find_aggregate_name(node: exp.Expr) -> str:
    """Return the name of the aggregate that a node calls, in capitals; empty if it calls none."""
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return find_aggregate_name(node.this)
    if isinstance(node, exp.Any | exp.All):
        # ANY in LIKE ANY ('a%', 'b%') is part of a comparison.
        return "" if isinstance(node.parent, exp.Like | exp.ILike) else "ANY"
    if isinstance(node, exp.Anonymous):
        name = node.name.upper()
        names = {*AGGREGATE_NAMES, *_UNSUPPORTED, *_REPLACEMENTS, *_ROW_FUNCTIONS, *_BY_OFFSET}
        return name if name in names else ""
    if isinstance(node, exp.AggFunc):
        return type(node).__name__.upper()
    return ""


def lower_aggregate(scope: Scope, node: exp.Expr) -> Aggregate:
    """Return the aggregate that a node calls."""
    span = scope.locate(node)
    condition: exp.Expr | None = None
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) and isinstance(node.this, exp.Filter):
        condition, node = node.this.expression.this, type(node)(this=node.this.this)
    elif isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    order: exp.Expr | None = None
    if isinstance(node, exp.WithinGroup):
        order, node = node.expression, node.this
    name = find_aggregate_name(node)
    skips_nulls = isinstance(node, exp.IgnoreNulls) or name in _BY_OFFSET
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        node = node.this
    name = _BY_OFFSET.get(name, name)
    if name in _ROW_FUNCTIONS:
        hint = "give an aggregate over a frame, or number rows in the table that you write to"
        scope.fail(span, f"{name.lower()} numbers rows of a whole partition", hint)
    if name not in AGGREGATE_NAMES or not isinstance(node, exp.Anonymous):
        hint = _REPLACEMENTS.get(name, _NAMES_HINT)
        scope.fail(span, f"{name.lower()} isn't computed in windows", hint)
    for inner in filter(find_aggregate_name, walk(*node.expressions)):
        hint = "compute the inner one in a query of its own"
        scope.fail(inner, "an aggregate within an aggregate", hint)
    try:
        arguments = list(node.expressions)
        if arguments and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
            skips_nulls |= isinstance(arguments[0], exp.IgnoreNulls)
            arguments[0] = arguments[0].this
        if (
            len(arguments) == 2
            and _takes_nulls_flag(name)
            and isinstance(arguments[1], exp.Boolean)
        ):
            skips_nulls = bool(arguments.pop().this)
        return _AggregateCall(scope, name, span, arguments, condition, skips_nulls).lower(order)
    except OptionError as error:
        raise SqlError(scope.text, span, f"{error.option} {error.problem}", error.hint) from error


def _may_skip_nulls(name: str) -> bool:
    return name in _BY_NAME and "nulls" in signature(_BY_NAME[name].make).parameters


def _takes_nulls_flag(name: str) -> bool:
    """Return whether an aggregate skips NULL by a second argument, as Spark's and ksqlDB's do."""
    return _may_skip_nulls(name) and not _BY_NAME[name].sql.second


@dataclass(frozen=True)
class _AggregateCall:
    scope: Scope
    name: str
    span: Span
    arguments: list[exp.Expr]
    condition: exp.Expr | None
    skips_nulls: bool = False

    def lower(self, order: exp.Expr | None) -> Aggregate:
        name = self.name
        if name in _WITHIN:
            return self._lower_percentile(order)
        if order is not None:
            self._fail("takes no WITHIN GROUP", "omit it")
        if self.arguments and isinstance(self.arguments[0], exp.Distinct):
            if name not in _DISTINCT:
                self._fail("takes no DISTINCT", "omit it, or write count(DISTINCT x)")
            inner = self.arguments[0].expressions
            self._check_count(inner, 1)
            return self._build(_DISTINCT[name], self._lower_column(inner[0]))
        entry = _BY_NAME[name]
        self._check_count(self.arguments, 2 if entry.sql.second else 1)
        if name == "COUNT":
            return self._lower_count(entry, self.arguments[0])
        column = self._lower_column(self.arguments[0])
        if not entry.sql.second:
            return self._build(entry, column)
        return self._build(entry, column, self._lower_second_argument(entry))

    def _lower_count(self, entry: Entry, argument: exp.Expr) -> Aggregate:
        counts_rows = isinstance(argument, exp.Star) or (
            isinstance(argument, exp.Literal) and not argument.is_string
        )
        if counts_rows and self.condition is not None:
            return _BY_NAME["COUNT_IF"].make(self._render(self.condition))
        return entry.make() if counts_rows else entry.make(self._lower_column(argument))

    def _lower_second_argument(self, entry: Entry) -> Any:
        if entry.sql.second == "column":
            return self._lower_column(self.arguments[1])
        number = self._read_number(self.arguments[1])
        if entry.sql.second == "whole number":
            return int(number) if number == int(number) else 0
        return number

    def _lower_percentile(self, order: exp.Expr | None) -> Aggregate:
        self._check_count(self.arguments, 1)
        inner = [] if order is None else order.expressions
        if len(inner) != 1 or inner[0].args.get("desc"):
            hint = "write percentile_disc(0.5) WITHIN GROUP (ORDER BY x)"
            self._fail("needs one column to order by, ascending", hint)
        return _WITHIN[self.name].make(
            self._lower_column(inner[0].this), self._read_number(self.arguments[0])
        )

    def _build(self, entry: Entry, *arguments: Any) -> Aggregate:
        # FILTER turns the values that it leaves out into NULL, which this aggregate would count.
        if self.condition is not None and not entry.starts_empty and not self.skips_nulls:
            self._fail("takes no FILTER", "put the condition into WHERE, or write IGNORE NULLS")
        if not self.skips_nulls:
            return entry.make(*arguments)
        if not _may_skip_nulls(self.name):
            self._fail("takes no IGNORE NULLS", "omit it")
        return entry.make(*arguments, nulls="skip")

    def _lower_column(self, node: exp.Expr) -> str | Expression:
        if isinstance(node, exp.Star):
            self._fail("takes a column, not *", f"write {self.name.lower()}(x)")
        column_name = self.scope.find_column_name(node)
        if self.condition is None:
            return self._render(node) if column_name is None else column_name
        condition, value = self._render(self.condition), self._render(node)
        return Expression(
            self.scope.note_span(f"CASE WHEN {condition} THEN {value} END", self.span)
        )

    def _render(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Order):
            self._fail("takes no ORDER BY", "omit it: lists are in the order of event time")
        if isinstance(node, exp.Distinct | exp.Star | exp.Lambda | exp.Alias):
            self._fail("can't take this", f"write {self.name.lower()}(x)")
        return Expression(self.scope.render(node))

    def _read_number(self, node: exp.Expr) -> float:
        if not isinstance(node, exp.Literal) or node.is_string:
            self._fail("takes a plain number as its second", "write for example 0.95")
        try:
            return float(node.name)
        except ValueError:
            self._fail("takes a plain number as its second", "write for example 0.95")

    def _check_count(self, arguments: list[exp.Expr], count: int) -> None:
        if len(arguments) != count:
            many = "one argument" if count == 1 else f"{count} arguments"
            self._fail(f"takes {many}, not {len(arguments)}", f"write {self.name.lower()}(x...)")

    def _fail(self, problem: str, hint: str) -> NoReturn:
        self.scope.fail(self.span, f"{self.name.lower()} {problem}", hint)


def compile_aggregate(text: str) -> Aggregate:
    """Return the aggregate that a text such as ``quantile(delay, 0.95)`` calls.

    Raises:
        SqlError: When the text isn't one call of an aggregate.

    Example:
        >>> str(compile_aggregate("quantile(delay, 0.95)"))
        'quantile(delay, q=0.95, k=200)'
    """
    nodes, cursor = parse_statements(text, lambda cursor: cursor.parse_scalar("an aggregate"))
    if len(nodes) != 1 or not find_aggregate_name(nodes[0]):
        raise SqlError(text, (0, max(1, len(text))), "this isn't an aggregate", _NAMES_HINT)
    return lower_aggregate(Scope(cursor), nodes[0])
