"""Checks the tables, columns, types and options of a pipeline without Spark, all errors at once.

Only Spark can check some parts, such as the type of a function's argument. ``Checked`` names the
queries with such parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from muntin.model.aggregates import Aggregate
from muntin.model.axis import Axis
from muntin.model.close_names import find_close_name
from muntin.model.errors import MuntinError, OptionError, SqlError
from muntin.model.inputs import AHEAD
from muntin.model.pipeline import (
    FIRST,
    LAST,
    NUMBER,
    Column,
    DeclaredTable,
    Derived,
    Expression,
    Flow,
    JoinRelation,
    Pipeline,
    QueryRelation,
    Relation,
    TableRelation,
    Union,
    WindowRelation,
    find_tables,
    quote_name,
)
from muntin.model.ranking import list_identity_columns
from muntin.model.reader_options import marks_malformed, reader_problems
from muntin.model.rolling import emits_messages, emits_plain_rows
from muntin.model.shapes import Shape
from muntin.sql.catalog import resolve_bound_alias
from muntin.sql.expression_types import (
    Expr,
    find_unitless_times,
    find_unknown_names,
    infer_family,
    parse_ddl_columns,
    parse_expression,
    parse_shape,
)

Shapes = Mapping[str, Shape | None]
"""The shapes of columns by name in lower case; ``None`` if a shape is unknown."""
_TIMESTAMP, _TEXT, _INTEGER = (Shape(one, one) for one in ("timestamp", "string", "integer"))
_KAFKA_COLUMNS: Shapes = {"key": _TEXT, "topic": _TEXT, "partition": _INTEGER, "offset": _INTEGER,
                    "timestamp": _TIMESTAMP, "headers": None}  # fmt: skip
_RATE_COLUMNS: Shapes = {"timestamp": _TIMESTAMP, "value": _INTEGER}
_EMISSION_COLUMNS: Shapes = {"emission": _TEXT, "revision": _INTEGER}
# Sinks that append each revision of a row.
_APPENDING = ("parquet", "console", "print", "json", "csv")
_BOUNDS: Shapes = {"window_start": _TIMESTAMP, "window_end": _TIMESTAMP}


class PipelineCheckError(MuntinError):
    """A pipeline has an error; the message names the query or the table."""


@dataclass
class Checked:
    """The result of a check without Spark.

    Attributes:
        flows: Names of queries without errors, which have parts that only Spark can check.
        cautions: Warnings about valid parts that may not be intended.
    """

    problems: list[MuntinError] = field(default_factory=list)
    flows: set[str] = field(default_factory=set)
    cautions: list[str] = field(default_factory=list)


def check_pipeline(pipeline: Pipeline, check_sink: Callable[[DeclaredTable], None]) -> Checked:
    """Check a pipeline without Spark; ``check_sink`` refuses a table that can't be written to."""
    checked = Checked()
    written_tables = {name.lower() for flow in pipeline.flows for name in _output_names(flow)}
    queries = [flow.query for flow in pipeline.flows]
    read_tables = frozenset[str]().union(*map(find_tables, queries))
    axes: defaultdict[str, set[Axis]] = defaultdict(set)
    for name, axis in (read for query in queries for read in _list_axes(query)):
        axes[name].add(axis)
    for name, table in pipeline.tables.items():
        checked.problems += _check_declaration(
            table, name in read_tables, name in written_tables, check_sink
        )
        checked.problems += _find_unused_options(table, axes[name])
    for flow in pipeline.flows:
        checker = _Checker(pipeline, flow.name)
        checker.check_relation(flow.query)
        target = pipeline.tables.get((flow.results or "").lower())
        if target is not None:
            checker.check_sink(target, flow.query)
        checked.problems += checker.problems
        checked.cautions += checker.cautions
        if checker.needs_spark and not checker.problems:
            checked.flows.add(flow.name)
    return checked


def _output_names(flow: Flow) -> Iterator[str]:
    yield from (name for name in (flow.results, flow.rejected) if name is not None)


