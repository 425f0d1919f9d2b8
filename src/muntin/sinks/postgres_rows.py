"""Separates the rows that PostgreSQL accepts from those that it refuses, within the server.

One bad row makes its whole statement fail. The rows are staged once, as text, and a block
of PL/pgSQL writes ever smaller ranges of them, each in a subtransaction: no range costs a round
trip, a temporary table or a lock that outlives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.sinks.postgres_types import to_psycopg_values
from muntin.sinks.sink import quote_ansi_name

if TYPE_CHECKING:
    from psycopg import Connection

# SQLSTATEs that concern rows: invalid values, constraints, views' conditions, limits (of an index,
# a page), errors raised by triggers, and internal errors.
ROW_ERRORS = ("22", "23", "44", "54", "P0", "XX000")
STAGE = "muntin_texts"
_REFUSED = "muntin_refused"
# The number of ranges that a refused range is divided into.
_PARTS = 4
_VERSION_WITH_PLAN_MODES = 120000
_BLOCK = """
#variable_conflict use_column
DECLARE
    muntin_lows bigint[] := ARRAY[0];
    muntin_highs bigint[] := ARRAY[{count}];
    muntin_low bigint;
    muntin_high bigint;
    muntin_step bigint;
    muntin_at bigint;
    muntin_left integer := 1;
BEGIN
    WHILE muntin_left > 0 LOOP
        muntin_low := muntin_lows[muntin_left];
        muntin_high := muntin_highs[muntin_left];
        muntin_left := muntin_left - 1;
        BEGIN
            {statements};
            SET CONSTRAINTS ALL IMMEDIATE;
        EXCEPTION WHEN OTHERS THEN
            IF NOT ({of_rows}) THEN
                RAISE;
            END IF;
            IF muntin_high - muntin_low = 1 THEN
                INSERT INTO {refused} VALUES (muntin_low, SQLERRM);
            ELSE
                muntin_step := (muntin_high - muntin_low + {parts} - 1) / {parts};
                FOR muntin_part IN REVERSE {parts} - 1 .. 0 LOOP
                    muntin_at := muntin_low + muntin_part * muntin_step;
                    IF muntin_at < muntin_high THEN
                        muntin_left := muntin_left + 1;
                        muntin_lows[muntin_left] := muntin_at;
                        muntin_highs[muntin_left] := least(muntin_at + muntin_step, muntin_high);
                    END IF;
                END LOOP;
            END IF;
        END;
    END LOOP;
END
"""


def write_separately(
    connection: Connection[Any], table: str, rows: pa.Table, write: Callable[[str], Sequence[str]]
) -> dict[int, str]:
    """Write the rows that a table (as SQL names it) accepts, in order, within a transaction.

    ``write`` builds the statements that write the rows of a subquery. The result is the positions
    of the refused rows, each with the reason.
    """
    refused = _stage_rows(connection, rows)
    connection.execute(f"CREATE TEMP TABLE {_REFUSED} (row_number bigint, why text) ON COMMIT DROP")
    named = _build_typed_query(connection, table, rows.column_names)
    body = _BLOCK.format(
        count=len(rows),
        statements=";\n".join(write(named)),
        of_rows=" OR ".join(f"left(SQLSTATE, {len(code)}) = '{code}'" for code in ROW_ERRORS),
        refused=_REFUSED,
        parts=_PARTS,
    )
    # Without statistics of the temporary table, a plan might scan all of a large table.
    settings = ["enable_hashjoin = off", "enable_mergejoin = off", "enable_seqscan = off"]
    if connection.info.server_version >= _VERSION_WITH_PLAN_MODES:
        settings.append("plan_cache_mode = force_generic_plan")
    for setting in settings:
        connection.execute(f"SET LOCAL {setting}")
    connection.execute(f"DO {_quote_with_dollars(body)}")
    for setting in settings:
        connection.execute(f"SET LOCAL {setting.partition(' ')[0]} TO DEFAULT")
    refused |= dict(connection.execute(f"SELECT row_number, why FROM {_REFUSED}").fetchall())
    connection.execute(f"DROP TABLE {STAGE}, {_REFUSED}")
    return dict(sorted(refused.items()))


def _stage_rows(connection: Connection[Any], rows: pa.Table) -> dict[int, str]:
    """Copy all rows that can be sent, as arrays of text; return the others' reasons."""
    connection.execute(
        f"CREATE TEMP TABLE {STAGE} (muntin_row bigint PRIMARY KEY, muntin_cells text[]) "
        "ON COMMIT DROP"
    )
    refused: dict[int, str] = {}
    with connection.cursor() as cursor, cursor.copy(f"COPY {STAGE} FROM STDIN") as stream:
        for number, cells in enumerate(_format_rows(connection, rows, refused)):
            if number not in refused:
                stream.write_row((number, cells))
    return refused


def _format_rows(
    connection: Connection[Any], rows: pa.Table, refused: dict[int, str]
) -> Iterator[list[str | None]]:
    """Yield each row as the text of its values, as ``COPY`` sends them."""
    from psycopg import DataError
    from psycopg.adapt import PyFormat, Transformer

    transformer, encoding = Transformer(connection), connection.info.encoding

    def to_text(value: Any) -> str | None:
        if value is None:
            return None
        dumped = transformer.get_dumper(value, PyFormat.TEXT).dump(value)
        return None if dumped is None else bytes(dumped).decode(encoding)

    columns = [_read_sendable(column, 0, refused) for column in rows.columns]
    for number, row in enumerate(zip(*columns, strict=True)):
        cells: list[str | None] = []
        try:
            cells = [to_text(value) for value in row]
        except (DataError, UnicodeError, OverflowError, ValueError) as error:
            refused.setdefault(number, str(error))
        yield cells


def _read_sendable(column: pa.ChunkedArray, start: int, refused: dict[int, str]) -> list[Any]:
    """Return a column's values; rows with values that Python can't hold are refused."""
    try:
        return to_psycopg_values(column)
    except (UnicodeError, OverflowError, ValueError) as error:
        if len(column) == 1:
            refused.setdefault(start, str(error))
            return [None]
    half = len(column) // 2
    low = _read_sendable(column.slice(0, half), start, refused)
    return low + _read_sendable(column.slice(half), start + half, refused)


def _build_typed_query(connection: Connection[Any], table: str, names: Sequence[str]) -> str:
    """Return a subquery for a range of the staged rows, in the types of a table.

    The types have no lengths: a cast to ``varchar(3)`` would truncate what an assignment refuses.
    """
    catalog_query = (
        "SELECT a.attname, n.nspname, t.typname FROM pg_attribute AS a "
        "JOIN pg_type AS t ON t.oid = a.atttypid JOIN pg_namespace AS n ON n.oid = t.typnamespace "
        "WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped"
    )
    types = {
        name: f"{quote_ansi_name(schema)}.{quote_ansi_name(kind)}"
        for name, schema, kind in connection.execute(catalog_query, (table,)).fetchall()
    }
    cells = ", ".join(
        f"{STAGE}.muntin_cells[{index}]::{types[name]} AS {quote_ansi_name(name)}"
        for index, name in enumerate(names, 1)
    )
    row = f"{STAGE}.muntin_row"
    between = f"{row} >= muntin_low AND {row} < muntin_high"
    return f"(SELECT {cells} FROM {STAGE} WHERE {between} ORDER BY {row}) AS muntin_rows"


def _quote_with_dollars(body: str) -> str:
    """Quote a block's text with a tag that doesn't occur in it."""
    tag = "$muntin$"
    while tag in body:
        tag = f"{tag[:-1]}_$"
    return f"{tag}{body}{tag}"
