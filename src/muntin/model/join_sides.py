"""The join of two queries under construction, as all front ends share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muntin.model.joins import JoinSpec, find_bound, make_pairs
from muntin.model.kinds import require_one_axis
from muntin.model.option_types import check_boolean
from muntin.model.sentence import Sentence


def join_sides(left: Sentence, right: Sentence, options: Mapping[str, Any]) -> JoinSpec:
    """Return the join of two inputs, by the options of `join` apart from the windows' own."""
    pairs = make_pairs(options["on"])
    at_once = (left._input_options.time, right._input_options.time) in pairs
    bound = find_bound(
        options["within"],
        require_one_axis(left._windows),
        require_one_axis(right._windows),
        at_once=at_once,
        **{name: options[name] for name in ("as_of", "newest", "each_change")},
    )
    left_side, right_side = (
        sentence._side(tuple(pair[number] for pair in pairs), bound.axis)
        for number, sentence in enumerate((left, right))
    )
    how, layout, nulls = options["how"], options["layout"], options["nulls"]
    shared = options["shared_time"]
    check_boolean("shared_time", shared)
    check_boolean("each_change", options["each_change"])
    return JoinSpec(left_side, right_side, bound, how, layout, nulls=nulls, shared_time=shared)
