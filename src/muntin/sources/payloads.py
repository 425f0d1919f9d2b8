"""The protocol of payload formats: many messages are decoded in one call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from muntin.sources.byte_values import binary_column, select_values

# A message whose list has more items than this is malformed, since items are read one by one.
MOST_ITEMS = 100_000
# The size of the prefix that a registry's serializers write: a zero byte, and the number of the
# schema in four bytes, the most significant first.
HEAD = 5


class UnreadableError(ValueError):
    """A schema, or a part of one, can't be decoded in columns."""


Faults = NDArray[np.int16]
"""The number of the first column that makes a payload malformed; -1 if no single one does."""


class Decoded(NamedTuple):
    """Decoded payloads.

    Attributes:
        rows: A row per payload; those of malformed payloads are null.
        bad: Which payloads are malformed: null, or not of their format and schema.
        faults: The column of each malformed payload that isn't of its type.
    """

    rows: pl.DataFrame
    bad: pl.Series
    faults: Faults


def no_faults(count: int) -> Faults:
    """Return the faults of payloads of which no column is known to be wrong."""
    return np.full(count, -1, np.int16)


def renumber_faults(faults: Faults, names: Iterable[str], columns: Iterable[str]) -> Faults:
    """Return the faults of some columns as those of other columns, which may lack some.

    Example:
        >>> renumber_faults(np.array([1, -1, 0], np.int16), ["b", "a"], ["a", "b", "c"]).tolist()
        [0, -1, 1]
    """
    numbers = {name: number for number, name in enumerate(columns)}
    renumbered: Faults = np.array([*(numbers.get(name, -1) for name in names), -1], np.int16)
    return renumbered[faults]


def describe_faults(
    payloads: Payloads, values: Sequence[bytes | None], bad: pl.Series, faults: Faults
) -> pl.Series:
    """Return what is wrong with each malformed payload; null for the others.

    Example:
        >>> from muntin.engine.session_zone import SessionZone
        >>> from muntin.sources.csv_payloads import CsvPayloads
        >>> records = CsvPayloads({"id": pl.Int64(), "at": pl.Date()}, SessionZone())
        >>> values = [b"1,2026-01-01", b"1,yesterday", b"1", b"x,y"]
        >>> _, bad, faults = records.decode(values)
        >>> describe_faults(records, values, bad, faults).to_list()
        [None, 'at is not a date', 'not a CSV record of 2 fields', 'id is not a long']
    """
    none = pl.Series([None], dtype=pl.String).new_from_index(0, len(bad))
    if not bad.any():
        return none
    rows = bad.arg_true()
    columns = [f"{name} is not {_name_type(kind)}" for name, kind in payloads.columns.items()]
    texts = pl.Series([f"not {payloads.shape}", *columns])
    numbers = pl.Series(faults[rows.to_numpy()].astype(np.int64) + 1)
    details = none.scatter(rows, texts.gather(numbers))
    if payloads.may_have_header:
        headers = _find_headers(values, bad, [*payloads.columns])
        details = details.scatter(headers, _HEADER) if len(headers) else details
    return details


# The first field of a header is looked for among so many columns.
_FIRST = 20
_HEADER = "a header of column names, not a record; for files, give header=true"


def _find_headers(
    values: Sequence[bytes | None], bad: pl.Series, columns: Sequence[str]
) -> pl.Series:
    """Return the CSV records, among malformed ones, that have names of columns as their fields."""
    spelled = {name for one in columns[:_FIRST] for name in (one, one.lower(), one.upper())}
    begins = rf"\A(?:\xef\xbb\xbf)?\"?(?:{'|'.join(map(re.escape, spelled))})"
    rows = bad.arg_true()
    records = binary_column(select_values(values, rows.to_numpy()))
    may_be = pc.match_substring_regex(records.to_arrow().cast(pa.large_binary()), begins)
    is_likely = pl.Series(may_be).fill_null(False)
    rows, records = rows.filter(is_likely), records.filter(is_likely)
    names = {name.lower().encode() for name in columns}
    headers = {record for record in set(records.to_list()) if _is_header(record, names)}
    return rows.filter(pl.Series([record in headers for record in records], dtype=pl.Boolean))


def _is_header(record: bytes, names: set[bytes]) -> bool:
    record = record.removeprefix(b"\xef\xbb\xbf").lower()
    fields = {field.strip(b'" \r\n') for field in record.split(b",")}
    return fields <= names or names <= fields


_WORDS: dict[Any, str] = {
    pl.Int8: "a byte", pl.Int16: "a short", pl.Int32: "an int", pl.Int64: "a long",
    pl.Float32: "a float", pl.Float64: "a double", pl.Boolean: "a boolean", pl.Date: "a date",
    pl.String: "a string", pl.Binary: "bytes", pl.Struct: "a struct of its fields",
    pl.List: "an array of its items", pl.Map: "a map of its values",
}  # fmt: skip


def _name_type(kind: Any) -> str:
    """Return a type in the words of SQL."""
    if isinstance(kind, pl.Decimal):
        return f"a decimal({kind.precision}, {kind.scale})"
    if isinstance(kind, pl.Datetime):
        return "a timestamp" if kind.time_zone is not None else "a timestamp_ntz"
    return _WORDS.get(kind.base_type(), f"of type {kind}")


class Payloads(Protocol):
    """A format of payloads that a worker decodes.

    Attributes:
        may_have_header: Whether a payload may be a header of column names by mistake.
    """

    may_have_header: ClassVar[bool]

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """The names and types of a payload's columns."""

    @property
    def shape(self) -> str:
        """The format of a payload as a whole, for messages: ``a JSON object``."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads into rows, each independent of the others; malformed ones are null."""
