"""CSV payloads as columns: one record a message, all unquoted records split in one step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from muntin.engine.session_zone import SessionZone
from muntin.engine.utf8 import decode_text
from muntin.sources.byte_values import binary_column
from muntin.sources.payloads import Decoded
from muntin.sources.text_values import convert_texts, null_malformed

# A field with the comma or end after it: quoted, or without a quote at its start.
_FIELD = re.compile(r'(?:"((?:[^"\\]|\\.|"")*)"|([^",\r\n][^,\r\n]*|))(,|\r?\n?\Z)', re.DOTALL)
_PATTERN = r'(?:"(?:[^"\\]|\\.|"")*"|[^",\r\n][^,\r\n]*|)'
_RECORD = rf"(?s)\A{_PATTERN}(?:,{_PATTERN})*(?:\r?\n)?\z"
_ESCAPED = re.compile(r'\\(["\\])|""')


@dataclass(frozen=True)
class CsvPayloads:
    """Decodes records of values between commas.

    A field that holds a comma, a quote or a line feed is quoted; a quote in it is doubled, or has a
    backslash before it. A field that is empty and not quoted is null.

    Attributes:
        columns: Names and types of the columns, in the order of the fields.
    """

    columns: dict[str, pl.DataType]
    zone: SessionZone

    @property
    def shape(self) -> str:
        """The format of a payload, for messages."""
        return f"a CSV record of {len(self.columns)} fields"

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads; a record must have exactly as many fields as there are columns."""
        texts = decode_text(binary_column(values))
        odd = texts.str.contains('["\r\n]').fill_null(False)
        plain = texts.set(odd, None)
        fields, bad = self._split(plain)
        if odd.any():
            fields, bad = self._replace_quoted(fields, bad, texts, odd)
        rows, untyped, faults = convert_texts(fields, self.columns, self.zone)
        bad |= untyped
        return Decoded(null_malformed(rows, bad), bad, faults)

    def _split(self, plain: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
        """Split unquoted records into fields; return which have another number of fields."""
        commas = len(self.columns) - 1
        fields = pl.DataFrame({"": plain}).select(pl.col("").str.split_exact(",", commas))
        columns = fields.to_series().struct.unnest()
        columns.columns = list(self.columns)
        columns = columns.with_columns(pl.all().replace("", None))
        wrong = (plain.str.count_matches(",", literal=True) != commas) | (plain == "")
        return columns, wrong.fill_null(True)

    def _replace_quoted(
        self, fields: pl.DataFrame, bad: pl.Series, texts: pl.Series, odd: pl.Series
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Return the fields with those of quoted records, which are read one by one."""
        rows, width = odd.arg_true(), len(self.columns)
        # Records are checked first: reading a malformed one up to its error would be slow.
        records = texts.gather(rows).str.contains(_RECORD)
        bad, rows = bad.scatter(rows, True), rows.filter(records)
        split = [_parse_fields(value) for value in texts.gather(rows)]
        rows_of_fields = [
            record if record and len(record) == width else [None] * width for record in split
        ]
        each = pl.DataFrame(rows_of_fields, dict.fromkeys(self.columns, pl.String), orient="row")
        wrong = [record is None or len(record) != width for record in split]
        put = [fields[name].scatter(rows, each[name]) for name in self.columns]
        return pl.DataFrame(put), bad.scatter(rows, wrong)


def _parse_fields(record: str | None) -> list[str | None] | None:
    """Return the fields of a record; ``None`` if it is malformed."""
    if not record:
        return None
    fields: list[str | None] = []
    position, separator = 0, ","
    while separator == ",":
        field = _FIELD.match(record, position)
        if field is None:
            return None
        quoted, plain, separator = field.groups()
        if quoted is None:
            fields.append(plain or None)
        else:
            fields.append(_ESCAPED.sub(lambda one: one[1] or '"', quoted))
        position = field.end()
    return fields
