from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from muntin.model.axis import DAY, HOUR, MINUTE, SECOND, rows
from muntin.model.cumulating import cumulating
from muntin.model.days import days
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.joins import (
    HOWS,
    LARGE,
    OTHER,
    SIDES,
    Bound,
    JoinSpec,
    Joint,
    Side,
    Together,
    Within,
    bound_of,
    firing_of,
)
from muntin.model.kinds import Kind
from muntin.model.policies import Each, Every, EveryRows, Firing
from muntin.model.sessions import Sessions, session
from muntin.model.sliding import sliding
from muntin.model.windows import Windows, hopping, tumbling

LEFT = Side(("id",), "time", types={"id": "Int64"})
RIGHT = Side(("number",), "at")
OFFSET = ("partition", "offset")
NEAR = Within(5, 2)
SPEC = JoinSpec(LEFT, RIGHT, NEAR)


def test_where_partners_lie_by_distance() -> None:
    #          5 before  2 after
    # left          |----o-|
    # right       |-o----|           seen from there: 2 before, 5 after
    assert NEAR.reach == 7
    assert NEAR.partners("left", 100, 110) == (95, 112)
    assert NEAR.partners("right", 100, 110) == (98, 115)
    assert NEAR.first_taken(100, grace=3) == 97
    for side in SIDES:
        first = NEAR.first_kept(side, 100)
        assert NEAR.partners(side, first, first)[1] == 100
    assert str(replace(NEAR, axis="rows")) == "from 5 rows before to 2 rows after"


