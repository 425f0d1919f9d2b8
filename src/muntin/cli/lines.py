"""Prints rows as lines for other programs: CSV or JSON, each row as soon as it is emitted."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, TextIO

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
        if form is RowFormat.CSV:
            self._line(columns)

    def take(self, frame: Any, _: int = 0) -> None:
        """Write the rows of a DataFrame."""
        from muntin.spark.sources.texts import to_json_objects, to_texts

        if self.form is RowFormat.JSON:
            self.out.writelines(f"{line}\n" for line in to_json_objects(frame))
        else:
            for row in to_texts(frame):
                self._line(row)
        self.out.flush()

    def _line(self, cells: Any) -> None:
        self.out.write(",".join(map(_cell, cells)) + "\n")


def _cell(text: str | None) -> str:
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
