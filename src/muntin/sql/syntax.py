"""Statements as they were read: plain values with their places, nothing resolved yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from muntin.model.policies import Policy
from muntin.sql.cursor import Span
from muntin.sql.lengths import Length


@dataclass(frozen=True)
class Argument:
    """One argument of a window call.

    Attributes:
        kind: ``table``, ``columns`` (a descriptor), ``length``, ``text``, ``moment`` (a timestamp)
            or ``scalar``.
        value: What it is.
        span: Where it stands.
        label: Its name, in capitals, where it was given by name.
        partition: The columns of ``TABLE t PARTITION BY ...``.
    """

    kind: Literal["table", "columns", "length", "text", "moment", "scalar"]
    value: object
    span: Span
    label: str | None = None
    partition: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class WindowCall:
    """A window function: ``TUMBLE``, ``HOP``, ``CUMULATE``, ``SESSION`` or Spark's.

    Attributes:
        name: Which, in capitals.
        arguments: Its arguments.
        span: Where it stands.
    """

    name: str
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True)
class WindowClause:
    """``WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 7 DAYS, GRACE PERIOD 10 MINUTES)``.

    Attributes:
        call: The window function that it means; the source names the time column.
        grace: How long late messages are taken.
        retention: How long a window is kept, from its start.
        span: Where it stands.
    """

    call: WindowCall
    grace: Length | None
    retention: Length | None
    span: Span


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
    """``WATERMARK FOR ts AS ts - INTERVAL ...`` or ``WATERMARK ts DELAY OF INTERVAL ...``.

    Attributes:
        column: The event-time column.
        lateness: How far the watermark trails.
        ahead: How far ahead of the wall clock a message may be; ``None`` is any.
        says_ahead: Whether it says so.
        span: Where it stands.
    """

    column: str
    lateness: int
    ahead: int | None
    says_ahead: bool
    span: Span


@dataclass(frozen=True)
class Source:
    """What stands behind ``FROM`` or ``JOIN``.

    Attributes:
        item: A table's name, a query in parentheses, or a window table function.
        alias: The name that its columns may be qualified by.
        watermark: Its watermark.
        span: Where it stands.
        offset: The columns of ``OFFSET FOR (partition, offset)``.
    """

    item: str | Select | WindowCall
    alias: str | None
    watermark: Watermark | None
    span: Span
    offset: tuple[str, str] | None = None


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


@dataclass(frozen=True)
class Item:
    """One column of a select list.

    Attributes:
        scalar: The expression; ``None`` for ``*``.
        alias: Its name.
        span: Where it stands, without the name.
    """

    scalar: exp.Expr | None
    alias: str | None
    span: Span


@dataclass(frozen=True)
class Emit:
    """``EMIT ...``: when windows emit.

    Attributes:
        early: The early policy.
        late: The late policy.
        grace: For how long late messages are taken.
        retain: How long state is kept.
        retain_rows: How many messages may be kept.
        deltas: Whether a firing emits only what is new.
        repeat: Whether a window emits in full when nothing is new since it emitted early.
        changes: Whether every change is emitted.
        spans: Where each of these stands.
    """

    early: Policy | None = None
    late: Policy | None = None
    grace: Length | None = None
    retain: Length | None = None
    retain_rows: int | None = None
    deltas: bool = False
    repeat: bool = True
    changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Select:
    """A query.

    Attributes:
        items: The select list.
        distinct: Whether it is a ``SELECT DISTINCT``.
        source: Where rows come from.
        joins: What they are joined with.
        where: Which rows.
        group: What they are grouped by.
        having: Which groups.
        named: Named windows of ``WINDOW w AS (...)``.
        emit: When windows emit.
        span: Where it stands.
        group_span: Where ``GROUP BY`` stands.
        views: What ``WITH`` names.
        window: ksqlDB's ``WINDOW TUMBLING (...)``.
    """

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


Existing = Literal["refuse", "replace", "keep"]
"""What becomes of what has the name already: ``CREATE``, ``OR REPLACE``, ``IF NOT EXISTS``."""


@dataclass(frozen=True)
class CreateView:
    """``CREATE VIEW v AS SELECT ...``, or a part of ``WITH``.

    Attributes:
        name: The view's name.
        select: The query.
        span: Where the name stands.
        existing: What becomes of a view of that name.
    """

    name: str
    select: Select
    span: Span
    existing: Existing = "refuse"


@dataclass(frozen=True)
class CreateTable:
    """``CREATE TABLE t (...) WITH (...)``.

    Attributes:
        name: The table's name.
        columns: Physical columns: name and type.
        computed: Computed columns: name and expression.
        watermark: Its watermark.
        offset: The columns of ``OFFSET FOR (partition, offset)``.
        clock: The column of ``CLOCK FOR arrived``.
        options: What stands in ``WITH``, as it was written.
        spans: Where each option's value stands.
        span: Where the statement begins.
        existing: What becomes of a table of that name.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    computed: tuple[tuple[str, exp.Expr], ...]
    watermark: Watermark | None
    offset: tuple[str, str] | None
    clock: str | None
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


Statement = Select | CreateView | CreateTable | Insert | Setting | Explain
