"""Separates the rows that PostgreSQL takes from those that it refuses, within the server.

A statement that one row makes fail fails as a whole. The rows are staged once, as text, and a block
of PL/pgSQL writes ever smaller ranges of them, each in a subtransaction: no range costs a round
trip, a temporary table or a lock that outlives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.sinks.postgres_types import values
from muntin.sinks.sink import sql_name

if TYPE_CHECKING:
    from psycopg import Connection

# SQLSTATEs that are about rows: values that can't be, constraints, views' conditions, limits (of an
# index, a page), what a trigger raises, and what the server didn't foresee.
OF_ROWS = ("22", "23", "44", "54", "P0", "XX000")
STAGE = "muntin_texts"
_REFUSED = "muntin_refused"
# Into how many ranges one is divided that is refused.
_PARTS = 4
_FORCES_PLANS = 120000
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
    connection: Connection[Any],
    table: str,
    rows: pa.Table,
    write: Callable[[str], Sequence[str]],
) -> dict[int, str]:
    """Write the rows that a table takes, in their order.

    Args:
        connection: A connection, in a transaction.
        table: The table, as SQL names it.
        rows: The rows.
        write: Makes the statements that write the rows of a subquery.

    Returns:
        The positions of the rows that were refused, each with the reason.
    """
    refused = _stage(connection, rows)
    connection.execute(f"CREATE TEMP TABLE {_REFUSED} (row_number bigint, why text) ON COMMIT DROP")
    named = _typed(connection, table, rows.column_names)
    body = _BLOCK.format(
        count=len(rows),
        statements=";\n".join(write(named)),
        of_rows=" OR ".join(f"left(SQLSTATE, {len(code)}) = '{code}'" for code in OF_ROWS),
        refused=_REFUSED,
        parts=_PARTS,
    )
    # Temporary tables have no statistics, by which a plan might read all of a large table.
    settings = ["enable_hashjoin = off", "enable_mergejoin = off", "enable_seqscan = off"]
    if connection.info.server_version >= _FORCES_PLANS:
        settings.append("plan_cache_mode = force_generic_plan")
    for setting in settings:
        connection.execute(f"SET LOCAL {setting}")
    connection.execute(f"DO {_dollar_quoted(body)}")
    for setting in settings:
        connection.execute(f"SET LOCAL {setting.partition(' ')[0]} TO DEFAULT")
    refused |= dict(connection.execute(f"SELECT row_number, why FROM {_REFUSED}").fetchall())
    connection.execute(f"DROP TABLE {STAGE}, {_REFUSED}")
    return dict(sorted(refused.items()))


def _stage(connection: Connection[Any], rows: pa.Table) -> dict[int, str]:
    """Copy all rows that can be sent, as arrays of text; give back the others' reasons."""
    connection.execute(
        f"CREATE TEMP TABLE {STAGE} (muntin_row bigint PRIMARY KEY, muntin_cells text[]) "
        "ON COMMIT DROP"
    )
    refused: dict[int, str] = {}
    with connection.cursor() as cursor, cursor.copy(f"COPY {STAGE} FROM STDIN") as stream:
        for number, cells in enumerate(_texts(connection, rows, refused)):
            if number not in refused:
                stream.write_row((number, cells))
    return refused


def _texts(
    connection: Connection[Any], rows: pa.Table, refused: dict[int, str]
) -> Iterator[list[str | None]]:
    """Each row as the text of its values, as ``COPY`` sends them."""
    from psycopg import DataError
    from psycopg.adapt import PyFormat, Transformer

    transformer, encoding = Transformer(connection), connection.info.encoding

    def text(value: Any) -> str | None:
        if value is None:
            return None
        dumped = transformer.get_dumper(value, PyFormat.TEXT).dump(value)
        return None if dumped is None else bytes(dumped).decode(encoding)

    columns = [_sendable(column, 0, refused) for column in rows.columns]
    for number, row in enumerate(zip(*columns, strict=True)):
        cells: list[str | None] = []
        try:
            cells = [text(value) for value in row]
        except (DataError, UnicodeError, OverflowError, ValueError) as error:
            refused.setdefault(number, str(error))
        yield cells


def _sendable(column: pa.ChunkedArray, start: int, refused: dict[int, str]) -> list[Any]:
    """A column's values; the rows of those that Python can't hold are refused."""
    try:
        return values(column)
    except (UnicodeError, OverflowError, ValueError) as error:
        if len(column) == 1:
            refused.setdefault(start, str(error))
            return [None]
    half = len(column) // 2
    low = _sendable(column.slice(0, half), start, refused)
    return low + _sendable(column.slice(half), start + half, refused)


def _typed(connection: Connection[Any], table: str, names: Sequence[str]) -> str:
    """A range of the staged rows, in the types of a table, as a subquery.

    The types are without lengths: a cast to ``varchar(3)`` would cut what an assignment refuses.
    """
    asked = (
        "SELECT a.attname, n.nspname, t.typname FROM pg_attribute AS a "
        "JOIN pg_type AS t ON t.oid = a.atttypid JOIN pg_namespace AS n ON n.oid = t.typnamespace "
        "WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped"
    )
    types = {
        name: f"{sql_name(schema)}.{sql_name(kind)}"
        for name, schema, kind in connection.execute(asked, (table,)).fetchall()
    }
    cells = ", ".join(
        f"{STAGE}.muntin_cells[{place}]::{types[name]} AS {sql_name(name)}"
        for place, name in enumerate(names, 1)
    )
    row = f"{STAGE}.muntin_row"
    between = f"{row} >= muntin_low AND {row} < muntin_high"
    return f"(SELECT {cells} FROM {STAGE} WHERE {between} ORDER BY {row}) AS muntin_rows"


def _dollar_quoted(body: str) -> str:
    """A block's text in quotes that don't occur in it, whatever columns are called."""
    tag = "$muntin$"
    while tag in body:
        tag = f"{tag[:-1]}_$"
    return f"{tag}{body}{tag}"
