"""The syntax trees of statements, in which no name is resolved yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from muntin.model.fill import Fill
from muntin.model.inputs import InputOptions
from muntin.model.pipeline import Values
from muntin.model.policies import OnePolicy, WaitingLimit
from muntin.sql.cursor import Span
from muntin.sql.intervals import Interval

ArgumentKind = Literal["table", "columns", "interval", "text", "scalar"]


@dataclass(frozen=True)
class Argument:
    """One argument of a window call.

    Attributes:
        kind: ``table``, ``columns`` (a descriptor), ``interval``, ``text`` or ``scalar``.
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
    """A call of a window function: ``TUMBLE``, ``HOP``, ``CUMULATE``, ``SESSION`` or Spark's."""

    name: str
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True)
class WindowClause:
    """ksqlDB's ``WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 7 DAYS, GRACE PERIOD 10 MINUTES)``."""

    call: WindowCall
    grace: Interval | None
    retention: Interval | None


@dataclass(frozen=True)
class WithinClause:
    """ksqlDB's ``WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD 10 MINUTES``, before ``ON``.

    Attributes:
        before: How much earlier the right partner may be, in microseconds.
        after: How much later the right partner may be, in microseconds.
        grace: How long late messages are accepted; ``None`` if the clause has no grace.
    """

    before: int
    after: int
    grace: Interval | None
    span: Span


@dataclass(frozen=True)
class Watermark:
    """``WATERMARK FOR ts AS ts - INTERVAL ...`` or ``WATERMARK ts DELAY OF INTERVAL ...``."""

    input_options: InputOptions
    span: Span


@dataclass(frozen=True)
class FromItem:
    """The relation after ``FROM`` or ``JOIN``, with the clauses that follow it.

    Attributes:
        table: Table's name, query or rows in parentheses, or window table function.
        watermark: Watermark that the query declares for it.
        span: Span of the relation and its clauses.
        offset: Columns of ``OFFSET FOR (partition, offset)``.
        as_of: Time of ``FOR SYSTEM_TIME AS OF orders.at``.
    """

    table: TableExpression | WindowCall
    alias: str | None
    watermark: Watermark | None
    span: Span
    offset: tuple[str, str] | None = None
    as_of: exp.Expr | None = None

    @property
    def name(self) -> str:
        """The alias, or the last part of the table's name, which qualifies columns."""
        return self.alias or str(self.table).rpartition(".")[2]


@dataclass(frozen=True)
class Join:
    """``JOIN Orders OVER (ROWS 3 PRECEDING) ON ...``.

    Attributes:
        how: ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``.
        source: Right side.
        over: Window of the right side; ``None`` without one.
        left_over: Window of the left side; ``None`` without one.
        is_comma_join: Whether it is ``FROM a, b``, with its condition in ``WHERE``.
        is_not_in: Whether it is ``NOT IN``, whose first equality also holds for NULL.
    """

    how: str
    source: FromItem
    over: exp.Window | None
    left_over: exp.Window | None
    on: exp.Expr | None
    using: tuple[str, ...]
    span: Span
    is_comma_join: bool = False
    within: WithinClause | None = None
    is_not_in: bool = False
    is_asof: bool = False


@dataclass(frozen=True)
class SelectItem:
    """One item of a select list.

    Attributes:
        scalar: Expression; ``None`` for ``*``.
        qualifier: Qualifier of ``*``, such as ``w`` in ``w.*``; ``None`` without one.
    """

    scalar: exp.Expr | None
    alias: str | None
    span: Span
    qualifier: str | None = None


@dataclass(frozen=True)
class WhenClause:
    """``WHEN max(price) > 100`` of ``EARLY`` or ``LATE``."""

    condition: exp.Expr
    span: Span


@dataclass(frozen=True)
class ThenClause:
    """``EACH THEN EVERY 1 MINUTE`` of ``EARLY`` or ``LATE``."""

    first: OnePolicy | WhenClause
    then: OnePolicy | WhenClause

    @property
    def parts(self) -> tuple[OnePolicy | WhenClause, ...]:
        """Both policies in their order."""
        return self.first, self.then


PolicyClause = OnePolicy | WhenClause | ThenClause


@dataclass(frozen=True)
class Emit:
    """``EMIT``: when windows emit, and how long they are retained."""

    early: PolicyClause | None = None
    over: WaitingLimit | None = None
    late: PolicyClause | None = None
    grace: Interval | None = None
    retain: Interval | None = None
    retain_rows: int | None = None
    deltas: bool = False
    repeat: bool = True
    fill: Fill | None = None
    changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict, hash=False)

    @property
    def has_only_changes(self) -> bool:
        """True if it is ksqlDB's ``EMIT CHANGES``, which says nothing of rows without windows."""
        return self.spans.keys() == {"emit", "changes"}

    @property
    def when_clauses(self) -> list[WhenClause]:
        """The conditions on which windows emit."""
        policies = self.early, self.late
        parts = [one for p in policies for one in (p.parts if isinstance(p, ThenClause) else (p,))]
        return [part for part in parts if isinstance(part, WhenClause)]


@dataclass(frozen=True)
class SortKey:
    """One key of ``ORDER BY``: ``total DESC NULLS LAST``."""

    scalar: exp.Expr
    is_descending: bool
    nulls: Literal["first", "last"] | None


@dataclass(frozen=True)
class OrderBy:
    """``ORDER BY total DESC LIMIT 10``, or one of both clauses."""

    keys: tuple[SortKey, ...]
    limit: int | None
    span: Span


@dataclass(frozen=True)
class Select:
    """A query, with the clauses in the order of SQL.

    ``named_keys`` are the expressions to which ``GROUP BY`` gives a name, as in ``window(ts, '1
    hour') AS w``.
    """

    items: tuple[SelectItem, ...]
    source: FromItem
    span: Span
    group_span: Span
    distinct: bool = False
    joins: tuple[Join, ...] = ()
    where: exp.Expr | None = None
    group: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    named_windows: dict[str, exp.Window] = field(default_factory=dict, hash=False)
    emit: Emit | None = None
    views: tuple[CreateView, ...] = ()
    window: WindowClause | None = None
    qualify: exp.Expr | None = None
    grouping_sets: tuple[tuple[exp.Expr, ...], ...] | None = None
    order_by: OrderBy | None = None
    unions: tuple[Select, ...] = ()
    named_keys: tuple[SelectItem, ...] = ()

    @property
    def scalars(self) -> list[exp.Expr]:
        """The expressions of the select list, without ``*``."""
        return [item.scalar for item in self.items if item.scalar is not None]


Existing = Literal["refuse", "replace", "keep"]
"""What happens if the name exists: ``CREATE``, ``OR REPLACE`` or ``IF NOT EXISTS``."""


@dataclass(frozen=True)
class CreateView:
    """``CREATE VIEW v AS SELECT ...``, or one view of ``WITH``."""

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
    input_options: InputOptions
    options: dict[str, str] = field(hash=False)
    spans: dict[str, Span] = field(hash=False)
    span: Span
    existing: Existing = "refuse"
    names: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()


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
