"""A pipeline in one frozen value: tables, windowed queries over them, and where results go.

SQL and TOML files are both lowered to this, and the door that runs them reads nothing else. Parts
that are expressions stay as the text that Spark SQL will read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from muntin.model.inputs import Marks
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec


@dataclass(frozen=True, slots=True)
class Expression:
    """A scalar expression in Spark SQL, where an aggregate takes a column.

    Attributes:
        text: The expression, as Spark SQL reads it.
    """

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Column:
    """A named column that an expression makes."""

    name: str
    text: str

    @property
    def bare(self) -> bool:
        """Whether it is just the column of that name."""
        return self.text in (self.name, quoted(self.name))


def quoted(name: str) -> str:
    """A name as Spark SQL reads any name.

    Example:
        >>> quoted("a`b")
        '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Reading:
    """The rows of a table, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Values:
    """Rows that stand in the query itself.

    Attributes:
        text: They, as Spark SQL reads them behind ``VALUES``.
        columns: What their columns are called; as Spark calls them where that isn't said.
    """

    text: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Derived:
    """Rows of a relation, chosen and computed one by one.

    Attributes:
        source: Where rows come from.
        columns: What is made of each; ``None`` leaves them as they are.
        where: Which rows.
    """

    source: Relation
    columns: tuple[Column, ...] | None = None
    where: str | None = None


LookupHow = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a relation, each with those that it meets in a table that doesn't change.

    Attributes:
        source: Where rows come from; no query's results, which have ``Windowing.lookups``.
        table: Where they are looked up.
        name: What the table is called.
        how: ``inner``, ``left``, ``semi`` or ``anti``.
        on: Which rows meet; the sides are called ``SIDE_COLUMNS``.
        shared: Columns of one name that are equal where rows meet; they are shown once.
    """

    source: Relation
    table: Relation
    name: str
    how: LookupHow
    on: str
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowLookup:
    """A table that doesn't change, in which windows are looked up when they emit.

    Attributes:
        table: Where they are looked up.
        name: What the table is called.
        how: ``inner`` or ``left``.
        equal: An expression over what windows emit, and the column that it is equal to where a
            window meets a row; one pair or more.
        shared: Columns of one name that are equal where rows meet; they are shown once.
        row: The column that the table's row is among what windows emit.
    """

    table: Relation
    name: str
    how: LookupHow
    equal: tuple[tuple[str, str], ...]
    shared: tuple[str, ...]
    row: str

    @property
    def all(self) -> Column:
        """All columns of its rows."""
        return Column("*", f"{self.row}.*")


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of several relations, which are no query's results; columns meet by their places."""

    parts: tuple[Relation, ...]


