from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.axis import SECOND, rows
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.policies import Each, Every, EveryRows, Firing
from muntin.model.sliding import rolling, sliding
from muntin.model.spec import WindowSpec, check_effects
from muntin.model.windows import hopping, tumbling

SPEC = WindowSpec(
    keys=("region", "key"),
    time="time",
    windows=tumbling("10 s"),
    aggregates={"n": aggregates.count(), "sum": aggregates.sum("value")},
    firing=Firing(late=Each(), grace=SECOND, retention=2 * SECOND),
    lateness=5 * SECOND,
    types={"value": "long", "key": "string"},
)


def test_facts() -> None:
    assert SPEC.words() == {
        "key": "region, key",
        "time": "time",
        "windows": "tumbling 10 seconds, origin 0 us",
        "early": "never",
        "late": "each message",
        "grace": "1 second",
        "keep": "2 seconds",
        "accumulate": "True",
        "lateness": "5 seconds",
        "nulls": "reject",
        "agg n": "count()",
        "agg sum": "sum(value)",
        "type of key": "string",
        "type of value": "long",
    }


def test_a_spec_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SPEC.lateness = 0


def test_an_unchanged_spec_is_accepted() -> None:
    SPEC.check_same(SPEC.to_dict())


def test_options_that_state_does_not_depend_on_may_change() -> None:
    replace(SPEC, max_ahead=SECOND).check_same(SPEC.to_dict())


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"windows": hopping("10 s", "5 s")}, "windows: was tumbling 10 seconds"),
        ({"lateness": 0}, "lateness: was 5 seconds, is 0 seconds"),
        ({"keys": ("key", "region")}, "key: was region, key, is key, region"),
        ({"aggregates": {"n": aggregates.count()}}, r"agg sum: was sum\(value\), is absent"),
        ({"types": {"value": "double"}}, "type of value: was long, is double"),
        ({"firing": Firing(accumulate=False)}, "accumulate: was True, is False"),
    ],
)
def test_a_changed_spec_is_refused(changes: dict[str, Any], difference: str) -> None:
    with pytest.raises(SpecChangedError, match=difference):
        replace(SPEC, **changes).check_same(SPEC.to_dict())


def test_null_may_become_a_group_and_stays_one() -> None:
    group = replace(SPEC, nulls="group")
    for spec in (SPEC, replace(SPEC, windows=tumbling(rows(3)), lateness=0, firing=Firing())):
        replace(spec, nulls="group").check_same(spec.to_dict())
        with pytest.raises(SpecChangedError, match="nulls: was group, is reject"):
            spec.check_same(replace(spec, nulls="group").to_dict())
    assert WindowSpec.from_dict(group.to_dict()) == group


def test_a_checkpoint_without_the_option_rejects_nulls() -> None:
    old = {name: value for name, value in SPEC.to_dict().items() if name != "nulls"}
    assert WindowSpec.from_dict(old) == SPEC
    SPEC.check_same(old)
    replace(SPEC, nulls="group").check_same(old)


def test_without_keys_nulls_may_change() -> None:
    keyless = replace(SPEC, keys=())
    keyless.check_same(replace(keyless, nulls="group").to_dict())


def test_which_keys_may_not_be_null() -> None:
    assert SPEC.non_null_keys == ("region", "key")
    assert replace(SPEC, nulls="group").non_null_keys == ()
    with pytest.raises(OptionError, match=r"nulls='drop' isn't a treatment .* give \"reject\", or"):
        replace(SPEC, nulls="drop")


def test_keeping_less_than_the_grace() -> None:
    with pytest.raises(OptionError, match="keep='1 second' is below the grace 2 seconds"):
        replace(SPEC, firing=Firing(grace=2 * SECOND, retention=SECOND))


@pytest.mark.parametrize("name", ["key", "window_start", "window_end", "emission", "revision"])
def test_an_aggregate_named_like_another_column(name: str) -> None:
    with pytest.raises(OptionError, match="is a column of the output already"):
        replace(SPEC, aggregates={name: aggregates.count()})


WITH_EARLY = replace(SPEC, firing=Firing(early=Each(), late=Each(), grace=SECOND, retention=SECOND))


@pytest.mark.parametrize(
    "changes",
    [
        {"retention": 90 * SECOND},
        {"late": Every(SECOND)},
        {"early": EveryRows(3)},
        {"early": Every(SECOND), "late": EveryRows(7), "retention": 2 * SECOND},
    ],
)
def test_retention_and_policies_may_change(changes: dict[str, Any]) -> None:
    stored = WITH_EARLY.to_dict()
    replace(WITH_EARLY, firing=replace(WITH_EARLY.firing, **changes)).check_same(stored)


def test_an_early_policy_may_be_added_but_not_removed() -> None:
    without = replace(WITH_EARLY, firing=replace(WITH_EARLY.firing, early=None))
    WITH_EARLY.check_same(without.to_dict())
    with pytest.raises(SpecChangedError, match="early: was each message, is never"):
        without.check_same(WITH_EARLY.to_dict())
    deltas = [replace(s, firing=replace(s.firing, accumulate=False)) for s in (without, WITH_EARLY)]
    with pytest.raises(SpecChangedError, match="early: was never, is each message"):
        deltas[1].check_same(deltas[0].to_dict())


