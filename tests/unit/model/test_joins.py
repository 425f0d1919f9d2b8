from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from muntin.model.axis import HOUR, MINUTE, SECOND, rows
from muntin.model.bounds import AsOf, Bound, SessionBound, Together, Within
from muntin.model.cumulating import cumulating
from muntin.model.days import days
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.joins import HOWS, LARGE, OTHER, SIDES, JoinSpec, Side, set_default_policies
from muntin.model.policies import Each, Every, EveryRows, Firing, FirstThen, RowsOrEvery
from muntin.model.sessions import Sessions
from muntin.model.windows import tumbling
from muntin.standalone.sentence import join, windowed

LEFT = Side(("id",), "time", types={"id": "Int64"})
RIGHT = Side(("number",), "at")
OFFSET = ("partition", "offset")
NEAR = Within(5, 2)
SPEC = JoinSpec(LEFT, RIGHT, NEAR)


def change_left(**changes: Any) -> dict[str, Any]:
    return {"left": replace(LEFT, **changes), "right": RIGHT}


ON_ROWS = {"bound": Within(3, 3, "rows"), "right": replace(RIGHT, offset=OFFSET)}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "how": ({"how": "outer"}, "how='outer' isn't known; write \"full\""),
    "nulls": ({"how": "left", "nulls": "keep"}, "nulls='keep' isn't a treatment of NULL keys"),
    "nulls of a join with versions": (
        {"how": "left", "bound": AsOf(), "nulls": "group"},
        "nulls='group' isn't for this join: only within= and windows let NULL equal NULL",
    ),
    "nulls of an inner join": (
        {"nulls": "unmatched"},
        "nulls='unmatched' isn't for inner joins, which emit nothing unmatched; leave it out",
    ),
    "nulls of a semi join": (
        {"nulls": "unmatched", "how": "semi"},
        "nulls='unmatched' isn't for semi joins, which emit nothing unmatched",
    ),
    "nulls of sessions": (
        {"nulls": "unmatched", "how": "left", "bound": SessionBound(Sessions(MINUTE))},
        "nulls='unmatched' isn't for session joins: without a key there is no session",
    ),
    "no keys": (
        change_left(keys=()), "on=() compares nothing; name at least one column of both sides"
    ),
    "other keys": (change_left(keys=("a", "b")), "on=('a', 'b') compares nothing"),
    "early by rows": (
        change_left(firing=Firing(EveryRows(3), Each())),
        "early='every 3 rows on the left' isn't for joins; give early(each=True)",
    ),
    "early by rows or the clock": (
        change_left(firing=Firing(RowsOrEvery(3, MINUTE), Each())),
        "early='every 3 rows or every 1 minute of wall clock on the left' isn't for joins",
    ),
    "early with at least some rows": (
        change_left(firing=Firing(Every(MINUTE, 3), Each())),
        "early='every 1 minute of wall clock with at least 3 rows on the left' isn't for joins",
    ),
    "early by one policy and then by another": (
        change_left(firing=Firing(FirstThen(Every(MINUTE), Every(MINUTE, 3)), Each())),
        "early='first every 1 minute of wall clock, then every 1 minute of wall clock with at",
    ),
    "full without repeating": (
        change_left(firing=Firing(Each(), Each(), repeat=False)),
        "repeat='False on the left' isn't for joins: a pair is emitted once; leave out full()",
    ),
    "late by rows": (
        change_left(firing=Firing(Each(), EveryRows(1))),
        "late='every 1 rows on the left' isn't for",
    ),
    "no offsets": (ON_ROWS, "needs offsets on the left; give windowed(…, offset=("),
    "lateness on rows": (
        change_left(offset=OFFSET, lateness=MINUTE) | ON_ROWS,
        "lateness='1 minute on the left' isn't measured in rows; leave it out",
    ),
    "no time": (
        change_left(time=None), "time=None is missing on the left; give windowed(…, time=…)"
    ),
    "windows on another axis": (
        change_left(windows=tumbling(rows(3))),
        "windows='tumbling 3 rows on the left' isn't measured in time as the join is",
    ),
    "rows kept of rows": (
        change_left(firing=Firing(Each(), Each(), rows=9), offset=OFFSET) | ON_ROWS,
        "rows='9 on the left' can't be counted here",
    ),
    "rows kept by keys": (
        change_left(firing=Firing(Each(), Each(), rows=9)) | {"layout": "keys"},
        "rows='9 on the left' can't be counted here",
    ),
    "policies of sessions": (
        change_left(firing=Firing(Every(MINUTE), Each()))
        | {"bound": SessionBound(Sessions(MINUTE))},
        "early='on the left' isn't for session joins",
    ),
    "keeping sessions": (
        change_left(firing=Firing(Each(), Each(), 0, MINUTE))
        | {"bound": SessionBound(Sessions(MINUTE))},
        "keep='on the left' isn't for session joins",
    ),
    "keeping sessions for less than the grace": (
        change_left(firing=Firing(Each(), Each(), MINUTE, SECOND))
        | {"bound": SessionBound(Sessions(MINUTE))},
        "keep='on the left' isn't for session joins",
    ),
    "kept for less than the grace": (
        change_left(firing=Firing(Each(), Each(), MINUTE, SECOND)),
        "keep='1 second on the left' is below the grace 1 minute; keep at least 1 minute",
    ),
    "fewer rows kept than are taken late": (
        change_left(firing=Firing(Each(), Each(), 9, 4), offset=OFFSET) | ON_ROWS,
        "keep='4 rows on the left' is below the grace 9 rows",
    ),
    "keys first in an outer join": (
        {"how": "anti", "layout": "keys"}, "layout='keys' can't find in time what is unmatched in"
    ),
    "keys first in a semi join": (
        {"how": "semi", "layout": "keys"}, "layout='keys' can't mark who has a partner, which a"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_joins_are_refused(case: str) -> None:
    changes, text = REFUSED[case]
    with pytest.raises(OptionError) as refusal:
        replace(SPEC, **changes)
    assert text in str(refusal.value)


def test_sessions_with_a_longest_duration_are_refused() -> None:
    visits = windowed(time="at").session("1 minute", longest="1 hour")
    with pytest.raises(OptionError, match="longest='session 1 minute, at most 1 hour' isn't for"):
        join(visits, visits, on="id")


def test_sessions_that_conditions_cut_are_refused() -> None:
    visits = windowed(time="at").session("1 minute", end="leaves")
    with pytest.raises(OptionError, match="end='session 1 minute, end leaves' isn't for joins"):
        join(visits, visits, on="id")


def test_a_retention_below_the_grace_is_refused() -> None:
    left = windowed(time="at")
    right = left.late(grace="2 hours")
    for retaining_side in (right, right.keep("3 hours")):
        assert join(left, retaining_side, on="id", within="1 minute").right.firing.grace == 2 * HOUR
    with pytest.raises(OptionError, match="keep='1 hour on the right' is below the grace 2 hours"):
        join(left, right.keep("1 hour"), on="id", within="1 minute")


@pytest.mark.parametrize(
    ("how", "sides_to_mark", "unmatched"),
    [
        ("inner", "", ""),
        ("left", "left", "left"),
        ("right", "right", "right"),
        ("full", "left right", "left right"),
        ("semi", "left", ""),
        ("anti", "left", "left"),
    ],
)
def test_sides_whose_partners_are_stored(how: Any, sides_to_mark: str, unmatched: str) -> None:
    assert how in HOWS
    spec = replace(SPEC, how=how)
    assert (" ".join(spec.sides_to_mark), " ".join(spec.outer_sides)) == (sides_to_mark, unmatched)


# The rows of the Samza design's matrix that are joins on equal fields.
LAYOUTS: list[tuple[Bound, str, str]] = [
    (Within(3, 3, "rows"), "inner", "time"),
    (Within(LARGE // 2, LARGE // 2 - 1), "inner", "time"),
    (Within(LARGE // 2, LARGE // 2), "inner", "keys"),
    (Within(LARGE, LARGE), "left", "time"),
    (Together((tumbling("1 minute"),)), "inner", "time"),
    (Together((tumbling("1 minute"), tumbling("1 day"))), "inner", "time"),
    (Together((tumbling("1 day"),)), "inner", "keys"),
    (SessionBound(Sessions(MINUTE)), "full", "keys"),
]


@pytest.mark.parametrize(("bound", "how", "layout"), LAYOUTS, ids=str)
def test_the_layout_of_the_state(bound: Bound, how: Any, layout: str) -> None:
    offset = OFFSET if bound.axis == "rows" else None
    sides = replace(LEFT, offset=offset), replace(RIGHT, offset=offset)
    spec = JoinSpec(*sides, bound, how)
    assert spec.state_layout == spec.words()["layout"] == layout
    forced = replace(spec, layout="time")
    assert forced.state_layout == "time"


def test_a_limit_of_rows_needs_the_layout_by_time() -> None:
    left = replace(LEFT, firing=Firing(Each(), Each(), rows=9))
    assert replace(SPEC, bound=Within(LARGE, 0), left=left).state_layout == "time"


def test_shared_time_is_a_fact_and_isnt_for_rows() -> None:
    shared = replace(SPEC, shared_time=True)
    assert shared.words()["watermark"] == "one of both sides"
    assert shared.differences(SPEC) == ["watermark: was absent, is one of both sides"]
    assert JoinSpec.from_dict(shared.to_dict()) == shared
    with pytest.raises(OptionError, match="shared_time=True isn't for joins in rows"):
        replace(SPEC, **(change_left(offset=OFFSET) | ON_ROWS), shared_time=True)


def test_facts() -> None:
    firing = Firing(Every(MINUTE), Each(), SECOND, MINUTE, rows=7)
    left = replace(LEFT, windows=tumbling("1 s"), firing=firing, offset=OFFSET, lateness=SECOND)
    assert replace(SPEC, left=left, shards=2).words() == {
        "join": "inner",
        "partners": "from 5 microseconds before to 2 microseconds after",
        "layout": "time",
        "shards": "2",
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


def test_the_origin_of_windows_is_a_fact_if_it_is_not_zero() -> None:
    stored = make_window_join("1 minute").to_dict()
    make_window_join("1 minute").check_same(stored)
    later = make_window_join("1 minute", origin=3 * SECOND)
    later.check_same(later.to_dict())
    facts = later.words()
    assert facts["partners"] == "in one window: tumbling 1 minute, origin 3000000 us"
    assert facts["right windows"] == "tumbling 1 minute, origin 3000000 us"
    with pytest.raises(SpecChangedError) as refusal:
        later.check_same(stored)
    difference = "right windows: was tumbling 1 minute, is tumbling 1 minute, origin 3000000 us"
    assert difference in str(refusal.value)


def make_window_join(size: str, origin: int = 0) -> JoinSpec:
    grid = tumbling(size, origin=origin)
    return JoinSpec(LEFT, replace(RIGHT, windows=grid), Together((grid,)))


def test_lengths_on_the_rows_axis_are_rows() -> None:
    firing = Firing(Each(), Each(), 3, 5)
    left, right = (replace(side, offset=OFFSET, firing=firing) for side in (LEFT, RIGHT))
    spec = JoinSpec(left, right, Within(3, 3, "rows"))
    facts = spec.words()
    assert (facts["left grace"], facts["right keep"]) == ("3 rows", "5 rows")
    changed_spec = replace(spec, left=replace(left, firing=replace(firing, grace=4)))
    with pytest.raises(SpecChangedError, match="left grace: was 3 rows, is 4 rows"):
        changed_spec.check_same(spec.to_dict())


LAGS: dict[str, tuple[Bound, int]] = {
    "a distance": (Within(MINUTE, 2 * MINUTE), 3 * MINUTE),
    "tumbling": (Together((tumbling("1 minute"),)), 2 * MINUTE),
    "cumulating": (Together((cumulating("1 minute", "10 s"),)), 2 * MINUTE),
    "two kinds": (Together((cumulating("1 minute", "10 s"), tumbling("20 s"))), 40 * SECOND),
    "days": (Together((days("1 day", "Europe/Berlin"),)), 48 * HOUR),
}


@pytest.mark.parametrize("case", LAGS)
def test_the_lag_of_a_join(case: str) -> None:
    bound, lag = LAGS[case]
    left = replace(LEFT, lateness=SECOND, firing=Firing(Each(), Each(), 2 * SECOND, 2 * SECOND))
    assert JoinSpec(left, RIGHT, bound).lag == lag + 3 * SECOND


def test_state_of_cumulating_windows_stays_sorted_as_it_was() -> None:
    day = Together((cumulating("1 day", "1 minute"),))
    assert (day.reach, replace(SPEC, bound=day).state_layout) == (MINUTE, "time")


def test_a_changed_spec_is_named_unless_state_does_not_depend_on_it() -> None:
    stored = SPEC.to_dict()
    assert JoinSpec.from_dict(json.loads(json.dumps(stored))) == SPEC
    SPEC.with_side("left", replace(LEFT, max_ahead=SECOND)).check_same(stored)
    changed_spec = replace(SPEC, bound=Within(5, 3)).with_side("right", replace(RIGHT, lateness=1))
    with pytest.raises(SpecChangedError) as refusal:
        changed_spec.check_same(stored)
    assert "partners: was from 5 microseconds before to 2 microseconds after, is" in str(
        refusal.value
    )
    assert "right lateness: was 0 seconds, is 1 microsecond" in str(refusal.value)


def test_null_keys_may_be_accepted_from_now_on_and_not_rejected_again() -> None:
    rejecting_spec = replace(SPEC, how="left")
    accepting_spec = replace(rejecting_spec, nulls="unmatched")
    assert (
        rejecting_spec.list_required_keys("left"),
        accepting_spec.list_required_keys("left"),
    ) == (
        ("id",),
        (),
    )
    assert accepting_spec.list_required_keys("right") == ("number",)
    old_format = {
        name: value for name, value in rejecting_spec.to_dict().items() if name != "nulls"
    }
    assert JoinSpec.from_dict(old_format) == rejecting_spec
    accepting_spec.check_same(old_format)
    accepting_spec.check_same(accepting_spec.to_dict())
    with pytest.raises(SpecChangedError, match="nulls: was unmatched, is reject"):
        rejecting_spec.check_same(accepting_spec.to_dict())


@pytest.mark.parametrize("how", HOWS)
def test_equal_null_keys_cannot_be_rejected_again(how: Any) -> None:
    grouping = replace(SPEC, how=how, nulls="group")
    assert [grouping.list_required_keys(side) for side in SIDES] == [(), ()]
    grouping.check_same(replace(SPEC, how=how).to_dict())
    with pytest.raises(SpecChangedError, match="nulls: was group"):
        replace(SPEC, how=how).check_same(grouping.to_dict())


def test_sides() -> None:
    assert [SPEC.side(name) for name in SIDES] == [LEFT, RIGHT]
    assert [OTHER[name] for name in SIDES] == ["right", "left"]
    assert SPEC.with_side("right", LEFT) == JoinSpec(LEFT, LEFT, NEAR)
    assert LEFT.own_retention is None
    assert replace(LEFT, firing=Firing(grace=5, retention=5)).own_retention is None
    assert replace(LEFT, firing=Firing(grace=5, retention=6)).own_retention == 6


def test_joins_emit_at_each_message_by_default() -> None:
    assert set_default_policies(Firing()) == Firing(Each(), Each())
    firing = Firing(Every(SECOND), Every(MINUTE), 1, 2)
    assert set_default_policies(firing) == firing
    # Ten seconds that the user wrote are not replaced.
    assert set_default_policies(Firing(late=Every(10 * SECOND))).late == Every(10 * SECOND)
