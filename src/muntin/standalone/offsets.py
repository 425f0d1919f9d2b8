"""Adds the offsets of each window's first and last message to its aggregates.

Source: the Samza SQL window operator design, "Window Metadata".
"""

from __future__ import annotations

from dataclasses import replace

from muntin.model.aggregates import max, min
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec

START_OFFSET, LAST_OFFSET = "start_offset", "last_offset"


def add_offsets(spec: WindowSpec) -> WindowSpec:
    """Return the query with the aggregates ``start_offset`` and ``last_offset`` added.

    Raises:
        OptionError: When messages have no offsets, or the names are taken.

    Example:
        >>> from muntin import count
        >>> from muntin.standalone import windowed
        >>> counted = windowed(time="at", offset=("partition", "offset")).tumbling("1 minute")
        >>> list(add_offsets(counted.agg(n=count())).aggregates)
        ['n', 'start_offset', 'last_offset']
    """
    if spec.offset is None:
        hint = 'give windowed(…, offset=("partition", "offset"))'
        raise OptionError("offsets", True, "asks for what messages don't have", hint)
    for name in (START_OFFSET, LAST_OFFSET):
        if name in spec.aggregates or name in spec.keys:
            raise OptionError("offsets", True, f"adds {name!r}, which is there", "rename it")
    number = spec.offset[1]
    added = {START_OFFSET: min(number), LAST_OFFSET: max(number)}
    return replace(spec, aggregates={**spec.aggregates, **added})
