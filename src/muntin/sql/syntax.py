"""Statements as they were read: plain values with their places, nothing resolved yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from muntin.model.inputs import Marks
from muntin.model.pipeline import Values
from muntin.model.policies import Fill, OnePolicy
from muntin.sql.cursor import Span
from muntin.sql.lengths import Length

ArgumentKind = Literal["table", "columns", "length", "text", "scalar"]


@dataclass(frozen=True)
class Argument:
    """One argument of a window call.

    Attributes:
        kind: ``table``, ``columns`` (a descriptor), ``length``, ``text`` or ``scalar``.
        value: What it is.
        span: Where it stands.
        label: Its name, in capitals, where it was given by name.
        partition: The columns of ``TABLE t PARTITION BY ...``.
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
    grace: Length | None
    retention: Length | None


@dataclass(frozen=True)
class WithinClause:
    """``WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD 10 MINUTES``, between a table and ``ON``.

    Attributes:
        before: How much earlier a partner on the right may be.
        after: How much later.
        grace: How long late messages are taken.
        span: Where it stands.
    """

    before: int
    after: int
    grace: Length | None
    span: Span


@dataclass(frozen=True)
class Watermark:
    """``WATERMARK FOR ts AS ts - INTERVAL ...`` or ``WATERMARK ts DELAY OF INTERVAL ...``."""

    marks: Marks
    span: Span


@dataclass(frozen=True)
class Source:
    """What stands behind ``FROM`` or ``JOIN``.

    Attributes:
        item: A table's name, a query or rows in parentheses, or a window table function.
        alias: The name that its columns may be qualified by.
        watermark: Its watermark.
        span: Where it stands.
        offset: The columns of ``OFFSET FOR (partition, offset)``.
        as_of: The time of ``FOR SYSTEM_TIME AS OF orders.at``.
    """

    item: TableItem | WindowCall
    alias: str | None
    watermark: Watermark | None
    span: Span
    offset: tuple[str, str] | None = None
    as_of: exp.Expr | None = None

    @property
    def name(self) -> str:
        """What its columns may be qualified by."""
        return self.alias or str(self.item).rpartition(".")[2]


@dataclass(frozen=True)
class Join:
    """``JOIN Orders OVER (ROWS 3 PRECEDING) ON ...``.

    Attributes:
        how: ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``.
        source: The other side.
        over: Its window.
        left_over: The window of the first side, if it has one.
        on: The condition.
        using: The columns of ``USING``.
        span: Where it stands.
        by_where: Whether it is ``FROM a, b``, and its condition in ``WHERE``.
        within: ksqlDB's ``WITHIN``.
        not_in: Whether it is ``NOT IN``, whose first equality holds of a NULL on either side, too.
        as_of: Whether it is ``ASOF JOIN``.
    """

    how: str
    source: Source
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
class Item:
    """One column of a select list.

    Attributes:
        scalar: What it shows; ``None`` is ``*``.
        alias: Its name, where it is given one.
        span: Where it stands.
        of: Whose columns ``*`` is, as of ``w.*``.
    """

    scalar: exp.Expr | None
    alias: str | None
    span: Span
    of: str | None = None


@dataclass(frozen=True)
class WhenClause:
    """``WHEN max(price) > 100``, behind ``EARLY`` or ``LATE``."""

    condition: exp.Expr
    span: Span


@dataclass(frozen=True)
class ThenClause:
    """``EACH THEN EVERY 1 MINUTE``, behind ``EARLY`` or ``LATE``."""

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
    grace: Length | None = None
    retain: Length | None = None
    retain_rows: int | None = None
    deltas: bool = False
    repeat: bool = True
    fill: Fill | None = None
    changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class OrderedBy:
    """``total DESC NULLS LAST``."""

    scalar: exp.Expr
    descends: bool
    nulls: Literal["first", "last"] | None


@dataclass(frozen=True)
class Ordering:
    """``ORDER BY total DESC LIMIT 10``, or one of the two."""

    by: tuple[OrderedBy, ...]
    limit: int | None
    span: Span


@dataclass(frozen=True)
class Select:
    """A query."""

    items: tuple[Item, ...]
    distinct: bool
    source: Source
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
    ordering: Ordering | None = None
    united: tuple[Select, ...] = ()

    @property
    def scalars(self) -> list[exp.Expr]:
        """The expressions of the select list."""
        return [item.scalar for item in self.items if item.scalar is not None]


Existing = Literal["refuse", "replace", "keep"]
"""What becomes of what has the name already: ``CREATE``, ``OR REPLACE``, ``IF NOT EXISTS``."""


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
    marks: Marks
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


TableItem = str | Select | Values
"""A table by its name, a query, or rows."""
