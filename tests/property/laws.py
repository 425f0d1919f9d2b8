"""Laws that hold between two runs of one query, over messages of which none is late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.property.agreement import WindowId, last_revisions, revision_differences
from tests.property.streams import Stream, Twins
from tests.runners import Batch, EngineRunner

from muntin.model.cumulating import Cumulating
from muntin.model.days import Days, Hours
from muntin.model.kinds import Kind
from muntin.model.policies import Each, EveryRows
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

RUNNER = EngineRunner()
Revisions = dict[WindowId, dict[str, Any]]


def check_split_by_key(twins: Twins) -> list[str]:
    """Compare the union of two queries, each over half of the keys, with one query over all."""
    # How far empty windows are filled depends on the watermark of all keys.
    spec = replace(twins.spec, firing=replace(twins.spec.firing, fill=None))
    whole = last_revisions(RUNNER, spec, twins.first)
    if not spec.key_columns or spec.key_columns[-1] not in ("key", "second"):
        return []
    name, united = spec.key_columns[-1], Revisions()
    values = {message[name] for step in twins.first for message in step.messages}
    halves = [{value for value in values if hash(repr(value)) % 2 == half} for half in (0, 1)]
    for half in halves:
        steps_of_half = _filter_messages(
            twins.first, lambda message, half=half: message[name] in half
        )
        united |= last_revisions(RUNNER, spec, steps_of_half)
    return revision_differences(united, whole)


def check_irrelevant_keys(twins: Twins) -> list[str]:
    """Check that messages of another key don't change the results of the other keys."""
    spec = twins.spec
    others = {"long": 77, "string": "another"}
    if "key" not in spec.keys or spec.offset is not None or spec.types["key"] not in others:
        return []
    another = others[spec.types["key"]]
    steps = [
        replace(
            step,
            messages=[
                m for message in step.messages for m in (message, {**message, "key": another})
            ],
        )
        for step in twins.first
    ]
    key_index = spec.keys.index("key")
    mixed = last_revisions(RUNNER, spec, steps)
    own = {window: row for window, row in mixed.items() if window[1][key_index][1] != another}
    return revision_differences(own, last_revisions(RUNNER, spec, twins.first))


def check_policies(twins: Twins) -> list[str]:
    """Check that trigger policies don't change the last revision of a window."""
    spec, texts = twins.spec, []
    expected = last_revisions(RUNNER, spec, twins.first)
    for early in (None, Each(), EveryRows(3)):
        for late in (Each(), EveryRows(99)):
            firing = replace(spec.firing, early=early, late=late, repeat=True)
            revisions = last_revisions(RUNNER, replace(spec, firing=firing), twins.first)
            texts += revision_differences(revisions, expected)
    return texts


def check_shift(twins: Twins) -> list[str]:
    """Check that messages which are whole periods later give windows that are as much later."""
    spec = twins.spec
    period = _get_period(spec.windows)
    if spec.time is None or spec.axis != "time" or period is None:
        return []
    shift = 7 * period
    steps = _change_times(twins.first, spec, lambda time: time + shift)
    expected = last_revisions(RUNNER, spec, twins.first)
    shifted = {
        (start + shift, key, end + shift): row for (start, key, end), row in expected.items()
    }
    return revision_differences(last_revisions(RUNNER, spec, steps), shifted)


def check_scale(twins: Twins) -> list[str]:
    """Check that tripled times and lengths give windows of three times the length."""
    spec, kind = twins.spec, _scale_windows(twins.spec.windows)
    if spec.time is None or spec.axis != "time" or kind is None:
        return []
    firing = replace(spec.firing, early=None, late=Each(), repeat=True, fill=None)
    plain = replace(spec, firing=firing)
    firing = replace(firing, grace=3 * firing.grace, retention=3 * firing.retention)
    large = replace(spec, windows=kind, firing=firing, lateness=3 * spec.lateness)
    steps = _change_times(twins.first, spec, lambda time: 3 * time)
    expected = last_revisions(RUNNER, plain, twins.first)
    scaled = {(3 * start, key, 3 * end): row for (start, key, end), row in expected.items()}
    return revision_differences(last_revisions(RUNNER, large, steps), scaled)


