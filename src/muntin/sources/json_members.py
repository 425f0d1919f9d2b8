"""Checks the members of valid JSON objects, for many messages at once.

What stands inside of members is blanked first, so that a name in quotes before a colon is the name
of a member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from muntin.engine.utf8 import Mask
from muntin.sources.byte_values import ByteValues, Integers, gather
from muntin.sources.json_syntax import find_values
from muntin.sources.message_patterns import Judged
from muntin.sources.payload_lines import PayloadLines
from muntin.sources.payloads import Faults, no_faults
from muntin.sources.text_values import REAL, WHOLE

# No valid object holds it as it is; it stands for an escape, or for a part of a nested value.
_BLANK = "\x01"
_COLON = r'"[ \t\r]*:[ \t\r]*'
_ESCAPED_NAME = rf'{_BLANK}[^"]*{_COLON}'


def _list_greater(limit: str) -> str:
    """Return a pattern of how the whole numbers beyond a limit begin.

    Example:
        >>> _list_greater("59")
        '[1-9][0-9]{2}|[6-9][0-9]{1}'
    """
    size = len(limit)
    digits = (
        f"{limit[:n]}[{int(digit) + 1}-9][0-9]{{{size - n - 1}}}"
        for n, digit in enumerate(limit)
        if digit != "9"
    )
    return "|".join([f"[1-9][0-9]{{{size}}}", *digits])


# A value without quotes around it has none, nor an escape, in it.
_MAYBE_CUT = r'\A[^{\[].*["\\]'
_NO_NUMBER = f'["tf{_BLANK}]'
_BEYOND = f"{_list_greater(str(2**63 - 1))}|-(?:{_list_greater(str(2**63))})"
# How a value begins that isn't of the type in which Polars reads a column; a text is of any.
_UNLIKE: Mapping[type[pl.DataType], str] = {
    pl.Int64: rf"{_NO_NUMBER}|-?[0-9]+[.eE]|{_BEYOND}",
    pl.Float64: _NO_NUMBER,
    pl.Boolean: f'[-0-9"{_BLANK}]',
}


def as_read(dtype: pl.DataType) -> pl.DataType:
    """Return the type for Polars' parser, which knows fewer types, and times only as text."""
    if isinstance(dtype, WHOLE):
        return pl.Int64()
    if isinstance(dtype, REAL):
        return pl.Float64()
    return pl.Boolean() if isinstance(dtype, pl.Boolean) else pl.String()


def judge_values(
    values: ByteValues, members: Integers, types: Sequence[pl.DataType | None]
) -> Judged:
    """Judge values by the types of their members' columns; no type is that of no column.

    The values have no escapes, and end at a quote, at their own bracket, or before a comma or a
    brace.

    Example:
        >>> data = np.frombuffer(b'"x"NaN[1]'.ljust(100), np.uint8)
        >>> values = ByteValues(data, np.array([0, 3, 6]), np.array([3, 3, 3]))
        >>> judged = judge_values(values, np.array([0, 1, 0]), [pl.Int64(), None])
        >>> judged.broken.tolist(), judged.wrong.tolist()
        ([False, True, False], [True, False, True])
    """
    is_text = values.data[values.starts] == ord('"')
    is_null, is_true, is_false = (
        (gather(values.data, values.starts, f"S{len(word)}") == word) & (values.sizes == len(word))
        for word in (b"null", b"true", b"false")
    )
    is_truth, wrong = is_true | is_false, np.zeros(len(values), bool)
    others = np.flatnonzero(~(is_text | is_truth | is_null))
    # After a blank may be a text, which another reader reads.
    broken, cut = wrong.copy(), values.data[values.starts] == ord(" ")
    rest = values.select(others).to_series(text=True)
    if len(others):
        unsound = (~find_values(rest)).arg_true()
        # After a blank, a text may have the byte at which the value ends here.
        is_cut = rest.gather(unsound).str.contains(_MAYBE_CUT)
        cut[others[unsound.filter(is_cut)]] = broken[others[unsound.filter(~is_cut)]] = True
    broken &= ~cut
    texts = pl.Series([None], dtype=pl.String).new_from_index(0, len(values))
    kinds, is_clear = [_kind_of(dtype) for dtype in types], is_null | broken
    for kind in {kinds[member] for member in np.flatnonzero(np.bincount(members)).tolist()}:
        own = np.array([one is kind for one in kinds])[members] & ~(cut | is_clear)
        if unlike := _UNLIKE.get(kind):
            some = own[others]
            is_unlike = rest.filter(some).str.contains(rf"\A(?:{unlike}|[{{\[])")
            wrong[others[some]] = is_unlike.to_numpy()
            wrong |= own & (is_text | is_truth & (kind is not pl.Boolean))
            own &= wrong
        elif kind is pl.Datetime:
            # Numbers and nested values are texts as well, and no time begins as they do.
            times = values.select(own).to_series(text=True)
            texts = texts.scatter(np.flatnonzero(own), times.str.strip_chars('"'))
        if kind is not pl.String:
            is_clear |= own
    return Judged(broken, wrong, ~is_clear, texts)


