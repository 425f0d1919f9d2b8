"""The model of a pipeline: its tables, the windowed queries over them, and their sinks.

SQL and TOML files are both translated to this model, and the runner reads nothing else. Expressions
stay as text for Spark SQL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from muntin.model.inputs import InputOptions
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec


@dataclass(frozen=True, slots=True)
class Expression:
    """A scalar expression in Spark SQL, in place of an aggregate's column."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Column:
    """A named column with its expression."""

    name: str
    text: str

    @property
    def bare(self) -> bool:
        """True if the expression is just the column of that name."""
        return self.text in (self.name, quote_name(self.name))


def quote_name(name: str) -> str:
    """Quote a name for Spark SQL.

    Example:
        >>> quote_name("a`b")
        '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class TableRelation:
    """A table that is read by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Values:
    """Literal rows in the query.

    Attributes:
        text: The rows in Spark SQL, as they follow ``VALUES``.
    """

    text: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Derived:
    """A relation after a projection and a filter.

    Attributes:
        columns: The columns of the result; ``None`` for all columns unchanged.
    """

    source: Relation
    columns: tuple[Column, ...] | None = None
    where: str | None = None


LookupHow = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A join of a relation with a table that doesn't change.

    Attributes:
        name: The table's name in the statement.
        on: The join condition, in which the sides are called ``SIDE_COLUMNS``.
        shared: Columns with one name that are compared for equality; they are shown once.
        equal: The columns of both sides that the condition compares for equality.
        rest: The other parts of the condition, if there are any.
    """

    source: Relation
    table: Relation
    name: str
    how: LookupHow
    on: str
    shared: tuple[str, ...] = ()
    equal: tuple[tuple[str, str], ...] = ()
    rest: str | None = None


@dataclass(frozen=True, slots=True)
class WindowLookup:
    """A join of a query's results with a table that doesn't change.

    Attributes:
        name: The table's name in the statement.
        equal: One or more pairs of an expression over the results and the column of the table that
            it is compared with.
        shared: Columns with one name that are compared for equality; they are shown once.
        row: The column of the results that holds the table's row as a struct.
    """

    table: Relation
    name: str
    how: LookupHow
    equal: tuple[tuple[str, str], ...]
    shared: tuple[str, ...]
    row: str

    @property
    def all(self) -> Column:
        """All columns of the table's row."""
        return Column("*", f"{self.row}.*")


@dataclass(frozen=True, slots=True)
class Union:
    """The union of relations, with columns matched by position; none of them is a query."""

    parts: tuple[Relation, ...]