def check_parts(twins: Twins) -> list[str]:
    """Check that a window has as many messages as its panes together."""
    spec = twins.spec
    windows = spec.windows
    if not isinstance(windows, Windows) or windows.axis != "time" or windows.size % windows.slide:
        return []
    firing = replace(spec.firing, fill=None)
    counts = {"n": spec.aggregates["n"]}
    whole = replace(spec, aggregates=counts, firing=firing)
    panes = replace(whole, windows=replace(windows, size=windows.slide))
    counts_by_pane = {
        at: row["n"] for at, row in last_revisions(RUNNER, panes, twins.first).items()
    }
    texts = []
    for (start, key, end), row in last_revisions(RUNNER, whole, twins.first).items():
        window_panes = ((at, key, at + windows.slide) for at in range(start, end, windows.slide))
        inside = sum(counts_by_pane.get(pane, 0) for pane in window_panes)
        if inside != row["n"]:
            texts.append(f"{key} {start} to {end} has {row['n']} messages, its panes {inside}")
    return texts


def check_grace(stream: Stream) -> list[str]:
    """Check that no window has fewer messages with more grace."""
    spec = stream.spec
    if spec.axis != "time" or isinstance(spec.windows, Sessions) or not spec.firing.accumulate:
        return []
    longer = 2 * spec.firing.grace + 3 * (_get_period(spec.windows) or 1)
    firing = replace(spec.firing, grace=longer, retention=longer + spec.firing.retention, rows=None)
    short = replace(spec, firing=replace(spec.firing, rows=None))
    less = last_revisions(RUNNER, short, stream.steps)
    more = last_revisions(RUNNER, replace(spec, firing=firing), stream.steps)
    return [
        f"{at} has {more.get(at, {}).get('n')} messages with more grace, {row['n']} with less"
        for at, row in less.items()
        if more.get(at, {"n": -1})["n"] < row["n"]
    ]


def count_by_window(rows: Sequence[dict[str, Any]]) -> dict[WindowId, int]:
    """Return the number of messages in the last revision of each window."""
    counts: dict[WindowId, int] = defaultdict(int)
    for row in rows:
        counts[row["window_start"], repr(row.get("key")), row["window_end"]] = row["n"]
    return counts


ON_TWINS: dict[str, Callable[[Twins], list[str]]] = {
    "split by key": check_split_by_key,
    "irrelevant keys": check_irrelevant_keys,
    "policies": check_policies,
    "shift": check_shift,
    "scale": check_scale,
    "parts": check_parts,
}


def _filter_messages(steps: Sequence[Batch], keep: Callable[[dict[str, Any]], bool]) -> list[Batch]:
    return [replace(step, messages=[m for m in step.messages if keep(m)]) for step in steps]


def _change_times(
    steps: Sequence[Batch], spec: WindowSpec, move: Callable[[int], int]
) -> list[Batch]:
    name = str(spec.time)

    def move_message(message: dict[str, Any]) -> dict[str, Any]:
        time = message[name]
        return {**message, name: move(time)} if isinstance(time, int) else message

    return [
        replace(step, messages=[move_message(m) for m in step.messages], wall=move(step.wall))
        for step in steps
    ]


def _get_period(windows: Kind) -> int | None:
    """Return a shift of times that leaves windows at the same places relative to messages."""
    match windows:
        case Windows():
            return windows.slide
        case Cumulating():
            return windows.size
        case Days() | Hours():
            return None
    return 1_000_003


def _scale_windows(windows: Kind) -> Kind | None:
    match windows:
        case Windows(size, slide, origin):
            return replace(windows, size=3 * size, slide=3 * slide, origin=3 * origin)
        case Cumulating(size, step, origin):
            return replace(windows, size=3 * size, step=3 * step, origin=3 * origin)
        case Sessions(gap, longest=longest) if windows.by is None:
            most = None if longest is None else 3 * longest
            return replace(windows, gap=3 * gap, longest=most)
    return None
