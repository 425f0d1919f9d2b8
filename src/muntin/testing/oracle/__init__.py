"""The slow oracle: what every window says, computed the obvious way from all of its messages.

It keeps each window's messages in a list and walks over every open window at every step, so
that it can be read beside the window model line by line. The fast operators are tested against
it; it shares nothing with them but the spec, and needs nothing but the standard library.

``stepping`` is what one step does, in order. ``marks`` says what a message's position is and up to
where the input is believed complete; ``placing`` which windows take it (``sessions`` for windows
that merge); ``emitting`` which windows emit, and
when; ``values`` their results.

Example:
    >>> from muntin.model import aggregates, windows
    >>> from muntin.model.spec import WindowSpec
    >>> spec = WindowSpec(
    ...     keys=("k",),
    ...     time="t",
    ...     windows=windows.tumbling("10 us"),
    ...     aggregates={"most": aggregates.max("v")},
    ... )
    >>> oracle = Oracle(spec)
    >>> oracle.step([{"k": "a", "t": 3, "v": 7}], wall=0).firings
    []
    >>> oracle.step([{"k": "a", "t": 12, "v": 1}], wall=1).firings[0]["most"]
    7
"""

from __future__ import annotations

from muntin.testing.oracle.stepping import Oracle, OracleStep

__all__ = ["Oracle", "OracleStep"]
