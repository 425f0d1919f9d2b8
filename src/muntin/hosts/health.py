"""Notices that a query doesn't do what it should, says why, and warns of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from muntin.engine.arrival import AHEAD_EXAMPLE, SKEW
from muntin.engine.clocks import read_elapsed_time
from muntin.model.axis import MAX_POSITION, SECOND
from muntin.model.counts import select_rejections
from muntin.model.patience import list_waits

if TYPE_CHECKING:
    from muntin.hosts.progress import Progress

# The reasons for which a query is degraded.
DEGRADATIONS = ("watermark_ahead", "server_away", "sink_silent")
_LOG = logging.getLogger(__name__)
# By how much the machine's clock may be off without a warning, microseconds.
_TOLERANCE = 10 * SECOND


class ClockWatch:
    """Notices that the clock of this machine was set while a query ran, or before it started.

    Args:
        elapsed: Reads the elapsed time, microseconds.
    """

    def __init__(self, elapsed: Callable[[], int] = read_elapsed_time) -> None:
        self._elapsed = elapsed
        # The clock less the elapsed time, which only setting the clock changes.
        self._offset: int | None = None
        self._is_behind = False
        # By how much the clock was set since the query started.
        self._drift = 0

    @property
    def is_set_back(self) -> bool:
        """True if the clock is behind the one that the query began with."""
        return self._is_behind or self._drift < -_TOLERANCE

    def note_batch(self, now: int, wall: int | None) -> None:
        """Warn if the clock was set since the last batch, or is behind the time of this one.

        Args:
            now: The clock, microseconds.
            wall: The time by which policies on the clock emit in this batch, which never goes back;
                ``None`` where there are none.
        """
        last, self._offset = self._offset, now - self._elapsed()
        jump = 0 if last is None else self._offset - last
        self._drift += jump
        behind = 0 if wall is None else wall - now
        was_behind, self._is_behind = self._is_behind, behind > _TOLERANCE
        if self._is_behind:
            if not was_behind:
                _LOG.warning(
                    "this machine's clock is %.0f s behind the last batch. What waits for the "
                    "clock goes on from that batch's time; set the clock right",
                    behind / SECOND,
                )
        elif abs(jump) > _TOLERANCE:
            _LOG.warning(
                "this machine's clock was set %s by %.0f s while the query ran. max_ahead= and "
                "what waits for the clock follow it; set it right if it is wrong",
                "forward" if jump > 0 else "back", abs(jump) / SECOND,
            )  # fmt: skip


def describe_degradation(progress: Progress) -> dict[str, str]:
    """Return why a query is degraded now: a sentence for each of the reasons that hold.

    Args:
        progress: The figures of a query, with those of upstream operators.

    Example:
        >>> from muntin.hosts.progress import Progress
        >>> describe_degradation(Progress(3, 8_000_000))
        {}
    """
    reasons = {}
    if ahead := micros_ahead(progress, time.time_ns() // 1000):
        reasons["watermark_ahead"] = (
            f"the watermark is {ahead / SECOND:.0f} s ahead of this machine's clock, so that "
            "messages with the right time are late"
        )
    return reasons | describe_waits()


def describe_waits() -> dict[str, str]:
    """Return what this process waits for now: a sentence for each reason to be degraded."""
    by_reason: dict[str, list[str]] = {}
    for name, wait in list_waits().items():
        reason = "sink_silent" if wait.is_silent else "server_away"
        by_reason.setdefault(reason, []).append(f"{name} ({wait})")
    return {reason: f"waiting for {', '.join(named)}" for reason, named in by_reason.items()}


def micros_ahead(progress: Progress, now: int) -> int:
    """Return by how much a watermark is ahead of the clock, or 0 within the tolerance of clocks.

    Args:
        progress: The figures of a query, with those of upstream operators.
        now: The clock, microseconds.

    Example:
        >>> from muntin.hosts.progress import Progress
        >>> micros_ahead(Progress(3, 8_000_000), 1_000_000)
        7000000
        >>> micros_ahead(Progress(3, 2_000_000), 1_000_000)
        0
    """
    every = [
        progress.watermark_micros,
        *(one.watermark_micros for one in progress.upstreams.values()),
    ]
    # The end of the input isn't a time.
    ahead = max((at - now for at in every if at is not None and at < MAX_POSITION), default=0)
    return ahead if ahead > SKEW else 0


def warn_of_time_ahead(progress: Progress, now: int) -> bool:
    """Warn if a watermark is ahead of the clock, and return whether it is."""
    ahead = micros_ahead(progress, now)
    if ahead:
        examples = (
            one.examples.get(AHEAD_EXAMPLE) for one in (progress, *progress.upstreams.values())
        )
        message = next(filter(None, examples), "")
        _LOG.warning(
            "batch %d: the watermark is %.0f s ahead of this machine's clock%s, so that messages "
            "with the right time are late. Fix the producer's clock, stop the query, and set its "
            "watermark back with muntin reset-watermark. max_ahead= bounds how far ahead a message "
            "may be",
            progress.batch, ahead / SECOND, f" (moved by {message})" if message else "",
        )  # fmt: skip
    return ahead > 0


def warn_of_rejected(progress: Progress, warned: Collection[str]) -> frozenset[str]:
    """Warn once of each reason for which messages are rejected, where no sink keeps them.

    Args:
        progress: The figures of a query, with those of upstream operators.
        warned: The reasons of earlier warnings.

    Returns:
        The reasons of new warnings.
    """
    new: set[str] = set()
    for one in (progress, *progress.upstreams.values()):
        for reason, number in select_rejections(one.counts).items():
            if number and reason not in {*warned, *new}:
                new.add(reason)
                example = one.examples.get(reason)
                _LOG.warning(
                    "batch %d: messages were rejected as %s (%d so far%s), and no sink keeps them. "
                    "Give rejected=… to start(), and each comes with its columns and its reason",
                    progress.batch, reason, number, f"; one has {example}" if example else "",
                )  # fmt: skip
    return frozenset(new)
