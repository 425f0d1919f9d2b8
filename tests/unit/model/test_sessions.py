from __future__ import annotations

from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.axis import MINUTE, rows
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.policies import Firing
from muntin.model.sessions import Sessions, make_sessions
from muntin.model.spec import WindowSpec


def test_sessions() -> None:
    assert make_sessions("30 minutes") == Sessions(30 * MINUTE)
    assert str(make_sessions("30 minutes")) == "session 30 minutes"
    assert str(make_sessions("30 minutes", closed="left")) == "session 30 minutes, open at the gap"
    assert make_sessions(rows(3)) == Sessions(3, "both", "rows")


def test_a_longest_duration() -> None:
    windows = make_sessions("30 minutes", longest="8 hours")
    assert windows == Sessions(30 * MINUTE, longest=480 * MINUTE)
    assert str(windows) == "session 30 minutes, at most 8 hours"
    assert windows.memory > make_sessions("30 minutes").memory


def test_conditions() -> None:
    windows = make_sessions("30 minutes", longest="8 hours", end="kind = 'logout'", same="page")
    assert windows.is_cut
    assert windows.conditions == {"end": "kind = 'logout'", "same": "page"}
    assert str(windows) == "session 30 minutes, at most 8 hours, end kind = 'logout', same page"
    assert not make_sessions("30 minutes").is_cut
    assert make_sessions("30 minutes", start="login").storage.endswith("whether a session has them")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"gap": "1 hour", "longest": "59 minutes"}, "is shorter than the gap; .*1 hour"),
        ({"gap": "1 hour", "longest": "0 s"}, "longest='0 s' is zero"),
        ({"gap": rows(3), "longest": "1 hour"}, "longest='1 hour' needs a gap in time"),
        ({"by": "patience", "longest": "1 hour"}, "needs a gap"),
        ({"gap": rows(3), "end": "logout"}, "end='logout' needs a gap in time"),
        ({"end": "logout"}, "gap=None is missing"),
        ({"by": "patience", "same": "state"}, "same='state' needs a gap that ends sessions"),
    ],
)
def test_invalid_durations_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        make_sessions(**options)


@pytest.mark.parametrize(("closed", "latest"), [("both", 9), ("left", 10)])
def test_a_session_has_ended_when_no_message_could_join_it(closed: str, latest: int) -> None:
    # A message at 15, where the watermark is, may come yet.
    windows = Sessions(5, closed)  # type: ignore[arg-type]
    joins = [last for last in range(20) if 15 - last < windows.reach]
    assert windows.last_ended(15) == latest == min(joins) - 1


@pytest.mark.parametrize("closed", ["right", "", None, True])
def test_invalid_edges_are_refused(closed: object) -> None:
    with pytest.raises(OptionError, match='give "both" or "left"'):
        make_sessions("1 minute", closed=closed)  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", ["0 s", "soon", 5])
def test_invalid_gaps_are_refused(gap: object) -> None:
    with pytest.raises(OptionError, match="gap="):
        make_sessions(gap)  # type: ignore[arg-type]


def make_spec(windows: Sessions, **options: object) -> WindowSpec:
    aggs = {"n": aggregates.count()}
    return WindowSpec(("key",), "time", windows, aggs, **options)  # type: ignore[arg-type]


def test_sessions_emit_no_deltas() -> None:
    with pytest.raises(OptionError, match="can't take back what they emitted"):
        make_spec(Sessions(5), firing=Firing(accumulate=False))


def test_sessions_of_rows_need_offsets() -> None:
    with pytest.raises(OptionError, match="counts messages of other keys too"):
        make_spec(make_sessions(rows(3)))


def test_a_checkpoint_stores_the_edge() -> None:
    assert make_spec(Sessions(5)).to_dict() != make_spec(Sessions(5, "left")).to_dict()


def test_a_checkpoint_stores_the_longest_duration() -> None:
    stored = make_spec(Sessions(5)).to_dict()
    with pytest.raises(SpecChangedError, match="at most 9"):
        make_spec(Sessions(5, longest=9)).check_same(stored)
    # Checkpoints without a longest duration can be continued.
    old_format = stored | {
        "windows": {k: v for k, v in stored["windows"].items() if k != "longest"}
    }
    make_spec(Sessions(5)).check_same(old_format)
