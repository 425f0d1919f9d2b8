from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.unit.engine.queries import combiner, compute_value, lower_partials, messages

from muntin.model import aggregates
from muntin.model.aggregates import Aggregate


def concatenate(**functions: Any) -> Aggregate:
    """Return an aggregate whose text shows in which order its functions were called."""
    defaults: dict[str, Any] = {
        "initializer": lambda: "",
        "aggregator": lambda state, value: f"{state}{value}",
        "merger": lambda one, other: f"{one}+{other}",
        "state_type": "string",
    }
    return aggregates.aggregate("value", **(defaults | functions))


class OddError(Exception):
    """An error whose constructor takes two arguments."""

    def __init__(self, details: object, place_name: str) -> None:
        super().__init__(f"{details} {place_name}")
        self.details = details


class TestUser:
    @pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)])
    @pytest.mark.parametrize(("start", "expected"), [("", "1+2+3"), ("0", "01+02+03")])
    def test_every_message_begins_a_state_and_states_merge_in_order(
        self, cuts: tuple[int, ...], start: str, expected: str
    ) -> None:
        rows = [("a", time, time) for time in (1, 2, 3)]
        assert compute_value(concatenate(initializer=lambda: start), rows, cuts) == expected

    @pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)])
    def test_a_state_of_none_is_no_state(self, cuts: tuple[int, ...]) -> None:
        odd = concatenate(aggregator=lambda _, value: str(value) if value % 2 else None)
        assert compute_value(odd, [("a", time, time) for time in (1, 2, 3)], cuts) == "1+3"
        assert compute_value(odd, [("a", time, 2) for time in (1, 2, 3)], cuts) is None

    def test_the_finisher_comes_last_and_once(self) -> None:
        rows = [("a", 1, 1), ("a", 2, 2)]
        agg = concatenate(finisher=len, result_type="long")
        assert compute_value(agg, rows, (1,)) == len("1+2")

    def test_nulls_are_not_seen(self) -> None:
        rows = [("a", 1, None), ("a", 2, 7), ("a", 3, None)]
        for cuts in [(), (1,), (1, 2)]:
            assert compute_value(concatenate(), rows, cuts) == "7"
        assert compute_value(concatenate(), [("a", 1, None)]) is None

    @pytest.mark.parametrize(
        ("state_type", "state", "dtype"),
        [
            ("long", 2**60, pl.Int64),
            ("double", 0.5, pl.Float64),
            ("string", "é", pl.String),
            ("binary", b"\0\xff", pl.Binary),
            ("boolean", True, pl.Boolean),
        ],
    )
    def test_states_of_every_type(self, state_type: str, state: Any, dtype: Any) -> None:
        agg = concatenate(
            initializer=lambda: state,
            aggregator=lambda state, _: state,
            merger=lambda one, _: one,
            state_type=state_type,
        )
        assert compute_value(agg, [("a", 1, 1), ("a", 2, 2)], (1,)) == state
        query = combiner(aggs={"x": agg})
        assert query.no_cells["a0.u"].dtype == pl.List(dtype)

    def test_keys_do_not_share_a_state(self) -> None:
        query = combiner(aggs={"x": concatenate()})
        cells = query.lift(messages([("a", 1, 1), ("b", 1, 5), ("a", 2, 2)])).sort("k0")
        assert lower_partials(cells, query) == [{"x": "1+2"}, {"x": "5"}]

    @pytest.mark.parametrize("cuts", [(), (1,)])
    @pytest.mark.parametrize(
        ("state_type", "state"), [("long", 2**70), ("long", 0.5), ("string", 7), ("boolean", "x")]
    )
    def test_a_state_of_another_type_is_refused_by_name(
        self, state_type: str, state: Any, cuts: tuple[int, ...]
    ) -> None:
        agg = concatenate(
            aggregator=lambda *_: state, merger=lambda one, _: one, state_type=state_type
        )
        with pytest.raises(TypeError, match=f"state_type='{state_type}' can't hold '{state}'"):
            compute_value(agg, [("a", 1, 1), ("a", 2, 2)], cuts)

    @pytest.mark.parametrize("cuts", [(), (1,)])
    @pytest.mark.parametrize("name", ["initializer", "aggregator", "merger", "finisher"])
    def test_an_error_of_a_function_is_raised_unchanged(
        self, name: str, cuts: tuple[int, ...]
    ) -> None:
        def fail(*arguments: Any) -> str:
            raise OddError(arguments, "there")

        with pytest.raises(OddError, match=r"there$") as caught:
            compute_value(concatenate(**{name: fail}), [("a", 1, 1), ("a", 2, 2)], cuts)
        assert len(caught.value.details) == {"initializer": 0, "finisher": 1}.get(name, 2)

    def test_a_merged_state_of_another_type_is_refused_by_name(self) -> None:
        agg = concatenate(
            initializer=lambda: 0,
            aggregator=lambda *_: 2**62,
            merger=lambda one, other: one + other,
            state_type="long",
        )
        assert compute_value(agg, [("a", 1, 1)]) == 2**62
        with pytest.raises(TypeError, match="can't hold '9223372036854775808'"):
            compute_value(agg, [("a", 1, 1), ("a", 2, 2)], (1,))

    @pytest.mark.parametrize(
        "agg",
        [
            concatenate(finisher=lambda _: 2**70, result_type="long"),
            aggregates.apply(lambda _: 2**70, "value", result_type="long"),
        ],
    )
    def test_a_result_of_another_type_is_refused_by_name(self, agg: Aggregate) -> None:
        with pytest.raises(TypeError, match="result_type='long' can't hold"):
            compute_value(agg, [("a", 1, 1)])
