"""Checks the order of a window's firings."""

from __future__ import annotations

from typing import Any


def check_in_order(rows: list[dict[str, Any]], repeat: bool) -> None:
    """Check that a window's revisions have no gap, and that its emissions are in a valid order.

    Args:
        rows: The window's firings.
        repeat: Whether it emits in full when nothing is new.
    """
    assert [row["revision"] for row in rows] == list(range(len(rows)))
    emissions = [row["emission"] for row in rows]
    while "retract" in emissions[:-1]:
        # A session that a message splits may exist again after it was retracted.
        length = emissions.index("retract") + 1
        _check_emissions(emissions[:length], repeat)
        emissions = emissions[length:]
    _check_emissions(emissions, repeat)


def _check_emissions(emissions: list[str], repeat: bool) -> None:
    assert emissions == sorted(emissions, key=("early", "full", "late", "retract").index)
    assert emissions.count("full") <= 1
    assert emissions.count("retract") <= 1
    assert emissions[0] != "retract"
    is_complete = {"full", "retract"} & set(emissions) or set(emissions) == {"late"}
    assert is_complete or (emissions[0] == "early" and not repeat)