def _kind_of(dtype: pl.DataType | None) -> type[pl.DataType]:
    """Return the type in which Polars reads a column, that of times, or that of no column."""
    if dtype is None:
        return pl.Null
    is_time = isinstance(dtype, (pl.Datetime, pl.Date))
    return pl.Datetime if is_time else type(as_read(dtype))


def find_faults(lines: PayloadLines, schema: pl.Schema, names: Iterable[str]) -> Faults:
    """Return the first column of each valid object whose member isn't of its type.

    Null is of any type, and of repeated members the first one counts. The schema has the types in
    which Polars reads the columns, of which ``names`` are checked; others have no faults.

    Example:
        >>> lines = PayloadLines(pl.Series(['{"a":1,"b":[1]}', '{"c":{"a":""}}', '{"a":"x"}']))
        >>> find_faults(lines, pl.Schema({"a": pl.Int64(), "b": pl.Boolean()}), ["a", "b"]).tolist()
        [1, -1, 0]
    """
    faults = no_faults(len(lines))
    typed = {number: name for number, name in enumerate(names) if type(schema[name]) in _UNLIKE}
    if not typed or not len(lines):
        return faults
    texts, escaped = blank_inner(lines.texts)
    unlike = {name: _UNLIKE[type(schema[name])] for name in typed.values()}
    left = texts.str.contains(_match_members(unlike)).arg_true()
    for number, name in typed.items():
        is_unlike = _find_unlike(texts.gather(left), name, unlike[name])
        faults[left.filter(is_unlike).to_numpy()] = number
        left = left.filter(~is_unlike)
    unsure = _find_any_names(texts, escaped)
    if len(unsure):
        faults[unsure] = _compare(lines.select(unsure), schema, typed)
    return faults


def find_members(lines: PayloadLines, name: str) -> Mask:
    """Return which valid objects have a value, other than null, for a name."""
    texts, escaped = blank_inner(lines.texts)
    values = _find_values(texts, name)
    is_member = (values.is_not_null() & ~values.str.starts_with("n")).to_numpy().copy()
    unsure = _find_any_names(texts, escaped)
    is_member[unsure] = _read_members(lines.select(unsure), [name])[name].to_numpy()
    return is_member


def _match_members(unlike: Mapping[str, str]) -> str:
    """Return a pattern of the members of some names, from those of how their values begin."""
    names: dict[str, list[str]] = {}
    for name, begin in unlike.items():
        names.setdefault(begin, []).append(pl.escape_regex(name))
    return "|".join(f'"(?:{"|".join(some)}){_COLON}(?:{one})' for one, some in names.items())


