"""What must hold of the oracle for all kinds of windows; what it says at last is what they are."""

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
Said = dict[tuple[Key, Bounds], dict[str, Any]]
Placed = list[tuple[int, dict[str, Any]]]
KINDS = (*EVERYTHING.kinds, "longest", "cut")
EACH_KIND = [Range((kind,), POSITIONS, True, True, True) for kind in KINDS]


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_last_revisions_are_the_same_however_the_input_arrives(
    drawn_from: Range, data: st.DataObject
) -> None:
    twins: Twins = data.draw(twins_in_time(drawn_from))
    one, other = (last_said(twins.spec, steps) for steps in (twins.one, twins.other))
    assert one.keys() == other.keys()
    assert [at for at in one if not same_row(one[at], other[at])] == []


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_last_revisions_are_the_windows_of_all_messages(
    drawn_from: Range, data: st.DataObject
) -> None:
    twins: Twins = data.draw(twins_in_time(drawn_from))
    said = last_said(twins.spec, twins.one)
    at_once = {
        (key, bounds): len(inside)
        for key, placed in by_key(twins.spec, twins.one).items()
        for bounds, inside in at_their_windows(twins.spec, placed)
    }
    # What is filled has no message.
    assert {at: values["n"] for at, values in said.items() if values["n"]} == at_once


@given(stream=any_streams(EVERYTHING))
def test_every_message_is_accounted_for(stream: Stream) -> None:
    for batch, step in zip(stream.steps, steps_of(stream), strict=True):
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
    heard: dict[tuple[Key, Bounds], list[dict[str, Any]]] = defaultdict(list)
    for step in steps_of(stream):
        # What is taken back goes first.
        places = [
            (
                row["emission"] != "retract",
                row["window_start"],
                nulls_first(key_of(stream.spec, row)),
            )
            for row in step.firings
        ]
        assert places == sorted(places)
        for row in step.firings:
            heard[key_of(stream.spec, row), bounds_of(row)].append(row)
    for rows in heard.values():
        check_in_order(rows, stream.spec.firing.repeat)


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_what_is_taken_back_has_no_values(drawn_from: Range, data: st.DataObject) -> None:
    stream: Stream = data.draw(any_streams(drawn_from))
    rows = [row for step in steps_of(stream) for row in step.firings]
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
    """Without what is emitted again every step says the same."""
    known: set[tuple[Any, ...]] = set()
    once = []
    for step in stream.steps:
        kept = [m for m in step.messages if is_new(stream.spec, m, known)]
        once.append(Batch(kept, step.wall, step.final))
    for step, alone in zip(steps_of(stream), steps_of(Stream(stream.spec, once)), strict=True):
        repeated = step.counts.pop(DUPLICATES)
        step.counts["seen"] -= repeated
        assert alone.counts.pop(DUPLICATES) == 0
        assert repr(step) == repr(alone)


def steps_of(stream: Stream) -> list[OracleStep]:
    return OracleRunner().run(stream.spec, stream.steps)


def key_of(spec: WindowSpec, row: dict[str, Any]) -> Key:
    return tuple(row[name] for name in spec.keys)


def bounds_of(row: dict[str, Any]) -> Bounds:
    return row["window_start"], row["window_end"]


def last_said(spec: WindowSpec, steps: list[Batch]) -> Said:
    """The values of each window's last revision, without the windows that were taken back."""
    rows = (row for step in OracleRunner().run(spec, steps) for row in step.firings)
    last = {(key_of(spec, row), bounds_of(row)): row for row in rows}
    return {
        at: {name: row[name] for name in spec.aggregates}
        for at, row in last.items()
        if row["emission"] != "retract"
    }


def is_new(spec: WindowSpec, message: dict[str, Any], known: set[tuple[Any, ...]]) -> bool:
    """Whether an offset wasn't known; it is from now on."""
    if spec.offset is None:
        return True
    place = tuple(message[column] for column in spec.offset)
    if None not in place and place in known:
        return False
    known.add(place)
    return True


