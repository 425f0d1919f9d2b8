"""The windows that stay closed, and those that open again, after a watermark was set back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_NAME = "reopened"


@dataclass(frozen=True, slots=True)
class Reopened:
    """The effect of a watermark that was set back, until the watermark is as far as it was.

    Attributes:
        judged: The watermark by which messages are late, at least: windows that had closed and that
            began before the new watermark stay closed.
        ended: The watermark by which windows have ended, at least.
        before: The watermark before it was set back.
        revision: The number that is added to the revisions of windows that had ended by then; it is
            greater than any revision that they had.
    """

    judged: int
    ended: int
    before: int
    revision: int

    @classmethod
    def read(cls, extra: Mapping[str, Any]) -> Reopened | None:
        """Read it from the further state of a shard; ``None`` if no watermark was set back."""
        stored = extra.get(_NAME)
        return None if stored is None else cls(**stored)

    def write(self, extra: dict[str, Any]) -> None:
        """Write it into the further state of a shard."""
        extra[_NAME] = asdict(self)


def drop_reopened(extra: dict[str, Any]) -> None:
    """Drop the effect from the further state of a shard."""
    extra.pop(_NAME, None)


def find_edges(
    watermark: int | None, grace: int, reopened: Reopened | None
) -> tuple[int, int] | None:
    """Return the positions by which windows have closed, and by which they have ended.

    Example:
        >>> find_edges(100, 10, None)
        (90, 100)
        >>> find_edges(100, 10, Reopened(judged=130, ended=125, before=500, revision=7))
        (120, 125)
    """
    if watermark is None:
        return None
    if reopened is None:
        return watermark - grace, watermark
    return max(watermark, reopened.judged) - grace, max(watermark, reopened.ended)


def judge(watermark: int | None, extra: Mapping[str, Any]) -> int | None:
    """Return the watermark by which messages are late.

    Example:
        >>> judge(100, {}), judge(None, {})
        (100, None)
    """
    reopened = Reopened.read(extra)
    return watermark if reopened is None or watermark is None else max(watermark, reopened.judged)
