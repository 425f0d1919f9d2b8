"""Prints rows as lines for other programs: CSV or JSON, each row as soon as it is emitted."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TextIO

from muntin.model.printable import escape_controls

_QUOTED = re.compile(r'[",\r\n]|^\s|\s$|^$')


class RowFormat(StrEnum):
    """Format that rows are printed in."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Lines:
    """Writes rows as they are emitted, retractions included; CSV begins with a header.

    Values have Spark's text form. In CSV, a null is an empty field, an empty text is ``""``, and a
    value with parts is JSON. In JSON, a row is an object with all of its columns.
    """

    def __init__(self, out: TextIO, form: RowFormat, columns: list[str]) -> None:
        self.out = out
        self.form = form
        self.columns = columns
        self._is_terminal = out.isatty()
        if form is RowFormat.CSV:
            self._line(columns)

    def take(self, frame: Any, _: int = 0) -> None:
        """Write the rows of a frame of either host."""
        list_objects: Callable[[Any], list[str]]
        list_rows: Callable[[Any], list[tuple[str | None, ...]]]
        if hasattr(frame, "toArrow"):
            from muntin.spark.sources.texts import to_json_objects, to_texts

            list_objects, list_rows = to_json_objects, to_texts
        else:
            from muntin.sinks.json_text import list_json_objects, list_texts

            list_objects, list_rows = list_json_objects, list_texts
        if self.form is RowFormat.JSON:
            for line in list_objects(frame):
                self._write(line)
        else:
            for row in list_rows(frame):
                self._line(row)
        self.out.flush()

    def _line(self, cells: Any) -> None:
        self._write(",".join(map(_cell, cells)))

    def _write(self, line: str) -> None:
        # A program gets the values as they are.
        self.out.write(f"{escape_controls(line) if self._is_terminal else line}\n")


def _cell(text: str | None) -> str:
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