@dataclass(frozen=True)
class DeclaredTable:
    """A source or a sink.

    Attributes:
        connector: Its kind, for example ``parquet``.
        columns: Names and types of a source's columns, in Spark's DDL.
        computed: Columns that are computed from ``columns``.
        options: The connector's options, with placeholders such as ``${name}``.
        marks: The options for event time and watermark.
        stream: Whether it is read as a stream.
        names: The columns in the order of their declaration, with the computed ones; empty if they
            aren't declared.
        primary_key: The columns of ``PRIMARY KEY (…) NOT ENFORCED``.
    """

    name: str
    connector: str
    columns: str | None = None
    computed: tuple[Column, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    marks: InputOptions = InputOptions()
    stream: bool = True
    names: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SortOrder:
    """A sort key.

    Attributes:
        text: An expression over the columns that are shown.
        descends: Whether the greatest value comes first.
        nulls: The position of nulls; ``None`` for Spark's default.
    """

    text: str
    descends: bool = False
    nulls: Literal["first", "last"] | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """The sort order of a batch's rows, and how many of them are shown."""

    by: tuple[SortOrder, ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A projection and filter of results.

    Attributes:
        columns: The columns that are shown; ``None`` for all columns unchanged.
    """

    columns: tuple[Column, ...] | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranked rows of each window, numbered from 1.

    Attributes:
        number: The column of a row's number.
        by: The sort keys, followed by all columns; the event time if there are none.
        ascending: For each sort key whether the least value is first.
        most: Greatest number of rows per window; ``None`` for all rows.
        choices: Projections and filters of the rows, applied one after the other.
        chained: Whether the rows are results of other windows, whose bounds they have.
        function: ``ROW_NUMBER``, ``RANK`` or ``DENSE_RANK``. Rows of a tie share a rank, and have
            their row number besides.
        star: The table's columns that ``*`` shows before the window's bounds and time, as in
            Flink; empty for all of them. ``None`` shows the keys and the bounds first.
    """

    number: str
    by: tuple[str, ...] = ()
    ascending: tuple[bool, ...] = ()
    most: int | None = None
    choices: tuple[Choice, ...] = ()
    chained: bool = False
    function: str = "ROW_NUMBER"
    star: tuple[str, ...] | None = None

    @property
    def has_ties(self) -> bool:
        """True if several rows may share a number."""
        return self.function != "ROW_NUMBER"


ROWS = "__muntin_rows"
"""The aggregate with the rows of a window, for ``Ranking``."""
ROW, ROW_INDEX = "__muntin_row", "__muntin_place"
"""Columns of one exploded row of the window, and of its index from 0."""
WINDOW_BOUNDS = ("window_start", "window_end")
EMISSION_COLUMNS = ("emission", "revision")
"""The columns that say why a result was emitted, and which of its window's results it is."""
NUMBER = "row_number"
"""Default name of the column of a row's number."""
FIRST, LAST = "__muntin_start", "__muntin_end"
"""The keys that hold the bounds of the ranked windows."""


@dataclass(frozen=True)
class WindowRelation:
    """A windowed aggregation over a relation.

    Attributes:
        spec: The query; its keys are the names in ``keys``.
        columns: The columns of each emission, in order; ``None`` for all columns.
        having: The filter of emissions. A window that no longer passes it is retracted.
        ranking: The ranking of each window's rows, if the query shows rows instead of aggregates.
        each: Whether the query has a result for each message (``OVER``), with the message as
            ``ROW`` in ``columns``.
        lookups: Tables whose rows are joined with the results, for ``columns`` and ``having``.
    """

    source: Relation
    spec: WindowSpec
    keys: tuple[Column, ...]
    where: str | None = None
    columns: tuple[Column, ...] | None = None
    having: str | None = None
    clock: str | None = None
    shards: int | None = None
    ranking: Ranking | None = None
    each: bool = False
    lookups: tuple[WindowLookup, ...] = ()


SIDE_COLUMNS = "__muntin_left", "__muntin_right"
"""The names of the sides of a join in expressions over its pairs."""
SUFFIX = "_right"
"""The suffix of columns of a join's right side whose names the left side has, too."""


@dataclass(frozen=True)
class JoinRelation:
    """A join of two relations.

    Attributes:
        names: The qualifiers of the sides' columns in the statement; in ``columns`` and ``where``
            they are ``SIDE_COLUMNS``.
        columns: The columns that are shown of each pair, in order; ``None`` for all columns.
        bare: The columns that the statement names without a side.
        merged: Whether equal columns are one (``USING``); otherwise each side has its own.
        clocks: The columns of the messages' arrival times, left and right.
    """

    left: Relation
    right: Relation
    names: tuple[str, str]
    spec: JoinSpec
    columns: tuple[Column, ...] | None = None
    where: str | None = None
    bare: tuple[str, ...] = ()
    merged: bool = False
    clocks: tuple[str | None, str | None] = (None, None)
    shards: int | None = None

    @property
    def keeps_both_keys(self) -> bool:
        """True if pairs have the key of each side."""
        return self.spec.how not in ("semi", "anti") and not self.spec.bound.revises

    @property
    def shows_pairs_unchanged(self) -> bool:
        """True if the results are the columns of pairs as the join emits them."""
        is_merged = self.merged and self.keeps_both_keys
        return self.columns is None and self.where is None and not is_merged


QueryRelation = WindowRelation | JoinRelation
Relation = TableRelation | Values | Derived | Lookup | Union | QueryRelation
"""A source of rows: a table, rows derived from tables, or the results of an inner query."""


def find_tables(relation: Relation) -> frozenset[str]:
    """Return the names of the tables that a relation reads, in lower case.

    Example:
        >>> sorted(find_tables(Derived(TableRelation("Clicks"))))
        ['clicks']
    """
    return frozenset(count_tables(relation))


def count_tables(relation: Relation) -> Counter[str]:
    """Return how many times a relation reads each table, by its name in lower case."""
    if isinstance(relation, TableRelation):
        return Counter([relation.name.lower()])
    if isinstance(relation, Values):
        return Counter()
    parts: Sequence[Relation]
    if isinstance(relation, JoinRelation):
        parts = (relation.left, relation.right)
    elif isinstance(relation, Union):
        parts = relation.parts
    elif isinstance(relation, Lookup):
        parts = (relation.source, relation.table)
    else:
        beside = relation.lookups if isinstance(relation, WindowRelation) else ()
        parts = (relation.source, *(one.table for one in beside))
    return sum(map(count_tables, parts), Counter())


def set_shards(query: QueryRelation, shards: int) -> QueryRelation:
    """Return a query with a number of shards for it and for the queries that it reads."""
    if isinstance(query, WindowRelation):
        return replace(query, source=_set_source_shards(query.source, shards), shards=shards)
    left, right = (_set_source_shards(side, shards) for side in (query.left, query.right))
    return replace(query, left=left, right=right, shards=shards)


def _set_source_shards(relation: Relation, shards: int) -> Relation:
    if isinstance(relation, Derived):
        return replace(relation, source=_set_source_shards(relation.source, shards))
    if isinstance(relation, TableRelation | Values | Lookup | Union):
        return relation
    return set_shards(relation, shards)


@dataclass(frozen=True)
class Flow:
    """A query and the tables that its results and rejected messages are written to."""

    name: str
    query: QueryRelation
    results: str | None = None
    rejected: str | None = None


@dataclass(frozen=True)
class Pipeline:
    """The content of a pipeline file.

    Attributes:
        tables: Sources and sinks by name.
        checkpoint: The folder of the queries' progress and state.
        trigger: Least time between two batches, microseconds; ``None`` for no wait.
        available_now: Whether the run ends once it has read all available input.
        names: The names that ``--set`` may define, since the file has placeholders for them.
        places: The line and span of each expression in the SQL, by its text.
    """

    tables: Mapping[str, DeclaredTable]
    flows: tuple[Flow, ...]
    checkpoint: str | None = None
    trigger: int | None = None
    available_now: bool = False
    names: frozenset[str] = frozenset()
    places: Mapping[str, tuple[str, tuple[int, int]]] = field(default_factory=dict, compare=False)
