"""Evaluation of policies' conditions, for all windows of a frame at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from muntin.engine.windows.combine import Combiner
from muntin.model.conditions import COMPARE, Name, Term, read_condition
from muntin.model.errors import OptionError
from muntin.model.policies import Policy, When, parts
from muntin.state.rows import drop_columns


def add_condition_columns(
    windows: pl.DataFrame, policies: Sequence[Policy | None], combiner: Combiner
) -> pl.DataFrame:
    """Add a column to windows for each condition of the policies; windows are whole partials."""
    return windows.hstack(
        [
            _evaluate(windows, text, combiner).alias(condition_column(text))
            for text in _list_conditions(policies)
        ]
    )


def drop_condition_columns(
    windows: pl.DataFrame, policies: Sequence[Policy | None]
) -> pl.DataFrame:
    """Drop the columns that ``add_condition_columns`` adds."""
    return drop_columns(windows, *list_condition_columns(*policies))


def list_condition_columns(*policies: Policy | None) -> list[str]:
    """Return the columns that ``add_condition_columns`` adds."""
    return [condition_column(text) for text in _list_conditions(policies)]


def _list_conditions(policies: Sequence[Policy | None]) -> list[str]:
    each = (part for policy in policies for part in parts(policy))
    return sorted({part.condition for part in each if isinstance(part, When)})


def condition_column(text: str) -> str:
    """Return the name of the column for a condition."""
    return f"__muntin_holds {text}"


def check_conditions(combiner: Combiner) -> None:
    """Refuse conditions that can't be computed."""
    combiner.spec.check_conditions()
    firing, nothing = combiner.spec.firing, combiner.no_cells
    for policy in (*parts(firing.early), *parts(firing.late)):
        try:
            add_condition_columns(nothing, [policy], combiner)
        except pl.exceptions.PolarsError as error:
            assert isinstance(policy, When)
            hint = "compare numbers with numbers, texts with texts"
            problem = "compares values of different types"
            raise OptionError("when", policy.condition, problem, hint) from error


def _evaluate(windows: pl.DataFrame, text: str, combiner: Combiner) -> pl.Series:
    condition, spec = read_condition(text), combiner.spec
    named = zip(spec.aggregates, combiner.algebras, strict=True)
    values = {name: algebra.lower(windows) for name, algebra in named if name in condition.names}
    keys = dict(zip(spec.keys, combiner.keys, strict=False))
    values |= {name: windows[keys[name]] for name in condition.names if name in keys}
    frame = pl.DataFrame([series.alias(name) for name, series in values.items()])
    return frame.select(_build_expression(condition.tree).fill_null(False)).to_series()


def _build_expression(node: Any) -> pl.Expr:
    if isinstance(node, Name):
        return pl.col(node.name)
    if not isinstance(node, Term):
        return pl.lit(node)
    parts = [_build_expression(part) for part in node.parts]
    match node.sign:
        case "AND":
            return pl.all_horizontal(parts)
        case "OR":
            return pl.any_horizontal(parts)
        case "NOT":
            return ~parts[0]
    comparison: pl.Expr = COMPARE[node.sign](*parts)
    return comparison