def test_the_retention_may_change_where_rows_are_limited() -> None:
    """The stored messages are counted again then."""
    limited = replace(SPEC, firing=Firing(retention=SECOND, rows=5))
    for firing in (Firing(retention=2 * SECOND, rows=5), Firing(retention=SECOND, rows=7)):
        replace(limited, firing=firing).check_same(limited.to_dict())


SLIDING = replace(
    SPEC,
    windows=sliding("10 s"),
    aggregates={"n": aggregates.count(), "last": aggregates.sum("value").over("4 s")},
)


def test_an_aggregate_over_a_part_of_its_windows() -> None:
    assert SLIDING.words()["agg last"] == "sum(value) over 4 seconds"
    assert WindowSpec.from_dict(SLIDING.to_dict()) == SLIDING
    other_aggregates = {**SLIDING.aggregates, "last": aggregates.sum("value").over("5 s")}
    with pytest.raises(SpecChangedError, match=r"agg last: was sum.* 4 seconds, is sum.* 5 sec"):
        replace(SLIDING, aggregates=other_aggregates).check_same(SLIDING.to_dict())
    more_aggregates = {**SLIDING.aggregates, "mean": aggregates.mean("value").over("10 s")}
    replace(SLIDING, aggregates=more_aggregates).check_same(SLIDING.to_dict())
    # The stored state doesn't have the number of messages in a part.
    more_aggregates = {**SLIDING.aggregates, "few": aggregates.count().over("1 s")}
    with pytest.raises(SpecChangedError, match="agg few: was absent, is count"):
        replace(SLIDING, aggregates=more_aggregates).check_same(SLIDING.to_dict())


@pytest.mark.parametrize(
    ("windows", "problem"),
    [
        (tumbling("10 s"), "looks back 4 seconds within tumbling 10 seconds windows"),
        (sliding("3 s"), "looks back 4 seconds, and its windows don't: sliding 3 seconds"),
    ],
)
def test_an_aggregate_over_more_than_its_windows_is_refused(windows: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=f"agg='last' {problem}"):
        replace(SLIDING, windows=windows)


def test_an_aggregate_over_no_time() -> None:
    with pytest.raises(OptionError, match="over="):
        aggregates.sum("value").over("0 s")


@pytest.mark.parametrize(
    ("windows", "problem"),
    [
        (sliding("10 s"), "looks back 3 rows within sliding 10 seconds windows"),
        (rolling(rows(2)), "looks back 3 rows, and its windows don't: rolling 2 rows"),
    ],
)
def test_an_aggregate_over_rows_that_its_windows_do_not_have(windows: Any, problem: str) -> None:
    aggs = {"last": aggregates.sum("value").over(rows(3))}
    with pytest.raises(OptionError, match=f"agg='last' {problem}"):
        replace(SLIDING, windows=windows, aggregates=aggs, lateness=0, firing=Firing())


def test_an_aggregate_that_no_message_can_be_in() -> None:
    aggs = {"last": aggregates.sum("value").over(rows(1))}
    windows = rolling(rows(3), "neither")
    with pytest.raises(OptionError, match="where no message can be"):
        replace(SLIDING, windows=windows, aggregates=aggs, lateness=0, firing=Firing())


def test_a_row_for_each_message_has_no_parts() -> None:
    firing = replace(SLIDING.firing, accumulate=False)
    with pytest.raises(OptionError, match="deltas="):
        replace(SLIDING, windows=rolling("10 s"), firing=firing)


def test_a_count_that_excludes_its_message_is_not_added_to_stored_state() -> None:
    spec = replace(SLIDING, windows=rolling("10 s", "left"), aggregates={"n": aggregates.count()})
    extended_spec = replace(spec, aggregates={**spec.aggregates, "m": aggregates.count()})
    with pytest.raises(SpecChangedError):
        extended_spec.check_same(spec.to_dict())


def test_aggregates_may_be_added_behind_the_others() -> None:
    more_aggregates = SPEC.aggregates | {"most": aggregates.max("other")}
    extended_spec = replace(SPEC, aggregates=more_aggregates, types={**SPEC.types, "other": "long"})
    extended_spec.check_same(SPEC.to_dict())
    with pytest.raises(SpecChangedError, match="agg most: was max"):
        SPEC.check_same(extended_spec.to_dict())
    first_aggregates = {"most": aggregates.max("value"), **SPEC.aggregates}
    with pytest.raises(SpecChangedError, match="agg most: was absent, is max"):
        replace(SPEC, aggregates=first_aggregates).check_same(SPEC.to_dict())
    last_aggregates = SPEC.aggregates | {"one": aggregates.first("value")}
    with pytest.raises(SpecChangedError, match="agg one: was absent, is first"):
        replace(SPEC, aggregates=last_aggregates).check_same(SPEC.to_dict())


def test_a_policy_without_an_effect_may_be_left_out_of_an_existing_checkpoint() -> None:
    by_arrival = replace(SPEC, windows=rolling(rows(3)), firing=Firing(), time=None, lateness=0)
    accepted_once = replace(by_arrival, firing=Firing(early=Every(SECOND), retention=9))
    assert by_arrival.differences(accepted_once) == []
    assert accepted_once.differences(by_arrival)
    for one in (accepted_once, replace(accepted_once, firing=Firing(retention=9))):
        with pytest.raises(OptionError, match="has no effect"):
            check_effects(one)
    assert check_effects(by_arrival) == by_arrival