def by_key(spec: WindowSpec, steps: list[Batch]) -> dict[Key, Placed]:
    """The positions and messages of each key, of all that nothing is wrong with."""
    known: set[tuple[Any, ...]] = set()
    placed: dict[Key, Placed] = defaultdict(list)
    for message in (m for step in steps for m in step.messages if is_new(spec, m, known)):
        key = key_of(spec, message)
        needed = [message[column] for column in (*spec.non_null_keys, *(spec.offset or ()))]
        time = message[spec.time] if spec.time else 0
        if None in needed or not isinstance(time, int):
            continue
        position = time if spec.axis == "time" else len(placed[key])
        if spec.axis == "rows" and spec.offset is not None:
            position = message[spec.offset[1]]
        placed[key].append((position, message))
    return placed


def at_their_windows(spec: WindowSpec, placed: Placed) -> Iterator[tuple[Bounds, list[int]]]:
    """All windows of one key, as they are emitted, and the positions in each."""
    windows = spec.windows
    positions = sorted(position for position, _ in placed)
    if isinstance(windows, Sessions) and windows.conditions:
        yield from cut_sessions(windows, placed)
        return
    if isinstance(windows, Sessions):
        yield from whole_sessions(windows, positions)
        return
    seen = set()
    for start, end in asked_for(windows, positions):
        inside = [position for position in positions if start <= position < end]
        moves_in_time = isinstance(windows, Sliding) and windows.axis == "time"
        shown = end - 1 if moves_in_time else end
        first = start
        if isinstance(windows, Sliding) and windows.rolls:
            first = shown - windows.size if moves_in_time else start
            # The window of a message that excludes it may count none.
            inside = inside if windows.includes_last else [one for one in inside if one < end - 1]
        if inside and (start, end) not in seen:
            seen.add((start, end))
            yield (first, shown), inside


def asked_for(windows: Kind, positions: list[int]) -> Iterator[Bounds]:
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


def whole_sessions(windows: Sessions, positions: list[int]) -> Iterator[tuple[Bounds, list[int]]]:
    session: list[int] = []
    for position in positions:
        lengths = [(position - session[-1], windows.gap)] if session else []
        if session and windows.longest is not None:
            lengths.append((position - session[0], windows.longest))
        if any(a > most or (a == most and windows.closed == "left") for a, most in lengths):
            yield bounds_of_session(windows, session), session
            session = []
        session.append(position)
    if session:
        yield bounds_of_session(windows, session), session


def bounds_of_session(windows: Sessions, session: list[int]) -> Bounds:
    end = session[-1] + windows.gap
    return session[0], end if windows.longest is None else min(end, session[0] + windows.longest)


def cut_sessions(windows: Sessions, placed: Placed) -> Iterator[tuple[Bounds, list[int]]]:
    """The sessions of one key that conditions cut, from all of its messages at once."""
    by_position: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for position, message in placed:
        by_position[position].append(message)
    positions = sorted(by_position)
    # For each position: whether a message begins a session, or ends it, and the values.
    begins, ends = (
        [name is not None and any(m[name] for m in by_position[p]) for p in positions]
        for name in (windows.start, windows.end)
    )
    values = [
        {m[windows.same] for m in by_position[p]} if windows.same is not None else {0}
        for p in positions
    ]
    at = 0
    while at < len(positions):
        if windows.start is not None and not begins[at]:
            at += 1
            continue
        last = at
        while not ends[last] and last + 1 < len(positions):
            both = [positions[last], positions[last + 1]]
            if len([*whole_sessions(replace(windows, longest=None), both)]) == 2:
                break
            if windows.longest is not None:
                most = windows.longest + (windows.closed == "both")
                if positions[last + 1] - positions[at] >= most:
                    break
            if len(values[last] | values[last + 1]) > 1:
                break
            if windows.end is None and begins[last + 1]:
                break
            last += 1
        _, end = bounds_of_session(windows, positions[at : last + 1])
        if ends[last]:
            end = positions[last]
        elif last + 1 < len(positions):
            end = min(end, positions[last + 1])
        inside = [p for p in positions[at : last + 1] for _ in by_position[p]]
        yield (positions[at], end), inside
        at = last + 1
