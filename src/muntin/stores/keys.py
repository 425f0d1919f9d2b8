"""Tuples as bytes that compare as the tuples do, and back.

A stored key is the encoding of a tuple: ``encode((time, key, arrival))``. Comparing two such keys
byte by byte says the same as comparing the tuples part by part, so an ordered store of bytes
answers range queries over tuples. Each part says where it ends, so the encoding of one tuple is
never the beginning of another's unless the tuple is.

| type | order | comes back as |
| --- | --- | --- |
| ``None`` | before everything | ``None`` |
| ``bool``, ``int`` (to 1008 bits), ``str`` (by code point), ``bytes`` | Python's own | itself |
| ``float`` | Python's own, NaN last | itself; ``-0.0`` as ``0.0``, to which it is equal |
| ``Decimal`` | Python's own, NaN last | an equal number without trailing zeros |
| ``date``; ``datetime`` without a zone | Python's own | itself, without ``fold`` |
| ``datetime`` with a zone | by instant | the same instant in UTC |
| ``tuple`` of such | Python's own | itself |

Values of different types lie in the order of the table within one position; an ``int`` and an
equal ``float`` are different keys.

Example:
    >>> sorted([(2, "a"), (-1, "b"), (2, None)], key=encode)
    [(-1, 'b'), (2, None), (2, 'a')]
    >>> decode(encode((2, "a")))
    (2, 'a')
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from muntin.model.errors import OptionError, StateCorruptedError

# Greater than every tag: what is between `prefix` and `prefix + AFTER` starts with the prefix.
AFTER = b"\xff"

_END = 0x00  # of a tuple; less than every tag, so that the shorter tuple comes first
_NULL, _FALSE, _TRUE, _INT, _FLOAT, _DECIMAL = 0x01, 0x10, 0x11, 0x20, 0x30, 0x38
_STR, _BYTES, _DATE, _NAIVE, _AWARE, _TUPLE = 0x40, 0x48, 0x50, 0x58, 0x60, 0x70

_MOST_BYTES = 126
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


def encode(parts: tuple[Any, ...]) -> bytes:
    """The bytes of a tuple.

    Raises:
        OptionError: When a part has another type, or is an integer of more than 1008 bits.
    """
    return b"".join([encode_part(part) for part in parts])


def encode_part(part: Any) -> bytes:
    """The bytes of one part; ``encode`` is these, one after another."""
    encoder = _ENCODERS.get(type(part))
    if encoder is None:
        encoder = next((e for t, e in _ENCODERS.items() if isinstance(part, t)), None)
        if encoder is None:
            raise OptionError("key", part, f"is a {type(part).__name__}, not a key", _HINT)
    return encoder(part)


def decode(data: bytes) -> tuple[Any, ...]:
    """The tuple that ``encode`` was given.

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
    """The part that starts at a place, and the place behind it."""
    try:
        return _DECODERS[data[at]](data, at + 1)
    except (IndexError, KeyError, OverflowError, ValueError, struct.error) as error:
        raise StateCorruptedError(f"a stored key can't be read at byte {at}: {data!r}") from error


def _int_body(number: int) -> bytes:
    # The length comes first, and counts downwards for negative numbers, whose bytes are inverted.
    length = (number.bit_length() + 7) // 8
    if length > _MOST_BYTES:
        bits = number.bit_length()
        raise OptionError("key", f"an integer of {bits} bits", "is too great", "use 1008 or fewer")
    if number >= 0:
        return bytes((0x80 + length,)) + number.to_bytes(length, "big")
    return bytes((0x7F - length,)) + ((1 << 8 * length) - 1 + number).to_bytes(length, "big")


def _int_at(data: bytes, at: int) -> tuple[int, int]:
    length = data[at] - 0x80
    start = at + 1
    if length >= 0:
        return int.from_bytes(_cut(data, start, length), "big"), start + length
    length = -1 - length
    body = int.from_bytes(_cut(data, start, length), "big")
    return body - (1 << 8 * length) + 1, start + length


