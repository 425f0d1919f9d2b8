"""Encodes tuples as bytes that compare as the tuples do, and decodes them.

A stored key encodes a tuple: ``encode_key((time, key, arrival))``. Comparing two such keys byte by
byte gives the same order as comparing the tuples part by part, so an ordered store of bytes
answers range queries over tuples. Each part marks its own end, so the encoding of a tuple
is a prefix of another's only if the tuple is.

| type | order | decoded as |
| --- | --- | --- |
| ``None`` | before everything | ``None`` |
| ``bool``, ``int`` (to 1008 bits), ``str`` (by code point), ``bytes`` | Python's own | itself |
| ``float`` | Python's own, NaN last | itself; ``-0.0`` as ``0.0``, to which it is equal |
| ``Decimal`` | Python's own, NaN last | an equal number without trailing zeros |
| ``date``; ``datetime`` without a zone | Python's own | itself, without ``fold`` |
| ``datetime`` with a zone | by instant | the same instant in UTC |
| ``tuple`` of such | Python's own | itself |

Values of different types sort in the order of the table; an ``int`` and an equal ``float`` are
different keys.

Example:
    >>> sorted([(2, "a"), (-1, "b"), (2, None)], key=encode_key)
    [(-1, 'b'), (2, None), (2, 'a')]
    >>> decode_key(encode_key((2, "a")))
    (2, 'a')
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from muntin.model.errors import OptionError, StateCorruptedError

# Greater than every tag: keys between `prefix` and `prefix + AFTER` start with the prefix.
AFTER = b"\xff"

_END = 0x00  # ends a tuple; less than every tag, so that the shorter tuple sorts first
_NULL, _FALSE, _TRUE, _INT, _FLOAT, _DECIMAL = 0x01, 0x10, 0x11, 0x20, 0x30, 0x38
_STR, _BYTES, _DATE, _NAIVE, _AWARE, _TUPLE = 0x40, 0x48, 0x50, 0x58, 0x60, 0x70

_MAX_INT_BYTES = 126
_DOUBLE = struct.Struct(">Q")
_BITS = struct.Struct(">d")
_SIGN = 1 << 63
_ALL = (1 << 64) - 1

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_LOWEST, _NEGATIVE, _ZERO, _POSITIVE, _HIGHEST, _NAN = range(1, 7)
_INVERTED = bytes(range(255, -1, -1))

_HINT = "use None, bool, int, float, str, bytes, date, datetime, Decimal, or a tuple of such"


def encode_key(parts: tuple[Any, ...]) -> bytes:
    """Encode a tuple.

    Raises:
        OptionError: When a part has another type, or is an integer of more than 1008 bits.
    """
    return b"".join([encode_part(part) for part in parts])


def encode_part(part: Any) -> bytes:
    """Encode one part; the encoding of a tuple is that of its parts, concatenated."""
    encoder = _ENCODERS.get(type(part))
    if encoder is None:
        encoder = next((e for t, e in _ENCODERS.items() if isinstance(part, t)), None)
        if encoder is None:
            raise OptionError("key", part, f"is a {type(part).__name__}, not a key", _HINT)
    return encoder(part)


def decode_key(data: bytes) -> tuple[Any, ...]:
    """Decode a tuple.

    Raises:
        StateCorruptedError: When the bytes aren't an encoding.
    """
    parts = []
    at = 0
    while at < len(data):
        part, at = decode_part(data, at)
        parts.append(part)
    return tuple(parts)


def decode_part(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Decode the part that starts at an index; return it and the index after it."""
    try:
        return _DECODERS[data[at]](data, at + 1)
    except (IndexError, KeyError, OverflowError, ValueError, struct.error) as error:
        raise StateCorruptedError(f"a stored key can't be read at byte {at}: {data!r}") from error


def _encode_int(number: int) -> bytes:
    # The length comes first, and counts downwards for negative numbers, whose bytes are inverted.
    length = (number.bit_length() + 7) // 8
    if length > _MAX_INT_BYTES:
        bits = number.bit_length()
        raise OptionError("key", f"an integer of {bits} bits", "is too great", "use 1008 or fewer")
    if number >= 0:
        return bytes((0x80 + length,)) + number.to_bytes(length, "big")
    return bytes((0x7F - length,)) + ((1 << 8 * length) - 1 + number).to_bytes(length, "big")


def _decode_int(data: bytes, at: int) -> tuple[int, int]:
    length = data[at] - 0x80
    start = at + 1
    if length >= 0:
        return int.from_bytes(_slice_exactly(data, start, length), "big"), start + length
    length = -1 - length
    body = int.from_bytes(_slice_exactly(data, start, length), "big")
    return body - (1 << 8 * length) + 1, start + length


def _slice_exactly(data: bytes, start: int, length: int) -> bytes:
    if start + length > len(data):
        raise IndexError("the key ends early")
    return data[start : start + length]