def _check_declaration(
    table: DeclaredTable, is_read: bool, is_written: bool, check_sink: Callable[..., None]
) -> Iterator[MuntinError]:
    for name, kind in parse_ddl_columns(table.columns or "").items() if table.columns else ():
        if parse_shape(kind) is None:
            hint = "write a type of Spark's, such as STRING, BIGINT, DOUBLE or TIMESTAMP"
            yield _build_error(table, OptionError(name, kind, "isn't a type of Spark's", hint))
    if is_read or not is_written:
        yield from (_build_error(table, problem) for problem in reader_problems(table))
    if is_written:
        try:
            check_sink(table)
            _refuse_reading_parts(table, is_read)
        except OptionError as error:
            yield _build_error(table, error)


def _refuse_reading_parts(table: DeclaredTable, is_read: bool) -> None:
    """Refuse options that have no effect on a table that is only written."""
    if is_read:
        return
    marks = table.marks
    parts = {"WATERMARK": marks.time, "OFFSET FOR": marks.offset, "CLOCK FOR": marks.clock,
             "AS": [column.name for column in table.computed] or None,
             "mode": None if table.stream else "batch"}  # fmt: skip
    for part, value in parts.items():
        if value is not None:
            hint = f"leave it out: {table.name} is written to"
            raise OptionError(part, value, "has no effect on a table that is only written", hint)


def _find_unused_options(table: DeclaredTable, axes: set[Axis]) -> Iterator[MuntinError]:
    """Find options of the watermark of a table whose rows are only counted."""
    marks = table.marks
    if axes == {"rows"} and marks != replace(marks.on("rows"), time=marks.time, max_ahead=AHEAD):
        problem = "has options without an effect: the queries of this table count its rows"
        hint = "leave them out, or measure windows in time"
        yield _build_error(table, OptionError("watermark", marks.time, problem, hint))


def _list_axes(relation: Relation, axis: Axis = "time") -> Iterator[tuple[str, Axis]]:
    """Yield the tables of a relation, with what windows over them are measured in, if any."""
    match relation:
        case TableRelation():
            yield relation.name.lower(), axis
        case JoinRelation():
            for side in (relation.left, relation.right):
                yield from _list_axes(side, relation.spec.axis)
        case WindowRelation():
            is_plain = emits_plain_rows(relation.spec)
            yield from _list_axes(relation.source, "time" if is_plain else relation.spec.axis)
        case Derived():
            yield from _list_axes(relation.source, axis)
        case Union():
            for part in relation.parts:
                yield from _list_axes(part, axis)
        case _:
            yield from ((name, "time") for name in find_tables(relation))


def _build_error(table: DeclaredTable, error: OptionError) -> PipelineCheckError:
    return PipelineCheckError(f"table {table.name}: {error}")


