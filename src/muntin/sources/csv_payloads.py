"""CSV payloads as columns: one record a message, all unquoted records split in one step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import polars as pl

from muntin.engine.session_zone import SessionZone
from muntin.engine.utf8 import decode_text
from muntin.sources.byte_values import ByteValues, Integers, binary_column
from muntin.sources.message_patterns import (
    BARE,
    Format,
    Judged,
    Member,
    Pattern,
    ValueKind,
    decode_alike,
    find_kind,
    find_time_form,
)
from muntin.sources.payloads import Decoded, no_faults
from muntin.sources.text_values import convert_texts, null_malformed, spread_rows

# A field with the comma or end after it: quoted, or without a quote at its start.
_FIELD = re.compile(r'(?:"((?:[^"\\]|\\.|"")*)"|([^",\r\n][^,\r\n]*|))(,|\r?\n?\Z)', re.DOTALL)
_PATTERN = r'(?:"(?:[^"\\]|\\.|"")*"|[^",\r\n][^,\r\n]*|)'
_RECORD = rf"(?s)\A{_PATTERN}(?:,{_PATTERN}){{%s}}(?:\r?\n)?\z"
# A pattern counts so many fields; more are counted by another, since it would be long.
_COUNTED = 16
_NEXT = f"(?s),({_PATTERN})"
# A field with nothing beyond ASCII: quoted, without quotes in it, or without any.
_PLAIN = re.compile(
    rb'(?:(?P<quote>")(?P<inner>[^"\\\x00-\x1f\x7f-\xff]*)"|(?P<text>[^",\x00-\x1f\x7f-\xff]*))'
    rb"(?P<end>,|(?:\r?\n)?\Z)"
)
_QUOTE = b'"'
_LEAVES: Mapping[ValueKind, bytes] = {
    "text": _QUOTE, "field": bytes(one for one in range(256) if one != ord(_QUOTE))
}  # fmt: skip
_ESCAPED = re.compile(r'\\(["\\])|""')
# The first character marks where a field begins; records have others in place of both.
_MARK, _ESCAPE = "\x1f", "\x1e"
_STUFFED = {_ESCAPE: f"{_ESCAPE}b", _MARK: f"{_ESCAPE}a"}


@dataclass(frozen=True)
class CsvPayloads:
    """Decodes records of values between commas.

    A field that holds a comma, a quote or a line feed is quoted; a quote in it is doubled, or has a
    backslash before it. A field that is empty and not quoted is null.

    Attributes:
        columns: Names and types of the columns, in the order of the fields.
        fields: Names of all fields, where some of them are no columns.
    """

    columns: dict[str, pl.DataType]
    zone: SessionZone
    fields: Sequence[str] | None = None

    # The pattern of the last messages; the next ones are likely to have it, too.
    _recent: list[Pattern] = field(default_factory=list, init=False, repr=False, compare=False)

    may_have_header: ClassVar[bool] = True

    @property
    def width(self) -> int:
        """The number of fields of a record."""
        return len(self.columns if self.fields is None else self.fields)

    @property
    def shape(self) -> str:
        """The format of a payload, for messages."""
        return f"a CSV record of {self.width} fields"

    @property
    def form(self) -> Format:
        """The form of records."""
        find_pattern = partial(find_record_pattern, names=self.fields or [*self.columns])
        return Format(find_pattern, judge_fields, b',"', _LEAVES, most=1)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads; a record must have exactly as many fields as it has names.

        What has another number of fields isn't split, so that short payloads cost little, however
        many fields a record has.
        """
        return decode_alike(
            values, self.columns, self.zone, self.form, self._decode_any, self._recent
        )

    def _decode_any(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode records that are written in any way."""
        texts = decode_text(binary_column(values))
        is_quoted = texts.str.contains('["\r\n]').fill_null(False)
        commas = texts.str.count_matches(",", literal=True)
        is_plain = (~is_quoted & (commas == self.width - 1) & (texts != "")).fill_null(False)
        fields = self._split(texts.filter(is_plain))
        bad = ~is_plain
        if is_quoted.any():
            is_quoted &= commas >= self.width - 1
            positions, quoted = self._split_quoted(texts, is_quoted.arg_true())
            order = pl.concat([is_plain.arg_true(), positions]).arg_sort()
            fields = pl.concat([fields, quoted]).select(pl.all().gather(order))
            bad = bad.scatter(positions, False)
        rows, untyped, faults = convert_texts(fields, self.columns, self.zone)
        if not bad.any():
            return Decoded(null_malformed(rows, untyped), untyped, faults)
        good = (~bad).arg_true()
        all_faults = no_faults(len(texts))
        all_faults[good] = faults
        spread = spread_rows(null_malformed(rows, untyped), good, len(texts))
        return Decoded(spread, bad.scatter(good, untyped), all_faults)

    def _split(self, plain: pl.Series) -> pl.DataFrame:
        """Split unquoted records into the texts of their columns."""
        split = pl.DataFrame({"": plain}).select(pl.col("").str.split_exact(",", self.width - 1))
        parts = split.to_series().struct
        return pl.DataFrame(
            [parts.field(f"field_{number}").alias(name) for number, name in self._list_numbers()]
        ).with_columns(pl.all().replace("", None))

    def _list_numbers(self) -> list[tuple[int, str]]:
        """Return the number of each column's field, and the column's name."""
        names = enumerate(self.columns if self.fields is None else self.fields)
        return [(number, name) for number, name in names if name in self.columns]

    def _split_quoted(
        self, texts: pl.Series, positions: pl.Series
    ) -> tuple[pl.Series, pl.DataFrame]:
        """Split records with quotes; return the positions and the columns' texts of the good ones.

        The commas between fields become marks.
        """
        records = texts.gather(positions)
        is_narrow = self.width <= _COUNTED
        is_sound = records.str.contains(_RECORD % (self.width - 1 if is_narrow else "0,"))
        positions, records = positions.filter(is_sound), records.filter(is_sound)
        if is_stuffed := bool(records.str.contains(f"[{_ESCAPE}{_MARK}]").any()):
            for character, others in _STUFFED.items():
                records = records.str.replace_all(character, others, literal=True)
        if records.str.ends_with("\n").any():
            records = records.str.replace(r"\r?\n\z", "")
        records = "," + records
        if not is_narrow:
            # Counting fields costs a fifth of marking them.
            fits = records.str.count_matches(_NEXT) == self.width
            positions, records = positions.filter(fits), records.filter(fits)
        marked = records.str.replace_all(",", _MARK, literal=True)
        within = (records.str.count_matches(",", literal=True) > self.width).arg_true()
        if len(within):
            fields = records.gather(within).str.replace_all(_NEXT, f"{_MARK}${{1}}")
            marked = marked.scatter(within, fields)
        parts = marked.str.split_exact(_MARK, self.width).struct
        columns = [
            _unquote(parts.field(f"field_{number + 1}"), is_stuffed).alias(name)
            for number, name in self._list_numbers()
        ]
        return positions, pl.DataFrame(columns)


def _unquote(fields: pl.Series, is_stuffed: bool) -> pl.Series:
    """Return the texts of fields as they are written; an empty one without quotes is null."""
    if is_stuffed:
        for character, others in reversed(_STUFFED.items()):
            fields = fields.str.replace_all(others, character, literal=True)
    rows = fields.str.starts_with('"').arg_true()
    fields = fields.replace("", None)
    if not len(rows):
        return fields
    quoted = fields.gather(rows).str.strip_prefix('"').str.strip_suffix('"')
    escaped = quoted.str.contains(r'["\\]').arg_true()
    if len(escaped):
        # A quote in it is doubled, or has a backslash before it.
        unescaped = quoted.gather(escaped).str.replace_all(r'[\\"](["\\])', "${1}")
        quoted = quoted.scatter(escaped, unescaped)
    return fields.scatter(rows, quoted)


def find_record_pattern(
    record: bytes, columns: Mapping[str, pl.DataType], names: Sequence[str]
) -> Pattern | None:
    """Return how a record is written; ``None`` if it can't be read by a pattern.

    An empty field of a column that isn't text is a part of the pattern. ``names`` are those of all
    fields.

    Example:
        >>> columns = {"k": pl.Int64(), "x": pl.String()}
        >>> pattern = find_record_pattern(b'1,a,"b"', columns, ["k", "x", "y"])
        >>> [(member.before, member.kind) for member in pattern.members], pattern.close
        ([(b'', 'whole'), (b',', 'field'), (b',', 'text')], b'')
    """
    members: list[Member] = []
    at, before, end = 0, b"", b","
    for name in names:
        field = _PLAIN.match(record, at)
        if field is None or end != b",":
            return None
        dtype = columns.get(name, pl.String())
        if field["quote"] or field["text"] or not isinstance(dtype, (*BARE, pl.Datetime)):
            members.append(_make_member(before, name, field, dtype))
            before = b""
        at, end = field.end(), field["end"]
        before += end
    return Pattern(tuple(members), before) if record and end != b"," else None


def _make_member(before: bytes, name: str, field: re.Match[bytes], dtype: pl.DataType) -> Member:
    """Return the member of a field."""
    quote, text = field["quote"] or b"", field["inner"] if field["quote"] else field["text"]
    if time := find_time_form(text, dtype):
        return Member(before, name, "time", quote, *time)
    return Member(before, name, find_kind(dtype) or ("text" if quote else "field"), quote)


def judge_fields(
    fields: ByteValues, members: Integers, types: Sequence[pl.DataType | None]
) -> Judged:
    """Return fields, with their quotes, as values to convert to their columns' types.

    Example:
        >>> fields = ByteValues(
        ...     np.frombuffer(b'"x"7'.ljust(100), np.uint8), np.array([0, 3]), np.array([3, 1])
        ... )
        >>> judge_fields(fields, np.array([0, 0]), [pl.Int64()]).texts.to_list()
        ['x', '7']
    """
    none = np.zeros(len(fields), bool)
    is_quoted = fields.data[fields.starts] == ord(_QUOTE)
    sizes = np.where(fields.sizes == 0, -1, fields.sizes - 2 * is_quoted)
    texts = ByteValues(fields.data, fields.starts + is_quoted, sizes).to_series(text=True)
    return Judged(none, none, none, texts)


def parse_fields(record: str) -> list[str | None]:
    r"""Return the fields of a record; none if it is malformed.

    Example:
        >>> parse_fields('1,"a, b",'), parse_fields('"a"b')
        (['1', 'a, b', None], [])
    """
    fields: list[str | None] = []
    position, separator = 0, ","
    while separator == ",":
        field = _FIELD.match(record, position)
        if field is None:
            return []
        quoted, plain, separator = field.groups()
        if quoted is None:
            fields.append(plain or None)
        else:
            fields.append(_ESCAPED.sub(lambda one: one[1] or '"', quoted))
        position = field.end()
    return fields
