"""Specs of aggregates, by name and column.

An aggregate consists of *lift* (message to partial), *combine* (two partials to one; associative)
and *lower* (partial to value). The specs here only name these functions, or define them as formulas
that the engine applies to columns. Nulls follow Spark SQL: all aggregates but ``first`` and
``last`` skip them, and an aggregate without values is null (a count is 0).

The import of an aggregate here registers it by its name, and makes it available as ``muntin.NAME``.
"""

from __future__ import annotations

from muntin.model.aggregates.aggregate import Aggregate as Aggregate
from muntin.model.aggregates.aggregate import RowsFunction as RowsFunction
from muntin.model.aggregates.aggregate import UserFunctions as UserFunctions
from muntin.model.aggregates.chosen import arg_max as arg_max
from muntin.model.aggregates.chosen import arg_min as arg_min
from muntin.model.aggregates.chosen import bool_and as bool_and
from muntin.model.aggregates.chosen import bool_or as bool_or
from muntin.model.aggregates.chosen import first as first
from muntin.model.aggregates.chosen import last as last
from muntin.model.aggregates.chosen import max as max
from muntin.model.aggregates.chosen import min as min
from muntin.model.aggregates.count_distinct import count_distinct as count_distinct
from muntin.model.aggregates.counts import count as count
from muntin.model.aggregates.counts import count_if as count_if
from muntin.model.aggregates.entry import ENTRIES
from muntin.model.aggregates.entry import translate_name as translate_name
from muntin.model.aggregates.listed import collect_list as collect_list
from muntin.model.aggregates.listed import distinct as distinct
from muntin.model.aggregates.listed import last_values as last_values
from muntin.model.aggregates.mode import mode as mode
from muntin.model.aggregates.own import aggregate as aggregate
from muntin.model.aggregates.own import apply as apply
from muntin.model.aggregates.ranked import exact_quantile as exact_quantile
from muntin.model.aggregates.ranked import first_rows as first_rows
from muntin.model.aggregates.ranked import median as median
from muntin.model.aggregates.ranked import top_k as top_k
from muntin.model.aggregates.sketches import approx_distinct as approx_distinct
from muntin.model.aggregates.sketches import quantile as quantile
from muntin.model.aggregates.sum_distinct import sum_distinct as sum_distinct
from muntin.model.aggregates.sums import mean as mean
from muntin.model.aggregates.sums import stddev as stddev
from muntin.model.aggregates.sums import sum as sum
from muntin.model.aggregates.sums import variance as variance

NAMES = sorted(entry.make.__name__ for entry in ENTRIES.values())