class _Checker:
    """Checks one query, starting from its sources."""

    def __init__(self, pipeline: Pipeline, name: str) -> None:
        self.pipeline = pipeline
        self.name = name
        self.problems: list[MuntinError] = []
        self.cautions: list[str] = []
        self.needs_spark = False

    def check_relation(self, relation: Relation) -> Shapes | None:
        """Check a relation; return its columns, or ``None`` if only Spark knows them."""
        if isinstance(relation, TableRelation):
            return self._check_table(relation.name)
        if isinstance(relation, Derived):
            columns = self.check_relation(relation.source)
            self._check_expressions([relation.where], columns, "boolean")
            return self._check_select_list(relation.columns, columns)
        if isinstance(relation, WindowRelation):
            return self._check_windowing(relation)
        self.needs_spark = True
        if isinstance(relation, JoinRelation):
            sides = relation.left, relation.right
            columns_of_sides = [self.check_relation(side) for side in sides]
            for side, columns, spec in zip(
                relation.names,
                columns_of_sides,
                (relation.spec.left, relation.spec.right),
                strict=True,
            ):
                self._check_names([*spec.keys, spec.time], columns, f" of {side}")
        else:
            for name in find_tables(relation):
                self._check_table(name)
        return None

    def _check_table(self, name: str) -> Shapes | None:
        table = self.pipeline.tables.get(name.lower())
        if table is None:
            if "." in name:
                self.needs_spark = True
                return None
            names = [one.name for one in self.pipeline.tables.values()]
            nearest = find_close_name(name, names)
            hint = f"write {nearest}" if nearest else f"write CREATE TABLE {name} (…) WITH (…)"
            self._add_problem(name, f"there is no table {name}", hint)
            return None
        columns = _list_columns(table)
        if columns is None:
            self.needs_spark = True
            return None
        for column in table.computed:
            self._check_expressions([column.text], columns)
            columns = {**columns, column.name.lower(): None}
        self._check_names(
            [table.marks.time, table.marks.clock, *(table.marks.offset or ())], columns
        )
        return columns

    def _check_windowing(self, query: WindowRelation) -> Shapes | None:
        columns, spec = self.check_relation(query.source), query.spec
        is_plain = emits_plain_rows(spec)
        each = query.each and not is_plain
        self.needs_spark |= bool(query.ranking or each or query.lookups or query.having)
        self._check_names([spec.time, *(spec.offset or ()), query.clock], columns)
        self._check_expressions([query.where], columns, "boolean")
        self._check_expressions([key.text for key in query.keys], columns)
        if columns is not None and spec.time is not None and spec.axis == "time":
            shape = columns.get(spec.time.lower())
            if shape is not None and shape.family not in ("timestamp", "date", "string"):
                hint = "give a column of TIMESTAMP; timestamp_millis(ms) makes one of a number"
                self._add_problem(spec.time, f"{spec.time} is {shape.text}, not a time", hint)
        if is_plain:
            return self._check_select_list(query.columns, columns)
        for name, aggregate in spec.aggregates.items():
            self._check_aggregate(name, aggregate, columns)
        names = (*(key.name for key in query.keys), *spec.aggregates)
        results: Shapes = {**dict.fromkeys(map(str.lower, names)), **_BOUNDS, **_EMISSION_COLUMNS}
        if query.ranking is not None or query.lookups or query.each:
            return None
        if query.columns is not None:
            return {
                column.name.lower(): results.get(column.name.lower()) for column in query.columns
            }
        return results

    def _check_aggregate(self, name: str, aggregate: Aggregate, columns: Shapes | None) -> None:
        for argument in aggregate.columns:
            text = argument.text if isinstance(argument, Expression) else quote_name(str(argument))
            family = self._check_expressions([text], columns)
            if family is None or columns is None or argument is not aggregate.column:
                self.needs_spark |= family is None
                continue
            shape = columns.get(str(argument).strip("`").lower()) or Shape(family, family)
            if not aggregate.entry.accepts.accepts(shape):
                hint = aggregate.entry.accepts.hint_for(shape)
                self._add_problem("", f"{name}: {aggregate.kind} doesn't take {shape.text}", hint)

    def check_sink(self, table: DeclaredTable, query: QueryRelation) -> None:
        """Check the columns that a query inserts against those that a sink declares."""
        inserted = list_inserted_columns(query)
        try:
            if table.primary_key:
                check_primary_key(table, query)
            if table.columns is not None and inserted is not None:
                check_declared_columns(table, dict.fromkeys(inserted))
        except OptionError as error:
            self.problems.append(_build_error(table, error))

    def _check_select_list(
        self, select_list: Iterable[Column] | None, columns: Shapes | None
    ) -> Shapes | None:
        if select_list is None:
            return columns
        selected: dict[str, Shape | None] = {}
        for column in select_list:
            if column.text == "*":
                if columns is None:
                    return None
                selected |= columns
                continue
            self._check_expressions([column.text], columns)
            name = column.text.strip("`").lower()
            selected[column.name.lower()] = None if columns is None else columns.get(name)
        return selected

    def _check_names(
        self, names: Iterable[str | None], columns: Shapes | None, where: str = ""
    ) -> None:
        for name in names:
            if (
                name is not None
                and columns is not None
                and name.partition(".")[0].lower() not in columns
            ):
                self._add_unknown_column(name, columns, where)

    def _check_expressions(
        self,
        texts: Iterable[str | None],
        columns: Shapes | None,
        expected_family: str | None = None,
    ) -> str | None:
        """Check expressions; return the type family of the last one if it is known."""
        family = None
        for text in filter(None, texts):
            tree = parse_expression(text)
            if tree is None or columns is None:
                self.needs_spark = True
                continue
            unknown = find_unknown_names(tree, columns)
            for name in unknown:
                self._add_unknown_column(name, columns, text=text)
            self._check_time_units(tree, columns, text)
            family = infer_family(tree, columns)
            self.needs_spark |= family is None and not unknown
            if expected_family is not None and family not in (None, expected_family):
                hint = f"write a condition, such as {text} IS NOT NULL"
                self._add_problem(text, f"{text} is {family}, not a condition", hint)
        return family

    def _check_time_units(self, tree: Expr, columns: Shapes, text: str) -> None:
        """Refuse whole numbers that become times without a unit, or warn of them."""
        for name, is_cast in find_unitless_times(tree, columns):
            if is_cast:
                self.cautions.append(
                    f"query {self.name}: CAST({name} AS TIMESTAMP) reads {name} as seconds. If it "
                    f"has milliseconds (13 digits), write timestamp_millis({name})"
                )
            else:
                hint = f"write TO_TIMESTAMP_LTZ({name}, 3) for milliseconds, or 0 for seconds"
                self._add_problem(text, f"TO_TIMESTAMP_LTZ({name}) has no unit", hint)

    def _add_unknown_column(
        self, name: str, columns: Shapes, where: str = "", text: str | None = None
    ) -> None:
        nearest = find_close_name(name, columns)
        hint = f"write {nearest}" if nearest else f"the columns are {', '.join(columns)}"
        self._add_problem(text or name, f"there is no column {name}{where}", hint)

    def _add_problem(self, text: str, problem: str, hint: str) -> None:
        for expression in (text, quote_name(text)):
            if expression in self.pipeline.places:
                statement, span = self.pipeline.places[expression]
                self.problems.append(SqlError(statement, span, problem, hint))
                return
        self.problems.append(PipelineCheckError(f"query {self.name}: {problem}; {hint}"))


