"""What must hold of the firings of any window."""

from __future__ import annotations

from typing import Any


def check_in_order(rows: list[dict[str, Any]]) -> None:
    """All that one window ever said: revisions without a gap, and each emission in its time."""
    assert [row["revision"] for row in rows] == list(range(len(rows)))
    emissions = [row["emission"] for row in rows]
    assert emissions == sorted(emissions, key=("early", "full", "late", "retract").index)
    assert emissions.count("full") <= 1
    assert emissions.count("retract") <= 1
    assert emissions[0] != "retract"
    assert {"full", "retract"} & set(emissions) or set(emissions) == {"late"}
