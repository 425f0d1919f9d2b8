"""The slow oracle, which computes every window in the obvious way from all of its messages.

It keeps each window's messages in a list and visits every open window at every step, so that it can
be compared with the window model line by line. The fast operators are tested against it. It shares
only the spec with them, and needs only the standard library.

- ``stepping`` runs one step.
- ``marks`` has the positions of messages and the watermarks.
- ``placing`` assigns messages to windows, and ``sessions`` to windows that merge.
- ``emitting`` decides which windows emit, and when.
- ``values`` computes their results.

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
