"""Which single messages may be rejected, so that they don't wait until something is due.

Messages that surely are taken do wait, which is what makes them cheap. Whether a
message is one of them is judged by its cells and its place alone, and in doubt it isn't.
"""

from __future__ import annotations

from muntin.model.sessions import LONGEST_GAP
from muntin.model.spec import WindowSpec
from muntin.standalone.fields import GREATEST, LEAST
from muntin.standalone.input_stream import InputStream


class Screen:
    """The screen before one query's windows."""

    def __init__(self, spec: WindowSpec, stream: InputStream) -> None:
        self._spec = spec
        self._stream = stream
        # Times nearer to the ends of what a datetime holds may have windows that it doesn't.
        reach = stream.input.reach
        self._first, self._last = LEAST + reach, GREATEST - reach
        self._watermark: int | None = None

    def drained(self, watermark: int | None) -> None:
        """Note the watermark that is in force while nothing waits."""
        self._watermark = watermark

    def may_reject(self, time: int | str | None) -> bool:
        """Whether the message that came last may be rejected."""
        spec, stream = self._spec, self._stream
        if stream.future or not stream.readable():
            return True
        if spec.axis == "rows":
            return spec.offset is not None
        if stream.input.gap is not None:
            gap = stream.last_of(stream.input.gap)
            if gap.__class__ is not int or not 0 < gap <= LONGEST_GAP:
                return True
        if time.__class__ is not int or not self._first <= time <= self._last:
            return True
        return self._is_late(time)

    def _is_late(self, time: int) -> bool:
        """Whether no window may take it, by the watermark that those before it make."""
        spec, watermark = self._spec, self._watermark
        if watermark is None or time - spec.lateness > watermark:
            self._watermark = time - spec.lateness
        if watermark is None or time >= watermark:
            return False
        windows = spec.windows
        return windows.moves or time < windows.last_end(watermark - spec.firing.grace)
