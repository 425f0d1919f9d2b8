"""Shows a running query in a notebook as a small card, which is updated while it runs."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muntin.spark.query import WindowedQuery

_SECONDS = 1.0
_POINTS = 120
_WIDTH, _HEIGHT = 360, 40
_FRAME = "display:inline-block;padding:.6em 1em;border:1px solid rgba(128,128,128,.4)"


class Card:
    """A card with the figures of a query and a chart of its speed."""

    def __init__(self, query: WindowedQuery) -> None:
        self._query = query
        self._rates: deque[float] = deque(maxlen=_POINTS)
        self._seen = self._read_progress()

    def html(self) -> str:
        """Return the present card as HTML."""
        query, rates = self._query, self._rates
        name = query.query.name or "the query"
        head = f"<b>{escape(name)}</b> {escape(self._state())}"
        speed = f"<p>{rates[-1]:,.0f} messages/s</p>{sparkline(rates)}" if rates else ""
        where = f"<p>checkpoint {escape(query.checkpoint)}</p>"
        return f'<div style="{_FRAME}">{head}{speed}{query.progress._repr_html_()}{where}</div>'

    def follow(self, draw: Callable[[str], Any]) -> threading.Thread:
        """Draw the card whenever it changes, in a thread, until the query has ended."""

        def run() -> None:
            drawn = ""
            while True:
                lives = self._query.is_active
                self._measure()
                if (html := self.html()) != drawn:
                    draw(html)
                    drawn = html
                if not lives:
                    return
                time.sleep(_SECONDS)

        thread = threading.Thread(target=run, daemon=True, name="muntin-card")
        thread.start()
        return thread

    def _state(self) -> str:
        if self._query.is_active:
            return "runs"
        error = None
        with suppress(Exception):  # the session may have ended
            error = self._query.query.exception()
        return "has ended" if error is None else f"has failed: {str(error).splitlines()[0]}"

    def _read_progress(self) -> tuple[int, int, float]:
        progress = self._query.progress
        return progress.batch, progress.received, time.monotonic()

    def _measure(self) -> None:
        """Measure how fast messages were read since the last measured batch."""
        (batch, received, at), (number, more, now) = self._seen, self._read_progress()
        if number == batch:
            return
        # Skip the first measurement, which has the counts of earlier runs.
        if batch >= 0:
            self._rates.append((more - received) / (now - at))
        self._seen = number, more, now


def sparkline(values: Sequence[float]) -> str:
    """Return values as a line in SVG, the oldest first; empty for fewer than two.

    Example:
        >>> sparkline([0.0, 4.0, 2.0]).partition('points="')[2].partition('"')[0]
        '0.0,40.0 180.0,0.0 360.0,20.0'
    """
    if len(values) < 2:
        return ""
    most = max(values) or 1.0
    step = _WIDTH / (len(values) - 1)
    heights = (_HEIGHT - value / most * _HEIGHT for value in values)
    points = " ".join(f"{n * step:.1f},{height:.1f}" for n, height in enumerate(heights))
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    title = f"messages a second, up to {most:,.0f}"
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 -2 {_WIDTH} {_HEIGHT + 4}"'
    return f'<svg {size} role="img" aria-label="{title}"><title>{title}</title>{line}</svg>'


def show_card(query: WindowedQuery) -> None:
    """Show a query's card in IPython, and update it if this is a notebook."""
    from IPython import get_ipython
    from IPython.display import display

    card = Card(query)

    def bundle(html: str) -> dict[str, str]:
        return {"text/plain": repr(query), "text/html": html}

    handle = display(bundle(card.html()), raw=True, display_id=True)
    if handle is not None and getattr(get_ipython(), "kernel", None) is not None:
        card.follow(lambda html: handle.update(bundle(html), raw=True))
