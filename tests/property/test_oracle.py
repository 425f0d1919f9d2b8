"""Properties of the oracle for all kinds of windows: its last revisions are the exact results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.in_order import check_in_order
from tests.property.streams import (
    EVERYTHING,
    POSITIONS,
    Range,
    Stream,
    Twins,
    any_streams,
    twins_in_time,
)
from tests.runners import Batch, OracleRunner
from tests.transcripts.comparison import same_row

from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import DUPLICATES, PARTLY_LATE, WindowSpec
from muntin.testing.oracle import OracleStep
from muntin.testing.oracle.emitting import nulls_first

Bounds = tuple[int, int]
Key = tuple[Any, ...]
LastRows = dict[tuple[Key, Bounds], dict[str, Any]]
PositionedMessages = list[tuple[int, dict[str, Any]]]
KINDS = (*EVERYTHING.kinds, "longest", "cut")
EACH_KIND = [Range((kind,), POSITIONS, True, True, True) for kind in KINDS]


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_last_revisions_are_the_same_however_the_input_arrives(
    drawn_from: Range, data: st.DataObject
) -> None:
    twins: Twins = data.draw(twins_in_time(drawn_from))
    first, second = (get_last_rows(twins.spec, steps) for steps in (twins.first, twins.second))
    assert first.keys() == second.keys()
    assert [window for window in first if not same_row(first[window], second[window])] == []


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_last_revisions_are_the_windows_of_all_messages(
    drawn_from: Range, data: st.DataObject
) -> None:
    twins: Twins = data.draw(twins_in_time(drawn_from))
    last_rows = get_last_rows(twins.spec, twins.first)
    at_once = {
        (key, bounds): len(inside)
        for key, messages in group_by_key(twins.spec, twins.first).items()
        for bounds, inside in assign_windows(twins.spec, messages)
    }
    # Filled windows have no messages.
    assert {window: values["n"] for window, values in last_rows.items() if values["n"]} == at_once


@given(stream=any_streams(EVERYTHING))
def test_every_message_is_accounted_for(stream: Stream) -> None:
    for batch, step in zip(stream.steps, run_oracle(stream), strict=True):
        counts = {name: n for name, n in step.counts.items() if name != "overflow"}
        assert counts.pop("seen") == len(batch.messages)
        counted, duplicates = counts.pop("counted"), counts.pop(DUPLICATES)
        assert 0 <= counts.pop(PARTLY_LATE, 0) <= counted
        reasons = Counter(row["reason"] for row in step.rejected if row["reason"] != "overflow")
        assert +Counter(counts) == reasons
        assert counted + duplicates + reasons.total() == len(batch.messages)


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_windows_emit_in_order(drawn_from: Range, data: st.DataObject) -> None:
    stream: Stream = data.draw(any_streams(drawn_from))
    rows_by_window: dict[tuple[Key, Bounds], list[dict[str, Any]]] = defaultdict(list)
    for step in run_oracle(stream):
        # Retractions come first.
        order = [
            (
                row["emission"] != "retract",
                row["window_start"],
                nulls_first(get_key(stream.spec, row)),
            )
            for row in step.firings
        ]
        assert order == sorted(order)
        for row in step.firings:
            rows_by_window[get_key(stream.spec, row), get_bounds(row)].append(row)
    for rows in rows_by_window.values():
        check_in_order(rows, stream.spec.firing.repeat)


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_what_is_taken_back_has_no_values(drawn_from: Range, data: st.DataObject) -> None:
    stream: Stream = data.draw(any_streams(drawn_from))
    rows = [row for step in run_oracle(stream) for row in step.firings]
    for row in rows:
        if row["emission"] == "retract":
            assert {row[name] for name in stream.spec.aggregates} == {None}
            assert isinstance(stream.spec.windows, Sessions)
        else:
            windows = stream.spec.windows
            empty = stream.spec.firing.fill is not None or not stream.spec.firing.accumulate
            empty |= isinstance(windows, Sliding) and not windows.includes_last
            assert row["n"] > 0 or empty


@given(stream=any_streams(Range(EVERYTHING.kinds, ("time", "offset"), replays=True)))
def test_what_is_told_again_changes_nothing(stream: Stream) -> None:
    """Every step emits the same without the repeated messages."""
    seen_offsets: set[tuple[Any, ...]] = set()
    unique_steps = []
    for step in stream.steps:
        new_messages = [m for m in step.messages if is_new(stream.spec, m, seen_offsets)]
        unique_steps.append(Batch(new_messages, step.wall, step.final))
    for step, unique_step in zip(
        run_oracle(stream), run_oracle(Stream(stream.spec, unique_steps)), strict=True
    ):
        duplicates = step.counts.pop(DUPLICATES)
        step.counts["seen"] -= duplicates
        assert unique_step.counts.pop(DUPLICATES) == 0
        assert repr(step) == repr(unique_step)


def run_oracle(stream: Stream) -> list[OracleStep]:
    return OracleRunner().run(stream.spec, stream.steps)


def get_key(spec: WindowSpec, row: dict[str, Any]) -> Key:
    return tuple(row[name] for name in spec.keys)


def get_bounds(row: dict[str, Any]) -> Bounds:
    return row["window_start"], row["window_end"]


def get_last_rows(spec: WindowSpec, steps: list[Batch]) -> LastRows:
    """Return the values of each window's last revision, without the retracted windows."""
    rows = (row for step in OracleRunner().run(spec, steps) for row in step.firings)
    last = {(get_key(spec, row), get_bounds(row)): row for row in rows}
    return {
        window: {name: row[name] for name in spec.aggregates}
        for window, row in last.items()
        if row["emission"] != "retract"
    }