@dataclass(frozen=True)
class DeclaredTable:
    """A source or a sink.

    Attributes:
        name: Its name.
        connector: What kind, for example ``parquet``.
        columns: Names and types of what the source holds, as Spark's DDL.
        computed: Columns that are computed from those.
        options: Everything else, with ``${name}`` where a value is filled in.
        marks: Where its messages lie.
        stream: Whether it is read as a stream.
    """

    name: str
    connector: str
    columns: str | None = None
    computed: tuple[Column, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    marks: Marks = Marks()
    stream: bool = True


@dataclass(frozen=True, slots=True)
class Ordered:
    """One thing that rows are ordered by.

    Attributes:
        text: An expression over what is shown.
        descends: Whether the greatest comes first.
        nulls: Where nulls come; where Spark has them if nothing is said.
    """

    text: str
    descends: bool = False
    nulls: Literal["first", "last"] | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """In which order the rows of a batch are shown, and how many of them."""

    by: tuple[Ordered, ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows of results, chosen and computed one by one.

    Attributes:
        columns: What is shown of each; ``None`` shows it as it is.
        where: Which rows.
    """

    columns: tuple[Column, ...] | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The rows of each window, numbered from 1, as rows of their own.

    Attributes:
        number: The column of a row's number.
        by: What rows are ordered by; the first that differs decides, and at last all columns. Of
            none, it is their time.
        ascending: For each of them whether the least is first.
        most: How many rows there are at most of each window; ``None`` is all of them.
        choices: What is shown of them, one after the other.
        chained: Whether the rows are what other windows emitted, whose bounds are theirs.
    """

    number: str
    by: tuple[str, ...] = ()
    ascending: tuple[bool, ...] = ()
    most: int | None = None
    choices: tuple[Choice, ...] = ()
    chained: bool = False


ROWS = "__muntin_rows"
"""The aggregate that has the rows of a window for ``Ranking``."""
ROW, PLACE = "__muntin_row", "__muntin_place"
"""A row of those, and its place among them from 0, where each is a row of its own."""
NUMBER = "row_number"
"""What the number of a row is called where nobody gives it a name."""
FIRST, LAST = "__muntin_start", "__muntin_end"
"""Keys that are the bounds of the windows whose rows are ranked."""


@dataclass(frozen=True)
class Windowing:
    """A windowed aggregation over a relation.

    Attributes:
        source: Where messages come from.
        spec: The query; its keys are the names in ``keys``.
        keys: The key columns.
        where: Which messages to take.
        columns: What is shown of each firing, in order; ``None`` shows it as it is.
        having: Which firings hold. One that holds no more after it was emitted is taken back.
        clock: The column that says when a message arrived.
        buckets: In how many shards the keys are kept.
        ranking: How the rows of each window are shown in place of an aggregate.
        each: Whether each message that a window ends with is a row of its own, with the window's
            aggregates: ``ROW`` in ``columns``.
        lookups: Tables whose rows stand beside those of windows in ``columns`` and ``having``.
    """

    source: Relation
    spec: WindowSpec
    keys: tuple[Column, ...]
    where: str | None = None
    columns: tuple[Column, ...] | None = None
    having: str | None = None
    clock: str | None = None
    buckets: int | None = None
    ranking: Ranking | None = None
    each: bool = False
    lookups: tuple[WindowLookup, ...] = ()


SIDE_COLUMNS = "__muntin_left", "__muntin_right"
"""What the sides of a join are called in the text of expressions over its pairs."""


@dataclass(frozen=True)
class Joining:
    """A join of two relations.

    Attributes:
        left: Where the left side's messages come from.
        right: Where the right side's come from.
        names: What the sides' columns are qualified by in a statement; in ``columns`` and
            ``where`` they are ``SIDE_COLUMNS``.
        spec: The join.
        columns: What is shown of each pair, in order; ``None`` shows it as it is.
        where: Which pairs are shown.
        bare: The columns that are named without saying whose they are.
        merged: Whether equal columns are one (``USING``); otherwise each side has its own.
        clocks: The columns that say when a message arrived, left and right.
        buckets: In how many shards the keys are kept.
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
    buckets: int | None = None


Query = Windowing | Joining
Relation = Reading | Values | Derived | Lookup | Union | Query
"""Where rows come from; of a query they are what it emits, and both run as one."""


def tables_of(relation: Relation) -> frozenset[str]:
    """The tables that a relation's rows come from, in lower case.

    Example:
        >>> sorted(tables_of(Derived(Reading("Clicks"))))
        ['clicks']
    """
    if isinstance(relation, Reading):
        return frozenset({relation.name.lower()})
    if isinstance(relation, Values):
        return frozenset()
    if isinstance(relation, Joining):
        return tables_of(relation.left) | tables_of(relation.right)
    if isinstance(relation, Union):
        return frozenset().union(*map(tables_of, relation.parts))
    if isinstance(relation, Lookup):
        return tables_of(relation.source) | tables_of(relation.table)
    beside = relation.lookups if isinstance(relation, Windowing) else ()
    return tables_of(relation.source).union(*(tables_of(one.table) for one in beside))


def sharded(query: Query, buckets: int) -> Query:
    """The same, where it and the queries before it keep their keys in so many shards."""
    if isinstance(query, Windowing):
        return replace(query, source=_sharded(query.source, buckets), buckets=buckets)
    left, right = (_sharded(side, buckets) for side in (query.left, query.right))
    return replace(query, left=left, right=right, buckets=buckets)


def _sharded(relation: Relation, buckets: int) -> Relation:
    if isinstance(relation, Derived):
        return replace(relation, source=_sharded(relation.source, buckets))
    if isinstance(relation, Reading | Values | Lookup | Union):
        return relation
    return sharded(relation, buckets)


@dataclass(frozen=True)
class Flow:
    """A query and where it goes."""

    name: str
    query: Query
    results: str | None = None
    rejected: str | None = None


@dataclass(frozen=True)
class Pipeline:
    """Everything that a pipeline file says.

    Attributes:
        tables: Sources and sinks by name.
        flows: The queries, in order.
        checkpoint: The folder of the queries' progress and state.
        trigger: A batch at most this often, microseconds; ``None`` is as fast as possible.
        available_now: Whether to read what is there now, then end.
        names: What ``--set`` may give: the names that the file asks for.
        places: Where expressions stand in SQL, by their text.
    """

    tables: Mapping[str, DeclaredTable]
    flows: tuple[Flow, ...]
    checkpoint: str | None = None
    trigger: int | None = None
    available_now: bool = False
    names: frozenset[str] = frozenset()
    places: Mapping[str, tuple[str, tuple[int, int]]] = field(default_factory=dict, compare=False)
