"""Syntax trees of statements: plain values with their spans, in which no name is resolved yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from muntin.model.fill import Fill
from muntin.model.inputs import InputOptions
from muntin.model.pipeline import Values
from muntin.model.policies import OnePolicy
from muntin.sql.cursor import Span
from muntin.sql.intervals import Interval

ArgumentKind = Literal["table", "columns", "length", "text", "scalar"]


@dataclass(frozen=True)
class Argument:
    """One argument of a window call.

    Attributes:
        kind: ``table``, ``columns`` (a descriptor), ``length``, ``text`` or ``scalar``.
        value: Value of the argument.
        span: Span of the argument.
        label: Its name in capitals, if it was passed by name.
        partition: Columns of ``TABLE t PARTITION BY ...``.
    """

    kind: ArgumentKind
    value: object
    span: Span
    label: str | None = None
    partition: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class WindowCall:
    """A window function: ``TUMBLE``, ``HOP``, ``CUMULATE``, ``SESSION`` or Spark's."""

    name: str
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True)
class WindowClause:
    """``WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 7 DAYS, GRACE PERIOD 10 MINUTES)``."""

    call: WindowCall
    grace: Interval | None
    retention: Interval | None


@dataclass(frozen=True)
class WithinClause:
    """``WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD 10 MINUTES``, between a table and ``ON``.

    Attributes:
        before: How much earlier the right partner may be, in microseconds.
        after: How much later it may be, in microseconds.
        grace: How long late messages are accepted.
        span: Span of the clause.
    """

    before: int
    after: int
    grace: Interval | None
    span: Span


@dataclass(frozen=True)
class Watermark:
    """``WATERMARK FOR ts AS ts - INTERVAL ...`` or ``WATERMARK ts DELAY OF INTERVAL ...``."""

    marks: InputOptions
    span: Span


@dataclass(frozen=True)
class FromItem:
    """The relation after ``FROM`` or ``JOIN``, with the clauses that follow it.

    Attributes:
        item: A table's name, a query or rows in parentheses, or a window table function.
        alias: Qualifier of its columns, if one is written.
        watermark: Watermark that the query declares for it.
        span: Span of the source.
        offset: Columns of ``OFFSET FOR (partition, offset)``.
        as_of: Time of ``FOR SYSTEM_TIME AS OF orders.at``.
    """

    item: TableExpression | WindowCall
    alias: str | None
    watermark: Watermark | None
    span: Span
    offset: tuple[str, str] | None = None
    as_of: exp.Expr | None = None

    @property
    def name(self) -> str:
        """The qualifier of its columns."""
        return self.alias or str(self.item).rpartition(".")[2]


@dataclass(frozen=True)
class Join:
    """``JOIN Orders OVER (ROWS 3 PRECEDING) ON ...``.

    Attributes:
        how: ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``.
        source: Right side.
        over: Window of the right side.
        left_over: Window of the left side, if it has one.
        on: Join condition.
        using: Columns of ``USING``.
        span: Span of the join.
        by_where: Whether it is written ``FROM a, b``, with its condition in ``WHERE``.
        within: The ``WITHIN`` clause of ksqlDB.
        not_in: Whether it is ``NOT IN``, whose first equality also holds for NULL.
        as_of: Whether it is ``ASOF JOIN``.
    """

    how: str
    source: FromItem
    over: exp.Window | None
    left_over: exp.Window | None
    on: exp.Expr | None
    using: tuple[str, ...]
    span: Span
    by_where: bool = False
    within: WithinClause | None = None
    not_in: bool = False
    as_of: bool = False


@dataclass(frozen=True)
class SelectItem:
    """One column of a select list.

    Attributes:
        scalar: Expression that it shows; ``None`` for ``*``.
        alias: Its name, if it has one.
        span: Span of the item.
        of: Qualifier of ``*``, such as ``w`` in ``w.*``.
    """

    scalar: exp.Expr | None
    alias: str | None
    span: Span
    of: str | None = None


@dataclass(frozen=True)
class WhenClause:
    """``WHEN max(price) > 100``, after ``EARLY`` or ``LATE``."""

    condition: exp.Expr
    span: Span


@dataclass(frozen=True)
class ThenClause:
    """``EACH THEN EVERY 1 MINUTE``, after ``EARLY`` or ``LATE``."""

    first: OnePolicy | WhenClause
    then: OnePolicy | WhenClause

    @property
    def parts(self) -> tuple[OnePolicy | WhenClause, ...]:
        """Both policies, in their order."""
        return self.first, self.then


PolicyClause = OnePolicy | WhenClause | ThenClause


@dataclass(frozen=True)
class Emit:
    """``EMIT ...``: when windows emit."""

    early: PolicyClause | None = None
    late: PolicyClause | None = None
    grace: Interval | None = None
    retain: Interval | None = None
    retain_rows: int | None = None
    deltas: bool = False
    repeat: bool = True
    fill: Fill | None = None
    changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class SortKey:
    """``total DESC NULLS LAST``."""

    scalar: exp.Expr
    descends: bool
    nulls: Literal["first", "last"] | None


@dataclass(frozen=True)
class OrderBy:
    """``ORDER BY total DESC LIMIT 10``, or one of the two."""

    by: tuple[SortKey, ...]
    limit: int | None
    span: Span


@dataclass(frozen=True)
class Select:
    """A query."""

    items: tuple[SelectItem, ...]
    distinct: bool
    source: FromItem
    joins: tuple[Join, ...]
    where: exp.Expr | None
    group: tuple[exp.Expr, ...]
    having: exp.Expr | None
    named: dict[str, exp.Window] = field(hash=False)
    emit: Emit | None
    span: Span
    group_span: Span
    views: tuple[CreateView, ...] = ()
    window: WindowClause | None = None
    qualify: exp.Expr | None = None
    sets: tuple[tuple[exp.Expr, ...], ...] | None = None
    ordering: OrderBy | None = None
    united: tuple[Select, ...] = ()

    @property
    def scalars(self) -> list[exp.Expr]:
        """The expressions of the select list."""
        return [item.scalar for item in self.items if item.scalar is not None]


Existing = Literal["refuse", "replace", "keep"]
"""The action if the name is taken: ``CREATE``, ``OR REPLACE`` or ``IF NOT EXISTS``."""


@dataclass(frozen=True)
class CreateView:
    """``CREATE VIEW v AS SELECT ...``, or a part of ``WITH``."""

    name: str
    select: Select
    span: Span
    existing: Existing = "refuse"


@dataclass(frozen=True)
class CreateTable:
    """``CREATE TABLE t (...) WITH (...)``."""

    name: str
    columns: tuple[tuple[str, str], ...]
    computed: tuple[tuple[str, exp.Expr], ...]
    marks: InputOptions
    options: dict[str, str] = field(hash=False)
    spans: dict[str, Span] = field(hash=False)
    span: Span
    existing: Existing = "refuse"


@dataclass(frozen=True)
class Insert:
    """``INSERT INTO results REJECTED INTO rejected SELECT ...``."""

    into: str
    into_span: Span
    rejected: str | None
    rejected_span: Span | None
    select: Select


@dataclass(frozen=True)
class Setting:
    """``SET checkpoint = '...'``."""

    name: str
    name_span: Span
    value: str
    value_span: Span


@dataclass(frozen=True)
class Explain:
    """``EXPLAIN SELECT ...``."""

    select: Select
    span: Span


Statement = Select | CreateView | CreateTable | Insert | Setting | Explain


TableExpression = str | Select | Values
"""The relation that a query reads: a table by its name, a query, or rows."""