def is_new(spec: WindowSpec, message: dict[str, Any], seen_offsets: set[tuple[Any, ...]]) -> bool:
    """Return whether a message's offset is new, and record it."""
    if spec.offset is None:
        return True
    offset = tuple(message[column] for column in spec.offset)
    if None not in offset and offset in seen_offsets:
        return False
    seen_offsets.add(offset)
    return True


def group_by_key(spec: WindowSpec, steps: list[Batch]) -> dict[Key, PositionedMessages]:
    """Return the valid messages of each key, with their positions."""
    seen_offsets: set[tuple[Any, ...]] = set()
    messages_by_key: dict[Key, PositionedMessages] = defaultdict(list)
    for message in (m for step in steps for m in step.messages if is_new(spec, m, seen_offsets)):
        key = get_key(spec, message)
        required = [message[column] for column in (*spec.non_null_keys, *(spec.offset or ()))]
        time = message[spec.time] if spec.time else 0
        if None in required or not isinstance(time, int):
            continue
        position = time if spec.axis == "time" else len(messages_by_key[key])
        if spec.axis == "rows" and spec.offset is not None:
            position = message[spec.offset[1]]
        messages_by_key[key].append((position, message))
    return messages_by_key


def assign_windows(
    spec: WindowSpec, messages: PositionedMessages
) -> Iterator[tuple[Bounds, list[int]]]:
    """Yield all windows of one key with their emitted bounds, and the positions in each."""
    windows = spec.windows
    positions = sorted(position for position, _ in messages)
    if isinstance(windows, Sessions) and windows.conditions:
        yield from split_by_conditions(windows, messages)
        return
    if isinstance(windows, Sessions):
        yield from split_into_sessions(windows, positions)
        return
    seen = set()
    for start, end in list_bounds(windows, positions):
        inside = [position for position in positions if start <= position < end]
        moves_in_time = isinstance(windows, Sliding) and windows.axis == "time"
        shown_end = end - 1 if moves_in_time else end
        first = start
        if isinstance(windows, Sliding) and windows.rolls:
            first = shown_end - windows.size if moves_in_time else start
            # A window that excludes its own message may have no messages.
            inside = inside if windows.includes_last else [p for p in inside if p < end - 1]
        if inside and (start, end) not in seen:
            seen.add((start, end))
            yield (first, shown_end), inside


def list_bounds(windows: Kind, positions: list[int]) -> Iterator[Bounds]:
    for position in positions:
        if isinstance(windows, Sliding):
            if windows.rolls:
                low = position - windows.span
                yield low if windows.axis == "time" else max(0, low), position + 1
            elif windows.axis == "rows":
                yield max(0, position - windows.size + 1), position + 1
            else:
                yield position - windows.size, position + 1
                yield position + 1, position + windows.size + 2
        else:
            assert not isinstance(windows, Sessions)
            pane = windows.pane_of(position)
            for number in range(windows.first_window(pane), windows.last_window(pane) + 1):
                yield windows.start(number), windows.end(number)


def split_into_sessions(
    windows: Sessions, positions: list[int]
) -> Iterator[tuple[Bounds, list[int]]]:
    session: list[int] = []
    for position in positions:
        lengths = [(position - session[-1], windows.gap)] if session else []
        if session and windows.longest is not None:
            lengths.append((position - session[0], windows.longest))
        if any(
            length > most or (length == most and windows.closed == "left")
            for length, most in lengths
        ):
            yield get_session_bounds(windows, session), session
            session = []
        session.append(position)
    if session:
        yield get_session_bounds(windows, session), session


def get_session_bounds(windows: Sessions, session: list[int]) -> Bounds:
    end = session[-1] + windows.gap
    return session[0], end if windows.longest is None else min(end, session[0] + windows.longest)


def split_by_conditions(
    windows: Sessions, messages: PositionedMessages
) -> Iterator[tuple[Bounds, list[int]]]:
    """Yield the sessions of one key that conditions split, from all of its messages at once."""
    by_position: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for position, message in messages:
        by_position[position].append(message)
    positions = sorted(by_position)
    # Whether a message at each position begins or ends a session, and the values there.
    begins, ends = (
        [name is not None and any(m[name] for m in by_position[p]) for p in positions]
        for name in (windows.start, windows.end)
    )
    values = [
        {m[windows.same] for m in by_position[p]} if windows.same is not None else {0}
        for p in positions
    ]
    first = 0
    while first < len(positions):
        if windows.start is not None and not begins[first]:
            first += 1
            continue
        last = first
        while not ends[last] and last + 1 < len(positions):
            pair = [positions[last], positions[last + 1]]
            if len([*split_into_sessions(replace(windows, longest=None), pair)]) == 2:
                break
            if windows.longest is not None:
                limit = windows.longest + (windows.closed == "both")
                if positions[last + 1] - positions[first] >= limit:
                    break
            if len(values[last] | values[last + 1]) > 1:
                break
            if windows.end is None and begins[last + 1]:
                break
            last += 1
        _, end = get_session_bounds(windows, positions[first : last + 1])
        if ends[last]:
            end = positions[last]
        elif last + 1 < len(positions):
            end = min(end, positions[last + 1])
        inside = [p for p in positions[first : last + 1] for _ in by_position[p]]
        yield (positions[first], end), inside
        first = last + 1