def _find_unlike(texts: pl.Series, name: str, unlike: str) -> pl.Series:
    """Return in which texts the value of a name begins in some way."""
    is_unlike = texts.str.contains(_match_members({name: unlike}))
    rows = is_unlike.arg_true()
    count = texts.gather(rows).str.count_matches(f'"{name}"', literal=True)
    repeated = rows.filter(count > 1)
    if len(repeated):
        first = _find_values(texts.gather(repeated), name)
        is_unlike = is_unlike.scatter(repeated, first.str.contains(rf"\A(?:{unlike})"))
    return is_unlike


def _find_any_names(texts: pl.Series, escaped: pl.Series) -> Integers:
    """Return which objects have a name with escapes, which may be any name."""
    named = texts.gather(escaped).str.contains(_ESCAPED_NAME)
    return escaped.filter(named).to_numpy().astype(np.int64)


def _find_values(texts: pl.Series, name: str) -> pl.Series:
    """Return how the value of a name begins in each text; null if there is none."""
    return texts.str.extract(f'"{pl.escape_regex(name)}{_COLON}([^,}}]*)')


def _compare(lines: PayloadLines, schema: pl.Schema, typed: Mapping[int, str]) -> Faults:
    """Return the faults of objects with any names, of which Polars reads each value twice."""
    faults = no_faults(len(lines))
    frame, written = lines.read(schema, lenient=True), _read_members(lines, [*typed.values()])
    for number, name in typed.items():
        # A null stands for a member that is missing, null, or of another type.
        unlike = (frame[name].is_null() & written[name]).to_numpy()
        faults[unlike & (faults < 0)] = number
    return faults


def _read_members(lines: PayloadLines, names: Sequence[str]) -> pl.DataFrame:
    """Return for each name which objects have a value for it, other than null."""
    texts = lines.read(pl.Schema({"": pl.String(), **dict.fromkeys(names, pl.String())}))
    return texts.select(pl.col(name).is_not_null() for name in names)


def blank_inner(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    r"""Blank the escapes of valid objects, and the quotes and brackets of nested values.

    Also returns the positions of the objects with escapes.

    Example:
        >>> texts, escaped = blank_inner(pl.Series([r'{"a\n":1}', '{"b":[2],"c":{"d":""}}']))
        >>> texts.to_list(), escaped.to_list()
        (['{"a\x01":1}', '{"b":\x012],"c":\x01\x01d\x01:\x01\x01}}'], [0])
    """
    escaped = texts.str.contains("\\", literal=True).arg_true()
    if len(escaped):
        blanked = texts.gather(escaped).str.replace_all(r"\\.", _BLANK)
        texts = texts.clone().scatter(escaped, blanked)
    nested = (texts.str.count_matches(r"[{\[]") > 1).arg_true()
    if len(nested):
        texts = texts.clone().scatter(nested, _blank_nested(texts.gather(nested)))
    return texts, escaped


def _blank_nested(texts: pl.Series) -> pl.Series:
    """Blank quotes and brackets that are deeper than an object's own; no quote is escaped."""
    column = texts.to_arrow().cast(pa.large_string())
    _, offsets, data = column.buffers()
    blanked = np.frombuffer(data, np.uint8).copy()
    # The bit in which brackets differ from braces is set.
    folded = blanked | 0x20
    at = np.flatnonzero((folded == ord('"')) | (folded == ord("{")) | (folded == ord("}")))
    marks = folded[at]
    marks[np.cumsum(marks == ord('"'), dtype=np.uint8) & 1 == 1] = ord('"')
    steps = (marks == ord("{")).view(np.int8) - (marks == ord("}")).view(np.int8)
    blanked[at[np.cumsum(steps, dtype=np.int16) > 1]] = ord(_BLANK)
    return pl.Series(
        pa.Array.from_buffers(column.type, len(column), [None, offsets, pa.py_buffer(blanked)])
    )
