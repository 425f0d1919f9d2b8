"""Prints results on the standard output."""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.model.errors import SinkError
from muntin.model.option_types import check_count
from muntin.model.printable import escape_controls, format_count
from muntin.sinks.batch import Batch
from muntin.sinks.frames import read_polars_rows

# Characters of a row in a line, above which a column is put below another one.
_LINE_WIDTH = 200
_CELL_WIDTH = 60


class PrintSink:
    """Rows on the standard output; see ``to_print``."""

    def __init__(self, rows: int = 20) -> None:
        self.rows = rows

    def __reduce__(self) -> Any:
        raise SinkError("to_print() prints in the process that made it and can't be sent")

    def write(self, batch: Batch) -> None:
        if batch.empty:
            return
        rows = read_polars_rows(batch, "print")
        if rows.is_empty():
            return
        count = format_count(len(rows), "row")
        with pl.Config(
            tbl_rows=self.rows,
            tbl_cols=-1,
            tbl_width_chars=_LINE_WIDTH,
            fmt_str_lengths=_CELL_WIDTH,
            tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True,
        ):
            text = f"batch {batch.number}, {batch.kind}: {count}\n{rows}"
        print(escape_controls(text), flush=True)


def to_print(*, rows: int = 20) -> PrintSink:
    """Print every batch that has rows, as a table with its number, on the standard output.

    It is for trying a query out: after a crash a batch is printed again, and of a large batch the
    first and the last rows are shown. Control characters in texts are escaped. On Spark rows are
    fetched to the driver.

    Args:
        rows: The most rows of a batch that are shown. Default: 20.

    Returns:
        The sink, for ``results=`` or ``rejected=``. In SQL it is ``WITH (connector = 'print')``.

    Example:
        >>> to_print(rows=5).rows
        5
    """
    check_count("rows", rows, of="row")
    return PrintSink(rows)
