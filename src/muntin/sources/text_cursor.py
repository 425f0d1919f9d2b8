"""Reads numbers and texts of many messages at once, eight bytes a step.

A word of eight bytes is one number of 64 bits, the first byte the lowest. Arithmetic on words
classifies or converts all their bytes together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.engine.utf8 import Mask
from muntin.sources.byte_values import ROOM, Bytes, Integers, gather

Words = NDArray[np.uint64]

_WORD = 8
# So many bytes of each message are copied at once.
_WINDOW = 4 * _WORD
# A text of more words is left to another reader, and so is one of the few longest.
_MOST_WORDS, _FEW = 16, 16
# 10**18 and less fit into 64 bits; a double holds 15 digits exactly.
_MOST_DIGITS, _EXACT_DIGITS = 18, 15
_POWERS = 10 ** np.arange(_MOST_DIGITS + 1, dtype=np.uint64)
_LOWEST = np.uint64(255)
# The number of characters of times.
_MINUTES, _SECONDS, _MILLISECONDS = 16, 19, 23
# From so many messages on, it pays to look whether their times have one minute.
_MANY = 100


def _repeat(byte: int) -> np.uint64:
    return np.uint64(byte * 0x0101010101010101)


_ONES, _TOPS, _ZEROS = _repeat(1), _repeat(0x80), _repeat(ord("0"))
_TO_TOP = _repeat(0x80 - 10)
_BLANKS = _repeat(0x20)
# Two digits become a number below 100, two of these one below 10 000, and so on.
_MERGES = [
    (np.uint64(10), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000), np.uint64(32), np.uint64(0x00000000FFFFFFFF)),
]


# A time at the start of a minute, with room after it.
_FIRST_MINUTE = b"%b:00" + bytes(ROOM)


class TextCursor:
    """Messages in one buffer, and the position of the next byte in each of them.

    The buffer has `ROOM` bytes after the messages. Reading beyond a message's end isn't noticed
    here: its position is then greater than its end.

    Attributes:
        agrees: Marks the messages that were written as expected so far.
    """

    def __init__(self, data: Bytes, at: Integers) -> None:
        self.data = data
        self.agrees = np.ones(len(at), bool)
        self._at = at.copy()
        # The bytes that follow each position, and how many of them were read.
        self._window: Any = None
        self._read = 0

    @property
    def at(self) -> Integers:
        """The positions."""
        return self._at + self._read

    def skip(self, expected: bytes) -> None:
        """Read bytes that are the same in all messages."""
        if not expected:
            return
        difference = np.zeros(len(self._at), np.uint64)
        for first in range(0, len(expected), _WORD):
            part = expected[first : first + _WORD]
            word = self._look() ^ np.uint64(int.from_bytes(part, "little"))
            # A shift drops the bytes after the expected ones.
            difference |= word << np.uint64(8 * (_WORD - len(part)))
            self._read += len(part)
        self.agrees &= difference == 0

    def read_whole(self) -> Integers:
        """Read whole numbers as JSON writes them."""
        negative, number, _ = self._read_digits()
        whole = number.view(np.int64)
        return whole if negative is None else np.where(negative, -whole, whole)

    def read_real(self) -> NDArray[np.float64]:
        """Read numbers that may have a fraction, but no exponent."""
        negative, number, digits = self._read_digits()
        real = number.astype(np.float64)
        rows = np.flatnonzero(((self._look() & _LOWEST) == ord(".")) & self.agrees)
        if len(rows):
            fraction, count = self._parse_digits(self.at[rows] + 1)
            whole = number[rows] * _POWERS[np.minimum(count, _MOST_DIGITS)] + fraction
            # Both are exact, so that the quotient is rounded once.
            real[rows] = whole.astype(np.float64) / _POWERS[np.minimum(count, _MOST_DIGITS)]
            digits[rows] += count
            self.agrees[rows[count == 0]] = False
            width = np.zeros(len(self._at), np.int64)
            width[rows] = count + 1
            self._move(width)
        self.agrees &= digits <= _EXACT_DIGITS
        if negative is None:
            return real
        # Without a fraction, -0 is the whole number 0 in JSON, but not in CSV.
        is_unclear = negative & (real == 0)
        is_unclear[rows] = False
        self.agrees &= ~is_unclear
        return np.where(negative, -real, real)

    def read_boolean(self) -> Mask:
        """Read ``true`` or ``false``."""
        word = self._look()
        four, five = word & np.uint64(2**32 - 1), word & np.uint64(2**40 - 1)
        true = four == int.from_bytes(b"true", "little")
        self.agrees &= true | (five == int.from_bytes(b"false", "little"))
        self._move(np.where(true, 4, 5))
        return true

    def read_text(self, ends: bytes) -> tuple[Integers, Integers]:
        """Read printable ASCII up to one of two bytes; return its positions and sizes."""
        first, second = (_repeat(end) for end in ends)
        return self._read_up_to(lambda word: _find_stops(word, first, second))

    def read_any(self, ends: bytes, *, nests: bool) -> Integers:
        """Read values of any kind; return their sizes, with their quotes or brackets.

        A text ends at its second quote, and what has no quotes before one of two bytes. Values may
        nest, within a limited number of bytes. None may have a byte beyond printable ASCII.
        """
        starts, first = self.at, self._look() & _LOWEST
        is_text = first == ord('"')
        nested = np.flatnonzero(((first | np.uint64(0x20)) == ord("{")) & nests)
        self._move(is_text)
        stops = [
            np.where(is_text, _repeat(of_text), _repeat(end))
            for of_text, end in zip(b'"\\', ends, strict=True)
        ]
        self._read_up_to(lambda word: _find_stops(word, *stops))
        self.agrees &= ~is_text | ((self._look() & _LOWEST) == ord('"'))
        self._move(is_text)
        if len(nested):
            sizes = self._find_closes(starts[nested])
            self.agrees[nested] = sizes > 0
            self._at[nested], self._window = starts[nested] + sizes, None
        return self._at - starts

    def _find_closes(self, at: Integers) -> Integers:
        """Return the sizes of values in brackets; 0 for one that is long or has a backslash."""
        sizes, depth = np.zeros(len(at), np.int64), np.zeros(len(at), np.int8)
        is_open, is_inner, is_sound = (np.full(len(at), flag) for flag in (True, False, True))
        for first in range(0, ROOM, _WORD):
            window = gather(self.data, at + first, f"V{_WORD}").view(np.uint8).reshape(-1, _WORD)
            for byte in np.ascontiguousarray(window.T):
                is_inner ^= byte == ord('"')
                # The bit in which brackets differ from braces is set.
                folded = byte | 0x20
                steps = (folded == ord("{")).view(np.int8) - (folded == ord("}")).view(np.int8)
                depth += steps * ~is_inner
                is_sound &= ~is_open | ((byte != ord("\\")) & (byte < 128))
                sizes += is_open
                is_open &= depth != 0
            if not is_open.any():
                break
        return np.where(is_sound & ~is_open, sizes, 0)

    def resume(self, rows: Integers, at: Integers) -> None:
        """Go on with some messages at other positions."""
        self._at[rows] = at - self._read
        self.agrees[rows] = True
        if self._window is not None:
            self._window[rows] = self._gather(self._at[rows])

    def _read_up_to(self, find_stops: Callable[[Words], Words]) -> tuple[Integers, Integers]:
        """Read up to a byte that is marked as an end; return the positions and sizes before it."""
        starts = self.at
        sizes = np.zeros(len(starts), np.int64)
        is_open = self.agrees.copy()
        for _ in range(_MOST_WORDS):
            stops = find_stops(self._look())
            sizes += _count_before(stops) * is_open
            self._read += _WORD
            is_open &= stops == 0
            if np.count_nonzero(is_open) * _FEW < len(starts):
                break
        self.agrees &= ~is_open
        self._at, self._window, self._read = starts + sizes, None, 0
        return starts, sizes

    def read_time(self, form: bytes) -> Integers:
        """Read times as microseconds since 1970, without a zone.

        ``form`` is ``0000-00-00T00:00:00``, with any byte in place of the ``T``, and with a
        fraction of three or six zeros or none.
        """
        minute = self._skip_common_minute(form)
        skipped = 0 if minute is None else _MINUTES
        pairs = self._read_pairs(form[skipped:])

        def pair(position: int) -> Integers:
            word, byte = divmod(position - skipped, _WORD)
            return (pairs[word] >> np.uint64(_WORD * byte) & _LOWEST).view(np.int64)

        if minute is None:
            date = [100 * pair(0) + pair(2), pair(5), pair(8)]
            first = int(self.agrees.argmax())
            if all(((part == part[first]) | ~self.agrees).all() for part in date):
                date = [part[first : first + 1] for part in date]
            days, is_day = _count_days(*date)
            hour, past = pair(11), pair(14)
            self.agrees &= is_day & (hour < 24) & (past < 60)
            minute = ((days * 24 + hour) * 60 + past) * 60_000_000
        second = pair(17)
        self.agrees &= second < 60
        micros = minute + second * 1_000_000
        if len(form) > _SECONDS:
            micros += pair(20) * 10_000 + pair(22) * 100
        # In a form with milliseconds, the pair before has the last digit and a zero byte.
        return micros + pair(24) if len(form) > _MILLISECONDS else micros

    def _skip_common_minute(self, form: bytes) -> Integers | None:
        """Read the minute of times in microseconds, if it is the same in all of many messages."""
        date, read = self._look(), self._read
        if len(date) < _MANY or read + _MINUTES + _WORD > _WINDOW or (date != date[0]).any():
            return None
        self._read += _WORD
        time = self._look()
        if (time == time[0]).all():
            text = np.frombuffer(_FIRST_MINUTE % (date[0].tobytes() + time[0].tobytes()), np.uint8)
            first = TextCursor(text, np.zeros(1, np.int64))
            minute = first.read_time(form[:_SECONDS])
            if first.agrees[0]:
                self._read += _WORD
                return minute
        self._read = read
        return None

    def _read_pairs(self, form: bytes) -> list[Words]:
        """Read texts of a form; return the number of two digits that begins at each byte."""
        pairs = []
        wrong = np.zeros(len(self._at), np.uint64)
        for first in range(0, len(form), _WORD):
            part = form[first : first + _WORD]
            digits = self._look() ^ np.uint64(int.from_bytes(part, "little"))
            if len(part) < _WORD:
                digits &= np.uint64(2 ** (_WORD * len(part)) - 1)
            # A digit may be up to nine, and any other byte has to be the same.
            limits = bytes(0x80 - 10 if byte == ord("0") else 0x7F for byte in part)
            wrong |= (digits + np.uint64(int.from_bytes(limits, "little"))) | digits
            pairs.append(digits * np.uint64(10) + (digits >> np.uint64(_WORD)))
            self._read += len(part)
        self.agrees &= (wrong & _TOPS) == 0
        return pairs

    def _look(self) -> Words:
        """Return the next eight bytes of each message."""
        if self._window is None or self._read + _WORD > _WINDOW:
            self._move(np.int64(0))
            self._window = self._gather(self._at)
        return np.ndarray(len(self._at), "<u8", self._window, self._read, (_WINDOW,))

    def _gather(self, at: Integers) -> Any:
        """Return the bytes from some positions on."""
        return gather(self.data, np.minimum(at, len(self.data) - ROOM), f"V{_WINDOW}")

    def _move(self, width: Any) -> None:
        """Advance each message by a width of its own."""
        self._at = self._at + (width + self._read)
        self._window, self._read = None, 0

    def _read_digits(self) -> tuple[Mask | None, Words, Integers]:
        """Read a number's sign (``None`` if all are positive) and digits before a fraction."""
        word = self._look()
        number, count = _parse_word(word)
        negative = None
        if not count.all():
            is_negative = ((word & _LOWEST) == ord("-")) & self.agrees
            if is_negative.any():
                negative = is_negative
                self._move(negative)
                word = self._look()
                number, count = _parse_word(word)
            self.agrees &= count > 0
        full = np.flatnonzero((count == _WORD) & self.agrees)
        if len(full):
            more, digits = self._parse_digits(self.at[full] + _WORD, _MOST_DIGITS - _WORD)
            number[full] = number[full] * _POWERS[digits] + more
            count[full] += digits
        zero = np.flatnonzero((word & _LOWEST) == ord("0"))
        self.agrees[zero[count[zero] > 1]] = False
        self._move(count)
        return negative, number, count

    def _parse_digits(self, at: Integers, most: int = 2 * _WORD) -> tuple[Words, Integers]:
        """Return the digits at some positions, as numbers and their counts."""
        number, count = _parse_word(self._words(at))
        full = np.flatnonzero(count == _WORD)
        if len(full):
            more, digits = _parse_word(self._words(at[full] + _WORD))
            number[full] = number[full] * _POWERS[digits] + more
            count[full] += digits
        # A number of more digits is followed by one of them, which nothing expects.
        return number, np.minimum(count, most)

    def _words(self, at: Integers) -> Words:
        return gather(self.data, np.minimum(at, len(self.data) - _WORD), "<u8")


