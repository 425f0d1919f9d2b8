"""SQL's aggregate functions and the aggregates that they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot import exp

from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError, SqlError
from muntin.model.pipeline import Expression
from muntin.sql.cursor import Cursor, Grammar, Span, read
from muntin.sql.expressions import Scope, walk
from muntin.sql.lengths import length
from muntin.sql.windowcalls import read_call

_ONE: dict[str, Callable[[Any], Aggregate]] = {
    "COUNT_IF": aggregates.count_if,
    "SUM": aggregates.sum,
    "MIN": aggregates.min,
    "MAX": aggregates.max,
    "AVG": aggregates.mean,
    "MEAN": aggregates.mean,
    "VARIANCE": aggregates.variance,
    "VAR_SAMP": aggregates.variance,
    "STDDEV": aggregates.stddev,
    "STDDEV_SAMP": aggregates.stddev,
    "STD": aggregates.stddev,
    "FIRST": aggregates.first,
    "FIRST_VALUE": aggregates.first,
    "LAST": aggregates.last,
    "LAST_VALUE": aggregates.last,
    "BOOL_AND": aggregates.bool_and,
    "EVERY": aggregates.bool_and,
    "BOOL_OR": aggregates.bool_or,
    "SOME": aggregates.bool_or,
    "MEDIAN": aggregates.median,
    "COLLECT_LIST": aggregates.collect_list,
    "ARRAY_AGG": aggregates.collect_list,
    "COLLECT_SET": aggregates.distinct,
    "DISTINCT_VALUES": aggregates.distinct,
    "APPROX_COUNT_DISTINCT": aggregates.approx_distinct,
    "APPROX_DISTINCT": aggregates.approx_distinct,
}
_TWO: dict[str, Callable[[Any, Any], Aggregate]] = {
    "MIN_BY": aggregates.arg_min,
    "ARG_MIN": aggregates.arg_min,
    "MAX_BY": aggregates.arg_max,
    "ARG_MAX": aggregates.arg_max,
}
_FIGURED: dict[str, Callable[[Any, Any], Aggregate]] = {
    "QUANTILE": aggregates.quantile,
    "APPROX_PERCENTILE": aggregates.quantile,
    "PERCENTILE_APPROX": aggregates.quantile,
    "EXACT_QUANTILE": aggregates.exact_quantile,
    "TOP_K": aggregates.top_k,
}
_ORDERED = {"PERCENTILE_DISC": aggregates.exact_quantile}
TAKEN = ("COUNT", *_ONE, *_TWO, *_FIGURED, *_ORDERED)
# Spark's other aggregates: named, so that they aren't taken for scalar functions.
_OTHERS = {
    "ANY", "ANY_VALUE", "BIT_AND", "BIT_OR", "BIT_XOR", "CORR", "COUNT_MIN_SKETCH", "COVAR_POP",
    "COVAR_SAMP", "GROUPING", "GROUPING_ID", "HISTOGRAM_NUMERIC", "HLL_SKETCH_AGG", "KURTOSIS",
    "LISTAGG", "MODE", "PERCENTILE", "PERCENTILE_CONT", "REGR_SLOPE", "SKEWNESS", "STDDEV_POP",
    "STRING_AGG", "TRY_AVG", "TRY_SUM", "VAR_POP",
}  # fmt: skip
_ROW_FUNCTIONS = {
    "CUME_DIST", "DENSE_RANK", "LAG", "LEAD", "NTH_VALUE", "NTILE", "PERCENT_RANK", "RANK",
    "ROW_NUMBER",
}  # fmt: skip
# A condition turns what it leaves out into nulls, and these don't skip those.
_SEE_NULLS = {"first", "last", "arg_min", "arg_max"}
_KNOWN = "the aggregates are " + ", ".join(name.lower() for name in TAKEN)


@dataclass(frozen=True)
class Call:
    """An aggregate that a select list asks for.

    Attributes:
        aggregate: What the window computes.
        around: What is made of its value, with ``{}`` in its place.
    """

    aggregate: Aggregate
    around: str = "{}"


def name_of(node: exp.Expr) -> str:
    """The name of the aggregate that a node calls, in capitals; empty where it calls none."""
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return name_of(node.this)
    if isinstance(node, exp.Any | exp.All):
        # LIKE ANY ('a%', 'b%') is a comparison.
        return "" if isinstance(node.parent, exp.Like | exp.ILike) else "ANY"
    if isinstance(node, exp.Anonymous):
        name = node.name.upper()
        return name if name in TAKEN or name in _OTHERS or name in _ROW_FUNCTIONS else ""
    if isinstance(node, exp.AggFunc):
        return type(node).__name__.upper()
    return ""


def call(scope: Scope, node: exp.Expr) -> Call:
    """The aggregate that a node calls.

    Args:
        scope: The text and its names.
        node: A node for which ``name_of`` isn't empty.

    Raises:
        SqlError: When it can't be computed, with what can.
    """
    span = scope.span(node)
    condition: exp.Expr | None = None
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    ordered: exp.Expr | None = None
    if isinstance(node, exp.WithinGroup):
        ordered, node = node.expression, node.this
    name = name_of(node)
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        cure = f"write {name.lower()}(x), and WHERE x IS NOT NULL"
        scope.fail(span, "null treatment isn't taken", cure)
    if name in _ROW_FUNCTIONS:
        cure = "give an aggregate over a frame, or number rows in the table that you write to"
        scope.fail(span, f"{name.lower()} numbers rows of a whole partition", cure)
    if name not in TAKEN or not isinstance(node, exp.Anonymous):
        scope.fail(span, f"{name.lower()} isn't computed in windows", _KNOWN)
    for part in node.expressions:
        for inner in walk(part):
            if name_of(inner):
                cure = "compute the inner one in a query of its own"
                scope.fail(scope.span(inner), "an aggregate within an aggregate", cure)
    try:
        return _Reader(scope, name, span, node.expressions, condition).call(ordered)
    except OptionError as error:
        raise SqlError(scope.text, span, f"{error.option} {error.problem}", error.cure) from error


@dataclass(frozen=True)
class _Reader:
    scope: Scope
    name: str
    span: Span
    arguments: list[exp.Expr]
    condition: exp.Expr | None

    def call(self, ordered: exp.Expr | None) -> Call:
        name = self.name
        if name in _ORDERED:
            return Call(self._percentile(ordered))
        if ordered is not None:
            self._fail("takes no WITHIN GROUP", "leave it away")
        if name == "COUNT":
            return self._count()
        distinct = self.arguments and isinstance(self.arguments[0], exp.Distinct)
        if distinct and name in ("COLLECT_LIST", "ARRAY_AGG"):
            inner = self.arguments[0].expressions
            self._check(inner, 1)
            return Call(aggregates.distinct(self._column(inner[0])))
        if distinct:
            self._fail("takes no DISTINCT", "leave it away, or write count(DISTINCT x)")
        if name in _ONE:
            self._check(self.arguments, 1)
            return Call(self._sees(_ONE[name](self._column(self.arguments[0]))))
        self._check(self.arguments, 2)
        if name in _TWO:
            by = self._column(self.arguments[1])
            return Call(self._sees(_TWO[name](self._column(self.arguments[0]), by)))
        figure = self._figure(self.arguments[1])
        if name == "TOP_K":
            figure = int(figure) if figure == int(figure) else 0
        return Call(_FIGURED[name](self._column(self.arguments[0]), figure))

    def _count(self) -> Call:
        if len(self.arguments) == 1 and isinstance(self.arguments[0], exp.Distinct):
            inner = self.arguments[0].expressions
            self._check(inner, 1)
            values = aggregates.distinct(self._column(inner[0]))
            return Call(values, "coalesce(size({}), 0)")
        self._check(self.arguments, 1)
        only = self.arguments[0]
        everything = isinstance(only, exp.Star) or (
            isinstance(only, exp.Literal) and not only.is_string
        )
        if everything and self.condition is not None:
            return Call(aggregates.count_if(self._text(self.condition)))
        return Call(aggregates.count() if everything else aggregates.count(self._column(only)))

    def _percentile(self, ordered: exp.Expr | None) -> Aggregate:
        self._check(self.arguments, 1)
        inner = [] if ordered is None else ordered.expressions
        if len(inner) != 1 or inner[0].args.get("desc"):
            cure = "write percentile_disc(0.5) WITHIN GROUP (ORDER BY x)"
            self._fail("needs one column to order by, ascending", cure)
        return _ORDERED[self.name](self._column(inner[0].this), self._figure(self.arguments[0]))

    def _sees(self, aggregate: Aggregate) -> Aggregate:
        if self.condition is not None and aggregate.kind in _SEE_NULLS:
            self._fail("takes no FILTER", "put the condition into WHERE")
        return aggregate

    def _column(self, node: exp.Expr) -> str | Expression:
        """A column by its name where it is one, and an expression otherwise."""
        if isinstance(node, exp.Star):
            self._fail("takes a column, not *", f"write {self.name.lower()}(x)")
        own = self.scope.own(node) if isinstance(node, exp.Column) else None
        if self.condition is None:
            return self._text(node) if own is None else own
        kept, value = self._text(self.condition), self._text(node)
        return Expression(self.scope.noted(f"CASE WHEN {kept} THEN {value} END", self.span))

    def _text(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Distinct | exp.Star | exp.Lambda | exp.Alias):
            self._fail("can't take this", f"write {self.name.lower()}(x)")
        return Expression(self.scope.plain(node))

    def _figure(self, node: exp.Expr) -> float:
        if not isinstance(node, exp.Literal) or node.is_string:
            self._fail("takes a plain number as its second", "write for example 0.95")
        try:
            return float(node.name)
        except ValueError:
            self._fail("takes a plain number as its second", "write for example 0.95")
            raise

    def _check(self, given: list[exp.Expr], wanted: int) -> None:
        if len(given) != wanted:
            many = "one argument" if wanted == 1 else f"{wanted} arguments"
            self._fail(f"takes {many}, not {len(given)}", f"write {self.name.lower()}(x...)")

    def _fail(self, problem: str, cure: str) -> NoReturn:
        self.scope.fail(self.span, f"{self.name.lower()} {problem}", cure)


def alone(text: str) -> Aggregate:
    """An aggregate that stands by itself.

    Raises:
        SqlError: When the text is something else.
    """

    def one(cursor: Cursor) -> Any:
        return cursor.scalar("an aggregate")

    found, cursor = read(text, Grammar(one, read_call, length))
    if len(found) != 1 or not name_of(found[0]):
        raise SqlError(text, (0, max(1, len(text))), "this is no aggregate", _KNOWN)
    asked = call(Scope(cursor, frozenset()), found[0])
    if asked.around != "{}":
        cure = "write distinct_values(x), and take its size"
        raise SqlError(text, (0, len(text)), "this isn't one value that a window keeps", cure)
    return asked.aggregate