BERLIN = days("1 day", "Europe/Berlin")
TOGETHER: dict[str, tuple[tuple[Any, ...], int, tuple[int, int], int]] = {
    # windows, a place, its partners (both included), reach
    "tumbling": ((Windows(10, 10),), 13, (10, 19), 10),
    "hopping": ((Windows(10, 4),), 13, (4, 21), 10),
    "hopping, slide doesn't divide": ((Windows(10, 7, 1),), 13, (8, 17), 10),
    "two kinds": ((Windows(10, 4), Windows(6, 6)), 13, (12, 17), 6),
    "cumulating": ((cumulating("12 s", "4 s"),), 13 * SECOND, (12 * SECOND, 24 * SECOND - 1), 0),
    "a day": ((BERLIN,), DAY, (23 * HOUR, 47 * HOUR - 1), DAY),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_where_partners_lie_in_windows(case: str) -> None:
    windows, place, (low, high), reach = TOGETHER[case]
    bound = Together(windows)
    for side in SIDES:
        assert bound.partners(side, place, place) == (low, high)
        assert bound.first_kept(side, place) == low
    assert bound.reach == (reach or bound.reach)
    # Whatever is taken lies in an open window of each kind.
    taken = bound.first_taken(place, grace=0)
    assert all(w.end(w.last_window(w.pane_of(taken))) > place for w in windows)
    assert any(w.end(w.last_window(w.pane_of(taken - 1))) <= place for w in windows)
    assert bound.first_taken(place + 2, grace=2) == taken


BOUNDS: dict[str, tuple[Any, Kind | None, Kind | None, Bound]] = {
    "either way": ("1 minute", None, None, Within(MINUTE, MINUTE)),
    "before alone": (("1 minute", 0), None, None, Within(MINUTE, 0)),
    "after alone": ((0, "1 minute"), None, None, Within(0, MINUTE)),
    "at once": ("0 s", None, None, Within(0, 0)),
    "rows": (rows(3), None, None, Within(3, 3, "rows")),
    "rows before": ((rows(3), 0), None, None, Within(3, 0, "rows")),
    "a distance goes before windows": (
        "1 s", tumbling("1 minute"), sliding("1 s"), Within(SECOND, SECOND)
    ),
    "one side's windows": (None, None, hopping("6 s", "2 s"), Together((hopping("6 s", "2 s"),))),
    "the same on both": (None, tumbling("6 s"), tumbling("6 s"), Together((tumbling("6 s"),))),
    "two kinds": (
        None, tumbling("6 s"), cumulating("4 s", "2 s"),
        Together((tumbling("6 s"), cumulating("4 s", "2 s"))),
    ),
    "sliding": (None, sliding("6 s"), None, Within(6 * SECOND, 6 * SECOND)),
    "sessions": (None, session("6 s"), session("6 s"), Joint(Sessions(6 * SECOND))),
}  # fmt: skip


@pytest.mark.parametrize("case", BOUNDS)
def test_what_bounds_a_pair(case: str) -> None:
    within, left, right, bound = BOUNDS[case]
    assert bound_of(within, left, right) == bound


UNBOUNDED: dict[str, tuple[Any, Kind | None, Kind | None, str, str]] = {
    "nothing": (None, None, None, "within", 'give within="10 minutes"'),
    "three lengths": (("1 s", "2 s", "3 s"), None, None, "within", "give one length, or two"),
    "no length": ((0, 0), None, None, "within", "give one length, or two"),
    "a number": ((1, 0), None, None, "within", "write for example"),
    "two axes": (("1 s", rows(1)), None, None, "within", "both as durations, or both as"),
    "sessions on one side": (None, session("1 s"), None, "session", "the same gap"),
    "other gaps": (None, session("1 s"), session("2 s"), "session", "the same gap"),
    "sessions of rows": (
        None, session(rows(2)), session(rows(2)), "session", "on the time axis"
    ),
    "sliding and others": (None, sliding("1 s"), tumbling("1 s"), "sliding", "write within="),
}  # fmt: skip


@pytest.mark.parametrize("case", UNBOUNDED)
def test_what_bounds_nothing(case: str) -> None:
    within, left, right, option, cure = UNBOUNDED[case]
    with pytest.raises(OptionError) as refusal:
        bound_of(within, left, right)
    assert refusal.value.option == option
    assert cure in refusal.value.cure


def changed(**changes: Any) -> dict[str, Any]:
    return {"left": replace(LEFT, **changes), "right": RIGHT}


ON_ROWS = {"bound": Within(3, 3, "rows"), "right": replace(RIGHT, offset=OFFSET)}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "how": ({"how": "outer"}, "how='outer' isn't known; give one of inner, left, right, full"),
    "no keys": (changed(keys=()), "on=() compares nothing; name at least one column"),
    "other keys": (changed(keys=("a", "b")), "on=('a', 'b') compares nothing"),
    "early by rows": (
        changed(firing=Firing(EveryRows(3), Each())),
        "early='every 3 rows on the left' isn't for joins; give early(each=True)",
    ),
    "late by rows": (
        changed(firing=Firing(Each(), EveryRows(1))), "late='every 1 rows on the left' isn't for"
    ),
    "no offsets": (ON_ROWS, "needs offsets on the left; give windowed(…, offset=("),
    "no time": (changed(time=None), "time=None is missing on the left; give windowed(…, time=…)"),
    "windows on another axis": (
        changed(windows=tumbling(rows(3))),
        "windows='tumbling 3 rows on the left' isn't measured in time as the join is",
    ),
    "rows kept of rows": (
        changed(firing=Firing(Each(), Each(), rows=9), offset=OFFSET) | ON_ROWS,
        "rows='9 on the left' can't be counted here",
    ),
    "rows kept by keys": (
        changed(firing=Firing(Each(), Each(), rows=9)) | {"layout": "keys"},
        "rows='9 on the left' can't be counted here",
    ),
    "policies of sessions": (
        changed(firing=Firing(Every(MINUTE), Each())) | {"bound": Joint(Sessions(MINUTE))},
        "early='on the left' isn't for session joins",
    ),
    "keeping sessions": (
        changed(firing=Firing(Each(), Each(), 0, MINUTE)) | {"bound": Joint(Sessions(MINUTE))},
        "keep='on the left' isn't for session joins",
    ),
    "keys first in an outer join": (
        {"how": "anti", "layout": "keys"}, "layout='keys' can't find in time what stays alone in"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    changes, text = REFUSED[case]
    with pytest.raises(OptionError) as refusal:
        replace(SPEC, **changes)
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    ("how", "marked", "lonely"),
    [
        ("inner", "", ""),
        ("left", "left", "left"),
        ("right", "right", "right"),
        ("full", "left right", "left right"),
        ("semi", "left", ""),
        ("anti", "left", "left"),
    ],
)
def test_whose_partners_are_remembered(how: Any, marked: str, lonely: str) -> None:
    assert how in HOWS
    spec = replace(SPEC, how=how)
    assert (" ".join(spec.marked), " ".join(spec.lonely)) == (marked, lonely)


# The rows of the Samza design's matrix that are joins on equal fields.
LAYOUTS: list[tuple[Bound, str, str]] = [
    (Within(3, 3, "rows"), "inner", "time"),
    (Within(LARGE // 2, LARGE // 2 - 1), "inner", "time"),
    (Within(LARGE // 2, LARGE // 2), "inner", "keys"),
    (Within(LARGE, LARGE), "left", "time"),
    (Together((tumbling("1 minute"),)), "inner", "time"),
    (Together((tumbling("1 minute"), tumbling("1 day"))), "inner", "time"),
    (Together((tumbling("1 day"),)), "inner", "keys"),
    (Joint(Sessions(MINUTE)), "full", "keys"),
]


@pytest.mark.parametrize(("bound", "how", "layout"), LAYOUTS, ids=str)
def test_what_state_is_sorted_by(bound: Bound, how: Any, layout: str) -> None:
    offset = OFFSET if bound.axis == "rows" else None
    sides = replace(LEFT, offset=offset), replace(RIGHT, offset=offset)
    spec = JoinSpec(*sides, bound, how)
    assert spec.state_layout == spec.facts()["layout"] == layout
    forced = replace(spec, layout="time")
    assert forced.state_layout == "time"


def test_a_limit_of_rows_wants_time_first() -> None:
    left = replace(LEFT, firing=Firing(Each(), Each(), rows=9))
    assert replace(SPEC, bound=Within(LARGE, 0), left=left).state_layout == "time"


def test_facts() -> None:
    firing = Firing(Every(MINUTE), Each(), SECOND, MINUTE, rows=7)
    left = replace(LEFT, windows=tumbling("1 s"), firing=firing, offset=OFFSET, lateness=SECOND)
    assert replace(SPEC, left=left, buckets=2).facts() == {
        "join": "inner",
        "partners": "from 5 microseconds before to 2 microseconds after",
        "layout": "time",
        "buckets": "2",
        "left on": "id",
        "left time": "time",
        "left windows": "tumbling 1 second",
        "left early": "every 1 minute of wall clock",
        "left late": "each message",
        "left grace": "1 second",
        "left keep": "1 minute",
        "left keep rows": "7",
        "left lateness": "1 second",
        "left offset": "partition, offset",
        "left type of id": "Int64",
        "right on": "number",
        "right time": "at",
        "right windows": "none",
        "right early": "each message",
        "right late": "each message",
        "right grace": "0 seconds",
        "right keep": "0 seconds",
        "right keep rows": "any",
        "right lateness": "0 seconds",
    }


def test_a_changed_spec_is_named_and_what_state_does_not_depend_on_may_change() -> None:
    stored = SPEC.dumps()
    assert json.loads(stored) == SPEC.facts()
    SPEC.with_side("left", replace(LEFT, max_ahead=SECOND)).check_same(stored)
    other = replace(SPEC, bound=Within(5, 3)).with_side("right", replace(RIGHT, lateness=1))
    with pytest.raises(SpecChangedError) as refusal:
        other.check_same(stored)
    assert "partners: was from 5 microseconds before to 2 microseconds after, is" in str(
        refusal.value
    )
    assert "right lateness: was 0 seconds, is 1 microsecond" in str(refusal.value)


def test_sides() -> None:
    assert [SPEC.side(name) for name in SIDES] == [LEFT, RIGHT]
    assert [OTHER[name] for name in SIDES] == ["right", "left"]
    assert SPEC.with_side("right", LEFT) == JoinSpec(LEFT, LEFT, NEAR)
    assert LEFT.kept is None
    assert replace(LEFT, firing=Firing(grace=5, retention=5)).kept is None
    assert replace(LEFT, firing=Firing(grace=5, retention=6)).kept == 6


def test_joins_speak_at_each_message_by_default() -> None:
    assert firing_of(Firing()) == Firing(Each(), Each())
    asked = Firing(Every(SECOND), Every(MINUTE), 1, 2)
    assert firing_of(asked) == asked
    # Ten seconds that were asked for are no default.
    assert firing_of(Firing(late=Every(10 * SECOND))).late == Every(10 * SECOND)