def _list_columns(table: DeclaredTable) -> Shapes | None:
    """Return the columns of a table without its computed ones; ``None`` if unknown."""
    declared = parse_ddl_columns(table.columns) if table.columns else {}
    columns = {name.lower(): parse_shape(kind) for name, kind in declared.items()}
    if table.connector == "kafka":
        if table.options.get("format", "json") in ("avro", "protobuf"):
            return None
        raw_columns = (
            {} if columns else {"value": Shape("binary", "binary"), "timestamptype": _INTEGER}
        )
        return {
            **_KAFKA_COLUMNS,
            **raw_columns,
            "malformed": None,
            "malformed_detail": _TEXT,
            **columns,
        }
    if table.connector in ("rate", "rate-micro-batch"):
        return _RATE_COLUMNS
    if table.connector in ("text", "socket") and not columns:
        return (
            {"value": _TEXT, "timestamp": _TIMESTAMP}
            if table.connector == "socket"
            else {"value": _TEXT}
        )
    connector = table.connector
    if connector == "filesystem":
        connector = table.options.get("format", "")
    if columns and marks_malformed(connector, table.options, columns):
        return {"malformed": None, "malformed_detail": _TEXT, **columns}
    return columns or None


def list_inserted_columns(query: QueryRelation) -> list[str] | None:
    """Return the columns that a query inserts; ``None`` if only Spark knows them."""
    if isinstance(query, JoinRelation) or (
        isinstance(query, WindowRelation) and query.ranking is not None
    ):
        return None
    texts = [one.text for one in query.columns or (Column("*", "*"),)]
    if emits_messages(query.spec) and "*" in texts:
        return None
    if query.columns is not None:
        return [
            one.name
            for one in query.columns
            if one.name not in _EMISSION_COLUMNS and one.name != "*"
        ]
    return [*(key.name for key in query.keys), *_BOUNDS, *query.spec.aggregates]