def _cut(data: bytes, start: int, length: int) -> bytes:
    if start + length > len(data):
        raise IndexError("the key ends early")
    return data[start : start + length]


def _float(number: float) -> bytes:
    if number != number:
        number = float("nan")  # one NaN, and that a positive one
    (bits,) = _DOUBLE.unpack(_BITS.pack(number + 0.0))
    return bytes((_FLOAT,)) + _DOUBLE.pack(bits ^ (_ALL if bits & _SIGN else _SIGN))


def _float_at(data: bytes, at: int) -> tuple[float, int]:
    (bits,) = _DOUBLE.unpack(_cut(data, at, 8))
    (number,) = _BITS.unpack(_DOUBLE.pack(bits ^ (_SIGN if bits & _SIGN else _ALL)))
    return number, at + 8


def _text_body(text: bytes) -> bytes:
    return text.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _text_at(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while True:
        end = data.index(b"\x00", end)
        if data[end + 1] == 0:
            return data[at:end].replace(b"\x00\xff", b"\x00"), end + 2
        end += 2


def _str_at(data: bytes, at: int) -> tuple[str, int]:
    text, end = _text_at(data, at)
    return text.decode("utf-8", "surrogatepass"), end


def _decimal(number: Decimal) -> bytes:
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
    body = _int_body(point) + significant.rstrip(b"\x01") + b"\x00"
    if sign:
        return bytes((_DECIMAL, _NEGATIVE)) + body.translate(_INVERTED)
    return bytes((_DECIMAL, _POSITIVE)) + body


def _decimal_at(data: bytes, at: int) -> tuple[Decimal, int]:
    kind = data[at]
    if kind in _DECIMAL_CONSTANTS:
        return _DECIMAL_CONSTANTS[kind], at + 1
    body = data[at + 1 :]
    if kind == _NEGATIVE:
        body = body.translate(_INVERTED)
    point, start = _int_at(body, 0)
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


def _datetime(moment: datetime) -> bytes:
    if moment.tzinfo is None:
        return bytes((_NAIVE,)) + _int_body((moment - _EPOCH) // _MICROSECOND)
    return bytes((_AWARE,)) + _int_body((moment - _EPOCH_UTC) // _MICROSECOND)


def _after(start: datetime) -> Callable[[bytes, int], tuple[datetime, int]]:
    def read(data: bytes, at: int) -> tuple[datetime, int]:
        number, end = _int_at(data, at)
        return start + number * _MICROSECOND, end

    return read


def _date_at(data: bytes, at: int) -> tuple[date, int]:
    number, end = _int_at(data, at)
    return date.fromordinal(number), end


def _tuple_at(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    parts = []
    while data[at] != _END:
        part, at = decode_part(data, at)
        parts.append(part)
    return tuple(parts), at + 1


# A subclass is met in this order: a bool is an int, a datetime is a date.
_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda part: bytes((_NULL,)),
    bool: lambda part: bytes((_TRUE if part else _FALSE,)),
    int: lambda part: bytes((_INT,)) + _int_body(part),
    float: _float,
    str: lambda part: bytes((_STR,)) + _text_body(part.encode("utf-8", "surrogatepass")),
    bytes: lambda part: bytes((_BYTES,)) + _text_body(part),
    datetime: _datetime,
    date: lambda part: bytes((_DATE,)) + _int_body(part.toordinal()),
    Decimal: _decimal,
    tuple: lambda part: bytes((_TUPLE,)) + encode(part) + bytes((_END,)),
}
_DECODERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    _NULL: lambda data, at: (None, at),
    _FALSE: lambda data, at: (False, at),
    _TRUE: lambda data, at: (True, at),
    _INT: _int_at,
    _FLOAT: _float_at,
    _DECIMAL: _decimal_at,
    _STR: _str_at,
    _BYTES: _text_at,
    _DATE: _date_at,
    _NAIVE: _after(_EPOCH),
    _AWARE: _after(_EPOCH_UTC),
    _TUPLE: _tuple_at,
}
