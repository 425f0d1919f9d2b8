"""Decides which single messages may be rejected, so that they aren't buffered.

Messages that are certain to be accepted are buffered, which makes them cheap. The decision
uses only the message's values and position; in doubt the message isn't buffered.
"""

from __future__ import annotations

from muntin.model.sessions import LONGEST_GAP
from muntin.model.spec import WindowSpec
from muntin.standalone.fields import MAX_TIME, MIN_TIME
from muntin.standalone.input_stream import InputStream


class RejectionFilter:
    """Predicts rejection for the messages of one query."""

    def __init__(self, spec: WindowSpec, stream: InputStream) -> None:
        self._spec = spec
        self._stream = stream
        # Times near the ends of a datetime's range may have windows outside of it.
        reach = stream.fields.reach
        self._first, self._last = MIN_TIME + reach, MAX_TIME - reach
        self._watermark: int | None = None

    def set_watermark(self, watermark: int | None) -> None:
        """Record the watermark after the buffer was processed."""
        self._watermark = watermark

    def may_reject(self, time: int | str | None) -> bool:
        """Return whether the last message may be rejected."""
        spec, stream = self._spec, self._stream
        if stream.future or not stream.is_readable():
            return True
        if spec.axis == "rows":
            return spec.offset is not None
        if stream.fields.gap is not None:
            gap = stream.get_last(stream.fields.gap)
            if gap.__class__ is not int or not 0 < gap <= LONGEST_GAP:
                return True
        if time.__class__ is not int or not self._first <= time <= self._last:
            return True
        return self._is_late(time)

    def _is_late(self, time: int) -> bool:
        """Return whether all windows may refuse a time, by the watermark before it."""
        spec, watermark = self._spec, self._watermark
        if watermark is None or time - spec.lateness > watermark:
            self._watermark = time - spec.lateness
        if watermark is None or time >= watermark:
            return False
        windows = spec.uniform_windows
        return windows.moves or time < windows.last_end(watermark - spec.firing.grace)