def check_primary_key(table: DeclaredTable, query: QueryRelation) -> None:
    """Refuse a sink's primary key that isn't what identifies the rows of a query."""
    declared = ", ".join(table.primary_key)
    if table.connector in _APPENDING or table.options.get("format") in _APPENDING:
        problem = f"has no effect: {table.connector} keeps every row that it gets"
        hint = "leave it out, or write to 'jdbc', 'duckdb', 'delta', 'iceberg' or 'kafka'"
        raise OptionError("PRIMARY KEY", f"({declared})", problem, hint)
    identity = _list_identity(query)
    if identity is None:
        problem = "has no effect: the rows of this query are appended, each once"
        raise OptionError("PRIMARY KEY", f"({declared})", problem, "leave it out")
    key = {resolve_bound_alias(query, name).lower(): name for name in table.primary_key}
    sole_bounds = _find_sole_bounds(query)
    missing = [name for name in identity if name.lower() not in key]
    if any(bound in key for bound in sole_bounds):
        missing = [name for name in missing if name not in _BOUNDS]
    extra = [key[name] for name in key.keys() - {name.lower() for name in identity}]
    if not extra and not missing:
        return
    hint = f"write PRIMARY KEY ({', '.join(identity)}) NOT ENFORCED"
    problem = (
        f"has {', '.join(extra)}, which doesn't identify a row of this query"
        if extra
        else f"lacks {', '.join(missing)}: rows of this query may differ in that alone"
    )
    raise OptionError("PRIMARY KEY", f"({declared})", problem, hint)


def _find_sole_bounds(relation: Relation) -> tuple[str, ...]:
    """Return the bounds of a query's rows from which the other one follows."""
    while isinstance(relation, Derived) or (
        isinstance(relation, WindowRelation) and _shares_bounds(relation)
    ):
        relation = relation.source
    return relation.spec.windows.sole_bounds if isinstance(relation, WindowRelation) else ()


def _shares_bounds(query: WindowRelation) -> bool:
    """Return whether the rows of a query have the bounds of windows that it reads."""
    is_chained = query.ranking is not None and query.ranking.chained
    return is_chained or FIRST in query.spec.aggregates


def _list_identity(query: QueryRelation) -> tuple[str, ...] | None:
    """Return the columns by which sinks replace the rows of a query; ``None`` if they append."""
    if isinstance(query, JoinRelation):
        return query.spec.left.keys if query.spec.bound.revises else None
    if emits_plain_rows(query.spec):
        return None
    keys = tuple(key for key in query.spec.key_columns if key not in (FIRST, LAST))
    if query.spec.windows.result_key is not None:
        return keys
    numbers = () if query.ranking is None else list_identity_columns(query.ranking)
    if query.each or emits_messages(query.spec):
        numbers = (NUMBER,)
    return (*keys, *_BOUNDS, *numbers)


def check_declared_columns(table: DeclaredTable, inserted: Mapping[str, Shape | None]) -> None:
    """Refuse a sink whose declared columns differ from those that a query inserts.

    Columns are matched by name. The bounds of a window, the emission, the revision and the number
    of a window's row are always written, and needn't be declared.

    Args:
        table: The sink's table.
        inserted: The types of the query's columns by name, as far as they are known.
    """
    if table.columns is None:
        return
    declared = parse_ddl_columns(table.columns)
    types = {name.lower(): shape for name, shape in inserted.items()}
    names = {name.lower() for name in declared}
    always_written = {*_BOUNDS, *_EMISSION_COLUMNS}
    if names - types.keys() - always_written or types.keys() - names - always_written - {NUMBER}:
        hint = f"the query inserts ({', '.join(inserted)}); rename its columns with AS"
        problem = "differs from the columns that the query inserts"
        raise OptionError("columns", f"({', '.join(declared)})", problem, hint)
    for name, kind in declared.items():
        expected, emitted = parse_shape(kind), types.get(name.lower())
        if expected is not None and emitted is not None and expected.family != emitted.family:
            hint = f"write CAST(… AS {kind.upper()}) AS {name}, or declare {emitted.text.upper()}"
            problem = f"isn't what the query inserts, which is {emitted.text.upper()}"
            raise OptionError(name, kind.upper(), problem, hint)
