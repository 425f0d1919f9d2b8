"""What must hold of the firings of any window."""

from __future__ import annotations

from typing import Any


def check_in_order(rows: list[dict[str, Any]], repeat: bool) -> None:
    """All that one window ever said: revisions without a gap, and each emission in its time.

    Args:
        rows: The window's firings.
        repeat: Whether it emits in full when nothing is new.
    """
    assert [row["revision"] for row in rows] == list(range(len(rows)))
    emissions = [row["emission"] for row in rows]
    while "retract" in emissions[:-1]:
        # A session that is cut may exist again after it was retracted.
        count = emissions.index("retract") + 1
        _check_life(emissions[:count], repeat)
        emissions = emissions[count:]
    _check_life(emissions, repeat)


def _check_life(emissions: list[str], repeat: bool) -> None:
    assert emissions == sorted(emissions, key=("early", "full", "late", "retract").index)
    assert emissions.count("full") <= 1
    assert emissions.count("retract") <= 1
    assert emissions[0] != "retract"
    last = {"full", "retract"} & set(emissions) or set(emissions) == {"late"}
    assert last or (emissions[0] == "early" and not repeat)
