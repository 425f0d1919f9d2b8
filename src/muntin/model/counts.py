"""Counts of messages: seen, counted, filtered, and rejected by reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muntin.model.spec import DUPLICATES, PARTLY_LATE, UNDECIDED

# Names of counts that are no reason for rejection; agents count "taken", windows "counted".
FATES = frozenset({"seen", "counted", "taken", "filtered", UNDECIDED, DUPLICATES, PARTLY_LATE})
# Counts of messages that another count includes as well.
_COUNTED_TWICE = frozenset({"seen", PARTLY_LATE})


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up counts by name.

    Example:
        >>> add_counts([{"seen": 3, "late": 1}, {"seen": 2}])
        {'seen': 5, 'late': 1}
    """
    total: dict[str, int] = {}
    for part in counts:
        for name, n in part.items():
            total[name] = total.get(name, 0) + n
    return total


def count_outcomes(counts: Mapping[str, int]) -> int:
    """Return the number of messages whose outcome is counted.

    Example:
        >>> count_outcomes({"seen": 9, "counted": 5, "partly_late": 2, "late": 3, "filtered": 1})
        9
    """
    return sum(n for name, n in counts.items() if name not in _COUNTED_TWICE)


def select_rejections(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of rejected messages by reason.

    Example:
        >>> select_rejections({"seen": 1_205, "counted": 5, "late": 1_200, "future": 0})
        {'late': 1200, 'future': 0}
    """
    return {name: n for name, n in counts.items() if name not in FATES}


def format_rejections(counts: Mapping[str, int]) -> str:
    """Format the numbers of rejected messages by reason; empty if none was rejected.

    Example:
        >>> format_rejections({"seen": 1_205, "counted": 5, "late": 1_200, "future": 0})
        '1,200 late'
    """
    return ", ".join(f"{n:,} {reason}" for reason, n in select_rejections(counts).items() if n)