def _parse_word(word: Words) -> tuple[Words, Integers]:
    """Return the digits with which each word begins, as a number and their count."""
    digits = word ^ _ZEROS
    bits = _count_bits_before(_mark_others(digits))
    # The last digit moves to the last byte; before the first one are zeros.
    number = digits << (64 - bits).astype(np.uint64)
    for ten, width, stays in _MERGES:
        merged = number * ten
        number >>= width
        number += merged
        number &= stays
    return number, (bits >> 3).astype(np.int64)


def _mark_others(digits: Words) -> Words:
    """Mark the bytes beyond nine by their top bits; bytes after such a one may be marked, too."""
    return ((digits + _TO_TOP) | digits) & _TOPS


def _find_stops(word: Words, first: Any, second: Any) -> Words:
    """Mark two bytes, control characters and bytes beyond ASCII by their top bits.

    Bytes after a marked one may be marked, too.
    """
    stops = np.zeros_like(word)
    for end in (first, second):
        difference = word ^ end
        stops |= (difference - _ONES) & ~difference
    stops |= (word - _BLANKS) & ~word
    return (stops | word) & _TOPS


def _count_before(marks: Words) -> Integers:
    """Return the number of bytes before the first one whose top bit is set; 8 for none."""
    return (_count_bits_before(marks) >> 3).astype(np.int64)


def _count_bits_before(marks: Words) -> Bytes:
    """Return the number of bits of the bytes before the first one whose top bit is set."""
    below = (marks & -marks) - np.uint64(1)
    return np.bitwise_count(below) & np.uint8(0xF8)


def _count_days(year: Integers, month: Integers, day: Integers) -> tuple[Integers, Mask]:
    """Return the days since 1970, and whether each date exists."""
    months = (year - 1970) * 12 + month - 1
    first, end = (m.astype("M8[M]").astype("M8[D]").astype(np.int64) for m in (months, months + 1))
    is_day = (month >= 1) & (month <= 12) & (day >= 1) & (day <= end - first)
    return first + day - 1, is_day