def _encode_float(number: float) -> bytes:
    if number != number:
        number = float("nan")  # a single representation of NaN, which is positive
    (bits,) = _DOUBLE.unpack(_BITS.pack(number + 0.0))
    return bytes((_FLOAT,)) + _DOUBLE.pack(bits ^ (_ALL if bits & _SIGN else _SIGN))


def _decode_float(data: bytes, at: int) -> tuple[float, int]:
    (bits,) = _DOUBLE.unpack(_slice_exactly(data, at, 8))
    (number,) = _BITS.unpack(_DOUBLE.pack(bits ^ (_SIGN if bits & _SIGN else _ALL)))
    return number, at + 8


def _encode_bytes(text: bytes) -> bytes:
    return text.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _decode_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while True:
        end = data.index(b"\x00", end)
        if data[end + 1] == 0:
            return data[at:end].replace(b"\x00\xff", b"\x00"), end + 2
        end += 2


def _decode_str(data: bytes, at: int) -> tuple[str, int]:
    text, end = _decode_bytes(data, at)
    return text.decode("utf-8", "surrogatepass"), end


def _encode_decimal(number: Decimal) -> bytes:
    if number.is_nan():
        return bytes((_DECIMAL, _NAN))
    if number.is_infinite():
        return bytes((_DECIMAL, _LOWEST if number < 0 else _HIGHEST))
    sign, digits, exponent = number.as_tuple()
    if not any(digits):
        return bytes((_DECIMAL, _ZERO))
    significant = bytes(digit + 1 for digit in digits).lstrip(b"\x01")
    # As 0.d1d2d3… × 10 ** point, numbers compare by point, then digit by digit.
    point = len(significant) + int(exponent)
    body = _encode_int(point) + significant.rstrip(b"\x01") + b"\x00"
    if sign:
        return bytes((_DECIMAL, _NEGATIVE)) + body.translate(_INVERTED)
    return bytes((_DECIMAL, _POSITIVE)) + body


def _decode_decimal(data: bytes, at: int) -> tuple[Decimal, int]:
    kind = data[at]
    if kind in _DECIMAL_CONSTANTS:
        return _DECIMAL_CONSTANTS[kind], at + 1
    body = data[at + 1 :]
    if kind == _NEGATIVE:
        body = body.translate(_INVERTED)
    point, start = _decode_int(body, 0)
    end = body.index(b"\x00", start)
    digits = tuple(digit - 1 for digit in body[start:end])
    sign = 1 if kind == _NEGATIVE else 0
    return Decimal((sign, digits, point - len(digits))), at + 1 + end + 1


_DECIMAL_CONSTANTS = {
    _LOWEST: Decimal("-Infinity"),
    _ZERO: Decimal(0),
    _HIGHEST: Decimal("Infinity"),
    _NAN: Decimal("NaN"),
}


def _encode_datetime(value: datetime) -> bytes:
    if value.tzinfo is None:
        return bytes((_NAIVE,)) + _encode_int((value - _EPOCH) // _MICROSECOND)
    return bytes((_AWARE,)) + _encode_int((value - _EPOCH_UTC) // _MICROSECOND)


def _make_datetime_decoder(start: datetime) -> Callable[[bytes, int], tuple[datetime, int]]:
    def read(data: bytes, at: int) -> tuple[datetime, int]:
        number, end = _decode_int(data, at)
        return start + number * _MICROSECOND, end

    return read


def _decode_date(data: bytes, at: int) -> tuple[date, int]:
    number, end = _decode_int(data, at)
    return date.fromordinal(number), end


def _decode_tuple(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    parts = []
    while data[at] != _END:
        part, at = decode_part(data, at)
        parts.append(part)
    return tuple(parts), at + 1


# A subclass is met in this order: a bool is an int, a datetime is a date.
_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda part: bytes((_NULL,)),
    bool: lambda part: bytes((_TRUE if part else _FALSE,)),
    int: lambda part: bytes((_INT,)) + _encode_int(part),
    float: _encode_float,
    str: lambda part: bytes((_STR,)) + _encode_bytes(part.encode("utf-8", "surrogatepass")),
    bytes: lambda part: bytes((_BYTES,)) + _encode_bytes(part),
    datetime: _encode_datetime,
    date: lambda part: bytes((_DATE,)) + _encode_int(part.toordinal()),
    Decimal: _encode_decimal,
    tuple: lambda part: bytes((_TUPLE,)) + encode_key(part) + bytes((_END,)),
}
_DECODERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    _NULL: lambda data, at: (None, at),
    _FALSE: lambda data, at: (False, at),
    _TRUE: lambda data, at: (True, at),
    _INT: _decode_int,
    _FLOAT: _decode_float,
    _DECIMAL: _decode_decimal,
    _STR: _decode_str,
    _BYTES: _decode_bytes,
    _DATE: _decode_date,
    _NAIVE: _make_datetime_decoder(_EPOCH),
    _AWARE: _make_datetime_decoder(_EPOCH_UTC),
    _TUPLE: _decode_tuple,
}
