"""Conversion of partials to result rows, with named values and bounds of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import polars as pl

from muntin.engine import columns
from muntin.engine.dtypes import instant_type
from muntin.engine.fills import make_constants, value_column
from muntin.engine.windows.combine import Combiner
from muntin.model.fill import LINEAR, PREVIOUS

# The empty frames of each combiner, since a shard that is opened for every batch needs them.
_EMPTY_FRAMES: WeakKeyDictionary[Combiner, dict[str, pl.DataFrame]] = WeakKeyDictionary()


def build_results(
    emitted: pl.DataFrame, combiner: Combiner, order: Sequence[str] = ()
) -> pl.DataFrame:
    """Lower partials to values, by window start, then key, with retractions first."""
    spec = combiner.spec
    emitted = combiner.sort_emitted(emitted, order)
    values = _values(emitted, combiner)
    exists_still = emitted[columns.EMISSION] != "retract"
    if not exists_still.all():
        # Retracted windows have no values, not even a count of 0.
        values = [v.zip_with(exists_still, v.clear(len(v))) for v in values]
    return pl.DataFrame(
        [
            # The internal key of a query without keys isn't emitted.
            *(emitted[k].alias(n) for k, n in zip(combiner.keys, spec.state_keys, strict=False)),
            *_label_results(emitted, combiner),
            combiner.find_starts(emitted).alias(columns.WINDOW_START),
            combiner.find_ends(emitted).alias(columns.WINDOW_END),
            *values,
            emitted[columns.EMISSION],
            emitted[columns.REVISION].cast(pl.Int64),
        ]
    )


def _label_results(emitted: pl.DataFrame, combiner: Combiner) -> list[pl.Series]:
    """Return the key columns that only results have."""
    windows = combiner.spec.windows
    if windows.result_key is None:
        return []
    labels = pl.Series(windows.result_key, windows.labels)
    return [labels.gather(emitted[columns.WINDOW] % len(labels))]


def _values(emitted: pl.DataFrame, combiner: Combiner) -> list[pl.Series]:
    """Return the named values of windows; filled windows have no partials."""
    pairs = list(zip(combiner.algebras, combiner.spec.aggregates.items(), strict=True))
    fill = combiner.spec.firing.fill
    if fill is None:
        return [algebra.lower(emitted).alias(name) for algebra, (name, _) in pairs]
    has_messages = _has_messages(emitted)
    row = pl.select(pl.when(has_messages).then(has_messages.cum_sum() - 1)).to_series()
    windows = emitted.filter(has_messages)
    filled_columns = []
    for index, (algebra, (name, aggregate)) in enumerate(pairs):
        values = algebra.lower(windows).gather(row).alias(name)
        way, column = fill.way_of(name), value_column(index)
        if way not in (PREVIOUS, LINEAR):
            empty = make_constants(aggregate, way, values.dtype, len(values))
        elif column in emitted.columns:
            empty = emitted[column]
        else:
            empty = values.clear(len(values))
        filled_columns.append(values.zip_with(has_messages, empty))
    return filled_columns


def _has_messages(emitted: pl.DataFrame) -> pl.Series:
    """Return the mask of windows that have messages and aren't filled."""
    return emitted[columns.MESSAGES].ne_missing(0)


def build_values(windows: pl.DataFrame, combiner: Combiner) -> pl.DataFrame:
    """Return the values of windows like results, but without emission and revision."""
    return _build_unemitted(windows, combiner).drop(columns.EMISSION, columns.REVISION)


def no_results(combiner: Combiner) -> pl.DataFrame:
    """Return an empty frame of results, with all columns and types."""
    return share_empty(combiner, "results", lambda: _build_unemitted(combiner.no_windows, combiner))


def share_empty(combiner: Combiner, name: str, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """Return an empty frame, which is computed once for all shards of a combiner."""
    frames = _EMPTY_FRAMES.setdefault(combiner, {})
    if name not in frames:
        frames[name] = make()
    return frames[name]


def _build_unemitted(windows: pl.DataFrame, combiner: Combiner) -> pl.DataFrame:
    emission, revision = pl.lit("").alias(columns.EMISSION), columns.number(columns.REVISION)
    return build_results(windows.with_columns(emission, revision), combiner)


def reject_overflows(emitted: pl.DataFrame, combiner: Combiner) -> pl.DataFrame:
    """Return a rejected row for each emission with a sum or mean that doesn't fit its type.

    The row has the key and, if there is a column for it, the window's start.
    """
    if combiner.spec.firing.fill is not None:
        emitted = emitted.filter(_has_messages(emitted))
    overflowing = [algebra.find_overflows(emitted) for algebra in combiner.algebras]
    masks = [rows.fill_null(False) for rows in overflowing if rows is not None and rows.any()]
    if not masks:
        return combiner.nothing_rejected
    overflowed = emitted.filter(pl.any_horizontal(masks))
    spec, start = combiner.spec, combiner.find_starts(overflowed)
    reason = pl.lit("overflow").alias(columns.REASON)
    key_pairs = zip(combiner.keys, spec.key_columns, strict=False)
    rows = overflowed.with_columns(reason).select(
        *(pl.col(key).alias(name) for key, name in key_pairs), columns.REASON
    )
    if spec.axis == "time":
        rows = rows.with_columns(start.alias(columns.TIME))
        name = str(spec.time)
        if name in combiner.schema and name not in rows.columns:
            dtype = combiner.schema[name]
            rows = rows.with_columns(start.cast(instant_type(dtype)).cast(dtype).alias(name))
    elif spec.offset is not None:
        name = spec.offset[1]
        rows = rows.with_columns(start.cast(combiner.schema[name], strict=False).alias(name))
    return pl.concat([combiner.nothing_rejected, rows], how="diagonal")
