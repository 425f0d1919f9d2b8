"""Lowers ``SELECT a, b FROM t WHERE ...`` without windows: each row is emitted as it comes.

Each row is the only one of its window, so that both hosts run the query as any other. The state is
the number of rows so far.
"""

from __future__ import annotations

from muntin.model.pipeline import Column, Derived, Relation, WindowRelation, quote_name
from muntin.model.rolling import ONE_ROW
from muntin.model.spec import WindowSpec
from muntin.sql.catalog import ResolvedRelation, makes_rows
from muntin.sql.cursor import Cursor
from muntin.sql.lookups import is_input
from muntin.sql.lowering import LoweredQuery
from muntin.sql.order_by import lower_order_by
from muntin.sql.stream_clauses import refuse_watermark
from muntin.sql.syntax import Select


def lower_plain_rows(cursor: Cursor, select: Select, resolved: ResolvedRelation) -> LoweredQuery:
    """Return the query that emits each row of a relation once, as it comes.

    Raises:
        SqlError: When the rows are the results of other windows, or have offsets.
    """
    if not is_input(resolved.relation):
        hint = "select from the query with the windows, without another query between"
        cursor.fail(select.span, "this query selects from a query over windows", hint)
    refuse_watermark(cursor, select.source, "rows")
    options = resolved.input_options.on("rows")
    if options.offset is not None:
        hint = "read the table without OFFSET FOR"
        cursor.fail(select.span, "rows are numbered in the order of arrival, not by offset", hint)
    source, columns, where = _split_selection(resolved, select)
    spec = WindowSpec(
        keys=(), time=None, windows=ONE_ROW, aggregates={}, nulls="group", **options.options
    )
    relation = WindowRelation(source, spec, (), where, columns, each=True)
    spans = {"select": select.span, "FROM": select.source.span}
    if select.order_by is None:
        return LoweredQuery(relation, spans, cursor.expression_spans)
    order = lower_order_by(cursor, select, select.order_by)
    spans["ORDER BY"] = select.order_by.span
    return LoweredQuery(relation, spans, cursor.expression_spans, order)


def _split_selection(
    resolved: ResolvedRelation, select: Select
) -> tuple[Relation, tuple[Column, ...] | None, str | None]:
    """Return the rows that a query reads, its select list and its condition.

    The query itself selects and filters, so that it still sees which messages couldn't be decoded.
    """
    source: Relation = resolved.relation
    columns: tuple[Column, ...] | None = None
    where: str | None = None
    if isinstance(source, Derived) and not makes_rows(source) and not select.joins:
        columns, where, source = source.columns, source.where, source.source
    is_star = bool(select.unions) or any(item.scalar is None for item in select.items)
    if resolved.star and is_star:
        # A source has further columns, such as Kafka's; ``*`` stands for the declared ones.
        computed = {one.name: one for one in columns or ()}
        columns = tuple(computed.get(n, Column(n, quote_name(n))) for n in resolved.star)
    return source, columns, where
