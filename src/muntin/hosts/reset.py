"""Plans to set back the watermark of a stopped query, whichever host it ran on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from muntin.engine.reset import (
    ClockChange,
    check_resettable,
    count_open_again,
    emits_deltas,
    find_revision,
    find_whole_start,
    list_changes,
    reset_manifest,
)
from muntin.hosts.inspect.snapshot import StateSnapshot
from muntin.model.axis import to_datetime
from muntin.model.errors import OptionError
from muntin.state.manifest import Manifest


@dataclass(frozen=True)
class WatermarkReset:
    """The changes that a reset of a query's watermark makes.

    Attributes:
        batch: The last batch of the query.
        changes: The watermarks and the clocks that are set back, by the number of the operator,
            counted from the last one.
        open_again: The number of windows that had ended and still have their messages, and that
            emit in full again.
        whole_from: By operator, the start of the first window that has all messages which come from
            now on; in a join, the time from which messages find all their partners.
        late: The number of messages that were late so far; they stay rejected.
    """

    batch: int
    to: datetime
    changes: Mapping[int, tuple[ClockChange, ...]]
    open_again: int
    whole_from: Mapping[int, datetime]
    joins: frozenset[int]
    late: int

    def lines(self) -> Iterator[str]:
        r"""Yield the changes in sentences.

        Example:
            >>> day = datetime(2026, 1, 1)
            >>> back = ClockChange("watermark", 1767312000000000, 1767225600000000)
            >>> made = WatermarkReset(3, day, {0: (back,)}, 0, {0: day}, frozenset(), 7)
            >>> print(*made.lines(), sep="\n")
            watermark: 2026-01-02 00:00:00+00:00 becomes 2026-01-01 00:00:00+00:00
            windows from 2026-01-01 00:00:00 on are whole; earlier ones that had closed stay closed
            0 windows that had ended still have messages, and emit in full again
            7 messages were late so far and stay rejected; send them again to have them counted
        """
        for operator, changes in self.changes.items():
            of = f"operator {operator}: " if len(self.changes) > 1 else ""
            for name, before, after in changes:
                yield f"{of}{name}: {to_datetime(before)} becomes {to_datetime(after)}"
            start = self.whole_from[operator]
            if operator in self.joins:
                yield f"{of}messages from {start} on find their partners; earlier ones may be gone"
            else:
                more = "are whole; earlier ones that had closed stay closed"
                yield f"{of}windows from {start} on {more}"
        again = f"{self.open_again:,} windows that had ended still have messages"
        yield f"{again}, and emit in full again"
        late = f"{self.late:,} messages were late so far and stay rejected"
        yield f"{late}; send them again to have them counted"


@dataclass(frozen=True)
class ResetPlan:
    """A reset, and the manifests that it writes.

    Attributes:
        manifests: The new manifests of each operator, in the order of its shards.
    """

    reset: WatermarkReset
    manifests: Sequence[Sequence[Manifest]]


def plan_reset(folder: str, chain: Sequence[StateSnapshot], to: int) -> ResetPlan:
    """Plan to set back the watermark of a query to a time in microseconds.

    ``chain`` has the state of each operator, the last one first. A time after every watermark is
    refused.
    """
    batch, shown = chain[0].batch, str(to_datetime(to))
    manifests, changes = [], {}
    open_again = late = 0
    for operator, opened in enumerate(chain):
        slots = opened.number_shards(len(opened.manifest_by_shard))
        shards = [opened.manifest_by_shard[slot] for slot in slots]
        check_resettable(shards[0], folder)
        changes[operator] = tuple(list_changes(shards[0], to))
        revision = find_revision(shards, batch)
        manifests.append([reset_manifest(one, to, revision) for one in shards])
        again = sum(_count(opened, slot, to) for slot in slots)
        if again and (operator or emits_deltas(shards[0])):
            problem = f"opens {again:,} windows again, whose results were added up"
            hint = "give a later time, or read the sources again with a new checkpoint"
            raise OptionError("to", shown, problem, hint)
        open_again += again
        late += opened.counts.get("late", 0)
    if not any(changes.values()):
        marks = [str(to_datetime(one.watermark)) for one in chain if one.watermark is not None]
        problem = f"isn't before a watermark of the query ({', '.join(marks) or 'it has none'})"
        raise OptionError("to", shown, problem, "give the time to which honest producers have come")
    whole_from, joins = _find_whole(chain, to)
    reset = WatermarkReset(batch, to_datetime(to), changes, open_again, whole_from, joins, late)
    return ResetPlan(reset, manifests)


def _find_whole(
    chain: Sequence[StateSnapshot], to: int
) -> tuple[dict[int, datetime], frozenset[int]]:
    """Return from where the windows of each operator are whole, and which operators are joins."""
    whole_from, joins = {}, set()
    # The results of an operator are the input of those with smaller numbers.
    for operator, opened in reversed([*enumerate(chain)]):
        whole = find_whole_start(opened.any_manifest, to)
        whole_from[operator], to = to_datetime(whole.start), whole.next
        joins.update([operator] if whole.joins else [])
    return whole_from, frozenset(joins)


def _count(opened: StateSnapshot, slot: int, to: int) -> int:
    def read(numbers: Sequence[int]) -> list[bytes]:
        return [*opened.read_blobs({slot: numbers})[slot].values()]

    return count_open_again(opened.manifest_by_shard[slot], to, read)


def refuse_begun(folder: str, batch: int) -> None:
    """Refuse a query of which a batch began and didn't end.

    Its sinks may have rows of that batch, which is repeated as it was.
    """
    hint = "start the query, stop it, and try again"
    raise OptionError("CHECKPOINT", folder, f"has begun batch {batch}, and not ended it", hint)


def set_back_figures(progress: Mapping[str, Any], to: int) -> dict[str, Any]:
    """Return the figures of a query, as ``Progress.to_dict`` does, with its clocks set back."""
    figures: dict[str, Any] = {
        name: set_back_figures(value, to) if _is_progress(value) else value
        for name, value in progress.items()
    }
    if figures.get("watermark_micros") is not None:
        figures["watermark_micros"] = min(figures["watermark_micros"], to)
    if "clocks" in figures:
        figures["clocks"] = {name: min(time, to) for name, time in figures["clocks"].items()}
    return figures


def _is_progress(value: object) -> bool:
    return isinstance(value, dict) and "watermark_micros" in value
