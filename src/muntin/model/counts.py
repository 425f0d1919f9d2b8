"""What figures count: messages by what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muntin.model.spec import DUPLICATES, PARTLY_LATE

# What is no reason of rejection; an agent takes what a window counts.
FATES = frozenset({"seen", "counted", "taken", "filtered", DUPLICATES, PARTLY_LATE})
# What is said of messages that were counted elsewhere among these.
_ASIDE = frozenset({"seen", PARTLY_LATE})


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts added up by name.

    Example:
        >>> summed([{"seen": 3, "late": 1}, {"seen": 2}])
        {'seen': 5, 'late': 1}
    """
    total: dict[str, int] = {}
    for one in counts:
        for name, n in one.items():
            total[name] = total.get(name, 0) + n
    return total


def accounted(counts: Mapping[str, int]) -> int:
    """How many messages it is known of what became of them.

    Example:
        >>> accounted({"seen": 9, "counted": 5, "partly_late": 2, "late": 3, "filtered": 1})
        9
    """
    return sum(n for name, n in counts.items() if name not in _ASIDE)


def rejections(counts: Mapping[str, int]) -> dict[str, int]:
    """How many messages were rejected, by reason.

    Example:
        >>> rejections({"seen": 1_205, "counted": 5, "late": 1_200, "future": 0})
        {'late': 1200, 'future': 0}
    """
    return {name: n for name, n in counts.items() if name not in FATES}


def rejections_in_words(counts: Mapping[str, int]) -> str:
    """The same in words; empty where none was rejected.

    Example:
        >>> rejections_in_words({"seen": 1_205, "counted": 5, "late": 1_200, "future": 0})
        '1,200 late'
    """
    return ", ".join(f"{n:,} {reason}" for reason, n in rejections(counts).items() if n)
