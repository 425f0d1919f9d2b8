"""The aggregates that drawn queries may have, by output name."""

from __future__ import annotations

from tests import typed
from tests.transcripts.notation import format_rows, multiply

from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.shapes import Shape

AGGREGATES = {
    "n": aggregates.count(),
    "values": aggregates.count("value"),
    "flags": aggregates.count_if("flag"),
    "sum": aggregates.sum("value"),
    "amount": aggregates.sum("amount"),
    "least": aggregates.min("value"),
    "most": aggregates.max("amount"),
    "mean": aggregates.mean("amount"),
    "variance": aggregates.variance("amount"),
    "stddev": aggregates.stddev("amount"),
    "first": aggregates.first("value"),
    "last": aggregates.last("amount"),
    "low": aggregates.arg_min("value", "amount"),
    "high": aggregates.arg_max("amount", "value"),
    "all": aggregates.bool_and("flag"),
    "some": aggregates.bool_or("flag"),
    "distinct": aggregates.approx_distinct("value"),
    "median": aggregates.quantile("amount", 0.5),
    "p90": aggregates.quantile("amount", 0.9),
}


# Aggregates whose values are exact numbers, between which windows can be filled.
NUMBERS = {"values", "flags", "sum", "amount", "least", "most", "mean", "first", "last", "low"}
FULL_STATE = {
    "middle": aggregates.median("amount"),
    "third": aggregates.exact_quantile("value", 0.3),
    "list": aggregates.collect_list("value"),
    "newest": aggregates.last_values("value"),
    "set": aggregates.distinct("amount"),
    "top": aggregates.top_k("value", 3),
    "often": aggregates.mode("value"),
    "different": aggregates.count_distinct("amount"),
    "once": aggregates.sum_distinct("value"),
    "own": multiply("amount"),
    "rows": format_rows("value", "flag"),
}
OF_NAMES = {
    "first_name": aggregates.first("name"),
    "last_name": aggregates.last("name"),
    "least_name": aggregates.min("name"),
    "most_name": aggregates.max("name"),
    "low_name": aggregates.arg_min("name", "amount"),
    "by_name": aggregates.arg_max("value", "name"),
    "names": aggregates.approx_distinct("name"),
    "flag_at": aggregates.last("flag"),
    "flag_of": aggregates.arg_max("flag", "value"),
}
NAMES = {
    "name_list": aggregates.collect_list("name"),
    "newest_names": aggregates.last_values("name"),
    "name_set": aggregates.distinct("name"),
    "flag_set": aggregates.distinct("flag"),
    "often_name": aggregates.mode("name"),
    "different_names": aggregates.count_distinct("name"),
}


def list_untried() -> dict[str, Aggregate]:
    """Return an aggregate over `value` of each kind that no line above has."""
    tried = {
        aggregate.kind
        for group in (AGGREGATES, FULL_STATE, OF_NAMES, NAMES)
        for aggregate in group.values()
    }
    whole = Shape("long", "integer")
    return {
        f"typed_{name}": typed.apply_to(aggregate, "value")
        for name, aggregate in typed.AGGREGATES.items()
        if aggregate.kind not in tried and aggregate.entry.accepts.accepts(whole)
    }


FULL_STATE |= list_untried()
